"""The ranked causes as the results page draws them: bars with intervals, or one square per item where there are few;
and the answer of the page in one sentence, by rules, from these causes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

from benchapp.models import Code, Queue
from benchapp.review.queues.passes import judging_skills
from benchapp.review.results.code_counts import FEW
from benchapp.review.results.population_shares import Share
from benchapp.review.results.queue_results import Basis, Per, TaxonomyRow
from benchapp.review.results.review_exports import number
from benchapp.stats.comparing.condition_names import name_condition
from benchapp.stats.inference.interval import Interval
from benchapp.stats.inference.shares import Z_95, half_up
from inspector.pages.review.results.results import Example, Results
from runner.base.text import plural

HALF = "½"
SQUARE = 16  # px from one square to the next
NOUNS = {Queue.Unit.TRIAL: "trial", Queue.Unit.DECISION: "decision", Queue.Unit.SNAPSHOT: "library"}
PLURALS = {Queue.Unit.TRIAL: "trials", Queue.Unit.DECISION: "decisions", Queue.Unit.SNAPSHOT: "libraries"}


@dataclass(frozen=True, slots=True)
class Lane:
    """Where a bar ends and its interval begins and ends, in percent of the axis;
    without a bar where counts say more."""

    width: str = ""
    low: str = ""
    high: str = ""


class Cause:
    """One used code. `squares`: ("on", "half" or "", place) for each reviewed item, where these are few. `below`: the
    used codes under it, in reading order."""

    def __init__(self, causes: RankedCauses, row: TaxonomyRow, below: Sequence[Cause]) -> None:
        self.row, self.code, self.below, results = row, row.code, below, causes.results
        share, members, self.lane = row.shares[results.per], results.coding.within(row.code), Lane()
        self.key, self.is_about_skills = results.keys.get(row.code.pk, ""), row.code.pk in causes.about_skills
        kinds: list[str] = []
        if causes.are_few:  # the items that carry it first, then those whose reviewers differ
            shares = sorted((item.share(members) for item in results.chosen_items), reverse=True)
            kinds = ["on" if each == 1 else "half" if each else "" for each in shares]
            sure, open_ = kinds.count("on"), kinds.count("half")  # 9, and 3 that reviewers disagree about: "9 to 12"
            self.value, self.note = f"{sure:,} to {sure + open_:,}" if open_ else f"{sure:,}", f"of {causes.n}"
        elif share.shown is None:
            self.value, self.note = count_text(share.k), f"of {share.n}"
        else:
            self.value, self.note = per_hundred(share.shown), ends_text(results.interval(share))
            self.lane = causes.draw_lane(share, causes.reach)
        self.squares = [(kind, SQUARE * place) for place, kind in enumerate(kinds)]
        self.squares_width = SQUARE * len(kinds)
        found = (causes.examples.get(key, ()) for key in (row.code.pk, *sorted(members - {row.code.pk})))
        self.examples = list({each.url: each for examples in found for each in examples}.values())[:3]


class RankedCauses:
    """Everything the page draws of the codes, of one set of results."""

    few = FEW  # shares are shown from this number of reviews

    def __init__(self, results: Results, examples: Mapping[int, Sequence[Example]]) -> None:
        self.results = results
        self.n = len(results.chosen_items)  # items counted here, in the chosen part
        self.are_few = self.n < FEW
        self.examples, self.about_skills = examples, judging_skills(results.coding.codes)
        self.unused = sum(not row.is_used for row in results.rows)
        # where the axis ends: the next ten above everything drawn
        self.reach = self._reach(row.shares[results.per] for row in results.rows)
        self.top = list(self._walk(None))  # the used codes at the top of the tree, most frequent first
        self.has_intervals = any(cause.lane.low for cause in self.top)

    def _reach(self, shares: Iterable[Share]) -> int:
        ends = [0.1]
        for share in shares:
            around = self.results.interval(share)
            ends += [around.high if around else 0.0, share.shown or 0.0]
        return min(100, int(-(-100 * max(ends) // 10) * 10))

    @property
    def ticks(self) -> list[tuple[str, str, str]]:
        """Return (place in percent, number, text anchor) of each tick."""
        step = 20 if self.reach > 50 else 10
        anchors = {0: "start", self.reach: "end"}
        return [
            (f"{100 * each / self.reach:.2f}", str(each), anchors.get(each, "middle"))
            for each in range(0, self.reach + 1, step)
        ]

    def draw_lane(self, share: Share, reach: float) -> Lane:
        """Draw a lane. `reach`: where its axis ends, in percent."""
        if share.shown is None:
            return Lane()
        around = self.results.interval(share)
        ends = (around.low, around.high) if around else ()
        return Lane(*(f"{10000 * each / reach:.2f}" for each in (share.shown, *ends)))

    def _walk(self, parent: int | None) -> Iterator[Cause]:
        known = {row.code.pk for row in self.results.rows}
        for row in self.results.rows:  # the most frequent first on each level
            if (row.code.parent_id if row.code.parent_id in known else None) == parent and row.is_used:
                below = [each for cause in self._walk(row.code.pk) for each in (cause, *cause.below)]
                yield Cause(self, row, below)

    # --- by one facet ---

    def heads(self) -> list[dict[str, object]]:
        """Return the columns: conditions in their usual order; other groups with the most items first. colour: the
        part of `--c-own-3` behind `--c-`, empty for anything but a condition."""
        by_condition = self.results.asked.by == "condition"
        groups = list(self.results.groups.items())
        if by_condition:
            groups.sort(key=lambda group: name_condition(group[0]).order)
        return [
            {
                "value": value,
                "name": value or "not reported",
                "colour": name_condition(value).colour if by_condition else "",
                "n": shares[0].n,
            }
            for value, shares in groups
        ]

    def group_rows(self, heads: Sequence[Mapping[str, object]]) -> list[tuple[Code, list[tuple[Lane, str, str]]]]:
        """Return (code, (bar, value, counts) for each head)."""
        order = {code.pk: place for place, (code, _) in enumerate(self.results.taxonomy.tree)}
        groups = self.results.groups
        rows = {cause.code: [groups[str(head["value"])][order[cause.code.pk]] for head in heads] for cause in self.top}
        reach = self._reach(share for row in rows.values() for share in row)
        return [(code, [self._draw_cell(share, reach) for share in row]) for code, row in rows.items()]

    def _draw_cell(self, share: Share, reach: float) -> tuple[Lane, str, str]:
        counts = f"{count_text(share.k)} of {share.n}" if share.n else "none reviewed"
        value = "" if share.shown is None or self.are_few else f"{per_hundred(share.shown)} %"
        return self.draw_lane(share, reach), value, counts


# --- numbers as text ------------------------------------------------------------------------------------------------


def cell_text(share: Share, around: Interval | None) -> dict[str, str]:
    """Return a share as the pages write it: without a value below ten coded, where the counts say it all."""
    counts = f"{number(share.k)}/{share.n}" if share.n else "none coded"
    if share.shown is None:
        return {"value": "", "counts": counts, "note": share.note}
    note = share.note if around is None else ""
    ends = ends_text(around, "–", digits=1)
    return {"value": str(half_up(100 * share.shown, 1)), "ends": ends, "counts": counts, "note": note}


def count_text(count: float) -> str:
    """Write a count: 6 -> "6", 6.5 -> "6½", 6.33 -> "6.3"."""
    whole, part = int(count), round(count - int(count), 2)
    if not part:
        return f"{whole:,}"
    return f"{whole or ''}{HALF}" if part == 0.5 else f"{count:.1f}"


def per_hundred(share: float) -> str:
    return str(half_up(100 * share, 0 if share >= 0.01 or not share else 1))


def ends_text(around: Interval | None, to: str = " to ", digits: int = 0) -> str:
    """Write an interval: "36 to 46", or "36.1–45.6" as a table writes it. What was counted whole has none."""
    if around is None:
        return ""
    if around.low == around.high:
        return "exact"
    return f"{half_up(100 * around.low, digits)}{to}{half_up(100 * around.high, digits)}"


# --- the answer -----------------------------------------------------------------------------------------------------


def answer_of(results: Results, causes: RankedCauses) -> dict[str, object]:
    """Return the answer: first and then head the page, title its tab; counts: what every number of the page
    counts."""
    unit = Queue.Unit(results.coding.unit)
    noun, nouns = NOUNS[unit], PLURALS[unit]
    only_failures = unit == Queue.Unit.TRIAL and all(item.facts.failed for item in results.coding.drawn)
    first, then = _answer_in_words(causes, noun, nouns)
    per = {
        Per.FAILED: "per 100 failed trials",
        Per.ATTEMPTED: "per 100 trials that ran",
        Per.POPULATION: f"per 100 {nouns} of the population",
    }[results.per]
    counted = f"the {causes.n} {nouns if causes.n != 1 else noun} reviewed" if causes.are_few else per
    settle, settle_about = _name_next(results)
    return {
        "noun": noun,
        "nouns": nouns,
        "title": "Why trials fail" if only_failures else f"What goes wrong in {nouns}",
        "first": first,
        "then": then,
        "per": per,
        "counts": f"Every number here counts {counted}.",
        "settle": settle,
        "settle_about": settle_about,
    }


def _answer_in_words(causes: RankedCauses, noun: str, nouns: str) -> tuple[str, str]:
    """Write the answer. With few items it is a count, and no word ranks. Else the first code leads if its interval is
    above that of the second, which is a strict rule."""
    if not causes.n:
        return f"No {noun} is reviewed yet.", ""
    reviewed = f"{causes.n} {noun if causes.n == 1 else nouns} reviewed."
    if not causes.top:
        return reviewed, "Reviewers found nothing wrong."
    first, second = causes.top[0], causes.top[1] if causes.top[1:] else None
    name = f"“{first.code.name}”"
    if causes.are_few:
        equal = sum(cause.value == first.value for cause in causes.top)
        if equal > 1:
            most = f"{equal} causes are in {first.value} of them each."
        elif second:
            most = f"Most common so far: {name} ({first.value} of {causes.n})."
        else:
            most = f"{name} is in {first.value} of them."
        return f"{reviewed} {most}", "More reviews may change the order." if second else ""
    of = "failures" if causes.results.per is Per.FAILED else nouns
    if second is None:
        return f"{name} is the only cause:", f"{first.value} of 100 {of}."
    other = f"“{second.code.name}”"
    if first.lane.low and second.lane.high and float(first.lane.low) > float(second.lane.high):
        return f"{name} leads with {first.value} of 100 {of}.", f"{other} comes next: {second.value}."
    return f"{name} and {other} come first.", "Which of them leads is not settled."


def _name_next(results: Results) -> tuple[str, str]:
    """Say what to do about these numbers: get the missing reviews, else settle what is open."""
    counted = results.heading.counted
    unreviewed = counted[Basis.OPEN]
    if left := results.reviews_left:
        about = "are still to come: every item has one, and agreement waits for the rest."
        if unreviewed:
            half = 100 * Z_95 * sqrt(0.25 / max(1, results.heading.drawn))
            about = f"shrink the intervals to about ±{half_up(half)} points."
        return plural(left, "more review"), about
    if split := counted[Basis.SPLIT]:
        settle = f"Settle {plural(split, 'disagreement')}."
        return settle, "Until then a disagreement counts by its reviewers' shares."
    if unreviewed:
        items = "item stays" if unreviewed == 1 else "items stay"
        return "The queue is closed.", f"{unreviewed} {items} unreviewed: no more reviews come in."
    return "Every item drawn is reviewed.", "No disagreement is open."
