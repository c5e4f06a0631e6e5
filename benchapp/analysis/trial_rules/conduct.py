"""Rules about how a failed trial went about its work. They read commands, not minds."""

from __future__ import annotations

import re

from benchapp.analysis.failures.quotes import cut_quote, words_around
from benchapp.analysis.trial_rules.course import edges
from benchapp.analysis.trial_rules.rule_finding import FindingPlace, Reason
from benchapp.analysis.trial_rules.trial_facts import TrialFacts

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
    """Failed, and results ended with the same error (numbers aside) at least three times.

    Cannot see: errors worded differently each time; whether the repetition was a search that made progress.
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
    """Failed, and after its last change the trial neither read a file, nor listed a folder, nor ran a test or a check.

    Cannot see: a program that checks and prints its own result; looking that was of no use, which counts as looking.
    """
    course = facts.course
    if not (facts.failed and course and course.changed) or max(course.looked, course.tested) > course.changed:
        return None
    if course.looked == course.changed or course.tested == course.changed:
        return None
    return Reason("Nothing was looked at after the last change.", "agent", course.change_place)


def premature_success(facts: TrialFacts) -> Reason | None:
    """Failed, the last words of the agent say that the work is done and right, and no test or check was run after the
    last change: at most the result was looked at.

    Cannot see: checking by eye; a program that tests itself under a name that does not say so.
    """
    course = facts.course
    if not (facts.failed and course and course.closing) or (course.tested and course.tested >= course.changed):
        return None
    words = edges(course.closing.quote)
    claim = _CLAIMS.search(words)
    if claim is None and not course.declared_done:
        return None
    if _DOUBTS.search(words):
        return None
    quote = words_around(claim) if claim else cut_quote(words)
    return Reason(
        "Said to be done; no test was run after the last change.", "agent", FindingPlace(course.closing.step, quote)
    )
