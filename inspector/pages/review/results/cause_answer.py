"""The results page in one sentence, and what comes next: by rules, from the ranked causes."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from benchapp.models import Queue
from benchapp.review.results.queue_results import Basis
from benchapp.review.results.taxonomy import Per
from benchapp.stats.inference.shares import Z_95, half_up
from inspector.pages.review.results.causes import Cause, RankedCauses
from inspector.pages.review.results.results import Results

NOUNS = {Queue.Unit.TRIAL: "trial", Queue.Unit.DECISION: "decision", Queue.Unit.SNAPSHOT: "library"}
PLURALS = {Queue.Unit.TRIAL: "trials", Queue.Unit.DECISION: "decisions", Queue.Unit.SNAPSHOT: "libraries"}
LEDE = 3  # causes named under the sentence
AGREEMENT_WAITS = "are still to come: every item has one, and agreement waits for the rest."


@dataclass(frozen=True, slots=True)
class Answer:
    """question and title head the page; first and then are its sentence; counts: what every number of the page counts."""

    noun: str
    nouns: str
    title: str
    question: str
    first: str
    then: str
    lede: tuple[Cause, ...]
    per: str
    counts: str
    settle: str
    settle_about: str


def answer_of(results: Results, causes: RankedCauses) -> Answer:
    noun, nouns = _nouns(results)
    only_failures = all(item.facts.failed for item in results.coding.drawn) and results.coding.unit == Queue.Unit.TRIAL
    title = "Why trials fail" if only_failures else f"What goes wrong in {nouns}"
    question = "Why do trials fail?" if only_failures else f"What goes wrong in {nouns}?"
    first, then = _sentence(causes, noun, nouns)
    lede = () if causes.are_few else tuple(causes.top[:LEDE])
    per = _per(results, nouns)
    counts = f"Every number here counts the {causes.n} {nouns if causes.n != 1 else noun} reviewed."
    counts = counts if causes.are_few else f"Every number here counts {per}."
    return Answer(noun, nouns, title, question, first, then, lede, per, counts, *_next(results))


def _nouns(results: Results) -> tuple[str, str]:
    unit = Queue.Unit(results.coding.unit)
    return NOUNS[unit], PLURALS[unit]


def _per(results: Results, nouns: str) -> str:
    return {
        Per.FAILED: "per 100 failed trials",
        Per.ATTEMPTED: "per 100 trials that ran",
        Per.POPULATION: f"per 100 {nouns} of the population",
    }[results.per]


def _sentence(causes: RankedCauses, noun: str, nouns: str) -> tuple[str, str]:
    if not causes.n:
        return f"No {noun} is reviewed yet.", ""
    reviewed = f"{causes.n} {noun if causes.n == 1 else nouns} reviewed."
    if not causes.top:
        return reviewed, "Reviewers found nothing wrong."
    if causes.are_few:
        return f"{reviewed} {_most(causes.top, causes.n)}", "More reviews may change the order." if len(
            causes.top
        ) > 1 else ""
    of = "failures" if causes.results.per is Per.FAILED else nouns
    return _ranked(causes.top, of)


def _most(top: list[Cause], reviewed: int) -> str:
    """Of few: a count, and no word that ranks."""
    first = top[0]
    equal = [cause for cause in top if cause.value == first.value]
    if len(equal) > 1:
        return f"{len(equal)} causes are in {first.value} of them each."
    if top[1:]:
        return f"Most common so far: “{first.code.name}” ({first.value} of {reviewed})."
    return f"“{first.code.name}” is in {first.value} of them."


def _ranked(top: list[Cause], of: str) -> tuple[str, str]:
    """The first leads where its interval lies above that of the second: a strict rule, so a lead is one."""
    first = top[0]
    if len(top) == 1:
        return f"“{first.code.name}” is the only cause:", f"{first.value} of 100 {of}."
    second = top[1]
    if _lies_above(first, second):
        return (
            f"“{first.code.name}” leads with {first.value} of 100 {of}.",
            f"“{second.code.name}” comes next: {second.value}.",
        )
    return f"“{first.code.name}” and “{second.code.name}” come first.", "Which of them leads is not settled."


def _lies_above(one: Cause, other: Cause) -> bool:
    return bool(one.lane.low and other.lane.high) and float(one.lane.low) > float(other.lane.high)


def _next(results: Results) -> tuple[str, str]:
    """What to do about these numbers: bring in the reviews that are missing, else settle what is open."""
    counted = results.heading.counted
    unreviewed = counted[Basis.OPEN]
    if left := results.reviews_left:
        half = 100 * Z_95 * sqrt(0.25 / max(1, results.heading.drawn))
        about = f"shrink the intervals to about ±{half_up(half)} points." if unreviewed else AGREEMENT_WAITS
        return f"{left} more review{'' if left == 1 else 's'}", about
    if split := counted[Basis.SPLIT]:
        return (
            f"Settle {split} disagreement{'' if split == 1 else 's'}.",
            "Until then a disagreement counts by its reviewers' shares.",
        )
    if unreviewed:
        items = "item stays" if unreviewed == 1 else "items stay"
        return "The queue is closed.", f"{unreviewed} {items} unreviewed: no more reviews come in."
    return "Every item drawn is reviewed.", "No disagreement is open."
