"""Rules about how a failed trial went about its work and its skills. They read commands, not minds."""

from __future__ import annotations

import re

from benchapp.analysis.failures.quotes import cut_quote, quote_around
from benchapp.analysis.trial_rules.course import cut_edges
from benchapp.analysis.trial_rules.rule_finding import FindingPlace, Reason
from benchapp.analysis.trial_rules.trial_facts import TrialFacts


def silent_bypass(facts: TrialFacts) -> Reason | None:
    """Failed; skills were mounted, and no step reads, invokes or executes one.

    Cannot see: a skill whose text is in the prompt; whether reading would have helped; trials without a record of
    what was mounted, as in most imports.
    """
    if not (facts.failed and facts.mounted and facts.course) or facts.read:
        return None
    names = ", ".join(sorted(facts.mounted)[:5])
    return Reason(f"{len(facts.mounted)} mounted ({names}), none read in {facts.course.steps_total} steps.", "agent")


def read_and_failed(facts: TrialFacts) -> Reason | None:
    """Failed after reading, invoking or executing a skill.

    Cannot see: whether the advice was followed, misapplied or wrong, so it blames nobody; whether the skill has
    anything to do with the failure.
    """
    if not (facts.failed and facts.read):
        return None
    skill, step = facts.read[0]
    more = f" and {len(facts.read) - 1} more" if len(facts.read) > 1 else ""
    return Reason(f"Read {skill}{more}, and failed.", "", FindingPlace(step, "") if step else None)


def skill_missing(facts: TrialFacts) -> Reason | None:
    """Failed after asking the harness for a skill that does not exist.

    Cannot see: a search by listing folders; whether the skill has another name.
    """
    if not (facts.failed and facts.course and facts.course.skill_missing):
        return None
    return Reason("Asked for a skill that does not exist.", "", facts.course.skill_missing)


REPEATS = 3

_CLAIMS = re.compile(
    r"\b(?:success(?:ful(?:ly)?)?|(?:is|are|been|now) (?:complete|done|finished|ready)|completed|finished"
    r"|[Dd]one[.!]|[Aa]ll (?:tests|checks) pass(?:ed)?|verified|as (?:required|requested))\b"
)
_DOUBTS = re.compile(
    r"\b(?:could ?n[o']t|was not able|unable to|did ?n[o']t (?:manage|finish|complete)|not (?:complete|finished|done)"
    r"|incomplete|unverified|ran out of|still fail|remains? (?:unsolved|open)|partial(?:ly)?)\b",
    re.IGNORECASE,
)


def repeated_error(facts: TrialFacts) -> Reason | None:
    """Failed; at least three results end with the same error, ignoring numbers.

    Cannot see: errors with different wording; whether the repetition made progress.
    """
    course = facts.course
    if not (facts.failed and course and course.errors):
        return None
    key, times = course.errors.most_common(1)[0]
    if times < REPEATS:
        return None
    first, last, words = course.error_places[key]
    return Reason(
        f"The same error {times} times, from step {first} to step {last}.", "agent", FindingPlace(first, words)
    )


def incomplete_verification(facts: TrialFacts) -> Reason | None:
    """Failed; after its last change, read no file, listed no folder and ran no test or check.

    Cannot see: a program that checks and prints its own result; a look that did not help, which counts as a look.
    """
    course = facts.course
    if not (facts.failed and course and course.changed) or max(course.looked, course.tested) >= course.changed:
        return None
    return Reason("Checked nothing after the last change.", "agent", course.change_place)


def premature_success(facts: TrialFacts) -> Reason | None:
    """Failed; the agent's last words claim success, and it ran no test or check after its last change.

    Cannot see: checking by eye; a program that tests itself under another name.
    """
    course = facts.course
    if not (facts.failed and course and course.closing) or (course.tested and course.tested >= course.changed):
        return None
    words = cut_edges(course.closing.quote)
    claim = _CLAIMS.search(words)
    if claim is None and not course.declared_done:
        return None
    if _DOUBTS.search(words):
        return None
    quote = quote_around(claim) if claim else cut_quote(words)
    return Reason(
        "Claimed to be done; ran no test after the last change.", "agent", FindingPlace(course.closing.step, quote)
    )
