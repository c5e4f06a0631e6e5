"""Rules about the skills a failed trial had."""

from __future__ import annotations

from benchapp.analysis.trial_rules.rule_finding import FindingPlace, Reason
from benchapp.analysis.trial_rules.trial_facts import TrialFacts


def silent_bypass(facts: TrialFacts) -> Reason | None:
    """The trial failed, skills were mounted, and no step reads, invokes or executes one of them.

    Cannot see: a skill whose text stood in the prompt already; whether reading one would have helped; trials of which
    nobody knows what was mounted, as in most imports.
    """
    if not (facts.failed and facts.mounted and facts.course) or facts.read:
        return None
    names = ", ".join(sorted(facts.mounted)[:5])
    return Reason(f"{len(facts.mounted)} mounted ({names}), none read in {facts.course.steps_total} steps.", "agent")


def read_and_failed(facts: TrialFacts) -> Reason | None:
    """The trial failed although it read, invoked or executed a skill.

    Cannot see: whether the skill's advice was followed, misapplied or wrong, so it names no one to blame; nor whether
    the skill had to do with the failure at all.
    """
    if not (facts.failed and facts.read):
        return None
    skill, step = facts.read[0]
    more = f" and {len(facts.read) - 1} more" if len(facts.read) > 1 else ""
    return Reason(f"Read {skill}{more}, and failed.", "", FindingPlace(step, "") if step else None)


def skill_missing(facts: TrialFacts) -> Reason | None:
    """The trial failed, asked its harness for a skill, and was told that there is none of that name.

    Cannot see: a skill looked for by listing folders; whether the skill existed under another name.
    """
    if not (facts.failed and facts.course and facts.course.skill_missing):
        return None
    return Reason("A skill that it asked for was not there.", "", facts.course.skill_missing)
