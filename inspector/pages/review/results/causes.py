"""The ranked causes as the results page draws them: bars with intervals, or one square per item where there are few."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from benchapp.models import Code
from benchapp.review.codebooks.skill_codes import judging_skills
from benchapp.review.results.population_shares import Share
from benchapp.review.results.saturation import FEW
from benchapp.review.results.taxonomy import TaxonomyRow
from benchapp.stats.comparing.condition_names import name_condition
from benchapp.stats.inference.interval import Interval
from benchapp.stats.inference.shares import MIN_FOR_INTERVAL, half_up
from inspector.pages.review.results.results import Example, Results

HALF = "½"
TICKS = 5
WIDE, NARROW = 1, 0.55  # of a square's side, for a cause and for one below it


@dataclass(frozen=True, slots=True)
class Lane:
    """Where a bar ends and its interval lies, in percent of the axis; without a bar where counts say more."""

    width: str = ""
    low: str = ""
    high: str = ""


@dataclass(frozen=True, slots=True)
class Cause:
    """One used code. squares: "on", "half" or "" for each reviewed item, where these are few. below: the used codes
    under it, in reading order."""

    row: TaxonomyRow
    key: str
    is_about_skills: bool
    value: str
    beside: str
    lane: Lane
    squares: tuple[str, ...]
    examples: tuple[Example, ...]
    below: tuple[Cause, ...] = ()

    @property
    def code(self) -> Code:
        return self.row.code

    @property
    def keys(self) -> list[str]:
        return list(self.key)

    @property
    def level(self) -> int:
        return min(self.row.depth, 4)

    @property
    def square_places(self) -> list[tuple[str, int]]:
        return [(kind, 16 * place) for place, kind in enumerate(self.squares)]

    @property
    def squares_width(self) -> int:
        return 16 * len(self.squares)


@dataclass(frozen=True, slots=True)
class GroupHead:
    value: str
    name: str
    colour: str  # the part of `--c-own-3` behind `--c-`, empty for what is no condition
    n: int


@dataclass(frozen=True, slots=True)
class GroupRow:
    code: Code
    cells: tuple[tuple[Lane, str, str], ...]  # (bar, value, counts)


class RankedCauses:
    """Everything the page draws of the codes, of one set of results."""

    few = FEW  # reviews from which on shares are shown
    least = MIN_FOR_INTERVAL  # and from which on a count has an interval

    def __init__(self, results: Results, examples: Mapping[int, Sequence[Example]]) -> None:
        self.results = results
        self._examples = examples
        self._about = judging_skills(results.coding.codes)
        self._keys = results.keys

    @property
    def n(self) -> int:
        """The items counted here, in the chosen part."""
        return len(self.results.chosen_items)

    @property
    def are_few(self) -> bool:
        return self.n < FEW

    @cached_property
    def top(self) -> list[Cause]:
        """The used codes at the top of the tree, most frequent first."""
        return [cause for cause in self._walk(None) if cause.row.is_used]

    @property
    def unused(self) -> int:
        return sum(not row.is_used for row in self.results.rows)

    @property
    def has_intervals(self) -> bool:
        return any(cause.lane.low for cause in self.top)

    @cached_property
    def reach(self) -> int:
        """Where the axis ends: the next ten above everything drawn."""
        return self._reach(row.shares[self.results.per] for row in self.results.rows)

    def _reach(self, shares: Iterable[Share]) -> int:
        ends = [0.1]
        for share in shares:
            around = self.results.interval(share)
            ends += [around.high if around else 0.0, share.shown or 0.0]
        return min(100, int(-(-100 * max(ends) // 10) * 10))

    @property
    def ticks(self) -> list[tuple[str, str, str]]:
        """(place in percent, number, which way it stands)."""
        step = 20 if self.reach > 50 else 10
        numbers = list(range(0, self.reach + 1, step))
        anchors = {0: "start", self.reach: "end"}
        return [(f"{100 * each / self.reach:.2f}", str(each), anchors.get(each, "middle")) for each in numbers]

    def lane(self, share: Share, reach: float) -> Lane:
        """`reach`: where its axis ends, in percent."""
        if share.shown is None:
            return Lane()
        around = self.results.interval(share)
        ends = (around.low, around.high) if around else ()
        return Lane(*(f"{10000 * each / reach:.2f}" for each in (share.shown, *ends)))

    def _walk(self, parent: int | None) -> Iterable[Cause]:
        known = {row.code.pk for row in self.results.rows}
        for row in self.results.rows:  # the most frequent first on each level
            if (row.code.parent_id if row.code.parent_id in known else None) == parent and row.is_used:
                yield self._cause(row, tuple(self._below(row.code.pk)))

    def _below(self, parent: int) -> Iterable[Cause]:
        for cause in self._walk(parent):
            yield cause
            yield from cause.below

    def _cause(self, row: TaxonomyRow, below: tuple[Cause, ...]) -> Cause:
        share = row.shares[self.results.per]
        squares = self._squares(row.code) if self.are_few else ()
        value, beside = self._numbers(share, row)
        lane = Lane() if self.are_few else self.lane(share, self.reach)
        about, key = row.code.pk in self._about, self._keys.get(row.code.pk, "")
        return Cause(row, key, about, value, beside, lane, squares, self._shown(row.code), below)

    def _squares(self, code: Code) -> tuple[str, ...]:
        """The items that carry it first, then those whose reviewers differ."""
        members = self.results.coding.within(code)
        shares = sorted((item.share(members) for item in self.results.chosen_items), reverse=True)
        return tuple("on" if share == 1 else "half" if share else "" for share in shares)

    def _numbers(self, share: Share, row: TaxonomyRow) -> tuple[str, str]:
        if self.are_few:
            squares = self._squares(row.code)
            return range_text(squares.count("on"), squares.count("half")), f"of {self.n}"
        if share.shown is None:
            return count_text(share.k), f"of {share.n}"
        return per_hundred(share.shown), ends_text(self.results.interval(share))

    def _shown(self, code: Code) -> tuple[Example, ...]:
        """Its own places, then those of the codes below it."""
        members = self.results.coding.within(code)
        own = [*self._examples.get(code.pk, ())]
        found = [*own, *(each for key in sorted(members - {code.pk}) for each in self._examples.get(key, ()))]
        return tuple({each.url: each for each in found}.values())[:3]

    # --- by one facet ---

    def heads(self) -> list[GroupHead]:
        """Conditions in their one order; other groups with the most items first."""
        found = [
            GroupHead(
                value, value or "not reported", name_condition(value).colour if self._by_condition else "", each[0].n
            )
            for value, each in self.results.groups.items()
        ]
        return sorted(found, key=lambda head: name_condition(head.value).order) if self._by_condition else found

    @property
    def _by_condition(self) -> bool:
        return self.results.asked.by == "condition"

    def group_rows(self, heads: Sequence[GroupHead]) -> list[GroupRow]:
        order = {code.pk: place for place, (code, _) in enumerate(self.results.taxonomy.tree)}
        groups = self.results.groups
        rows = {cause.code: [groups[head.value][order[cause.code.pk]] for head in heads] for cause in self.top}
        reach = self._reach(share for row in rows.values() for share in row)
        return [GroupRow(code, tuple(self._cell(share, reach) for share in row)) for code, row in rows.items()]

    def _cell(self, share: Share, reach: float) -> tuple[Lane, str, str]:
        counts = f"{count_text(share.k)} of {share.n}" if share.n else "none reviewed"
        if share.shown is None:
            return Lane(), "", counts
        return self.lane(share, reach), per_hundred(share.shown), counts


def range_text(sure: int, open_: int) -> str:
    """Of items: 9 and 3 that reviewers differ about -> "9 to 12"."""
    return f"{sure:,} to {sure + open_:,}" if open_ else f"{sure:,}"


def count_text(count: float) -> str:
    """6 -> "6", 6.5 -> "6½", 6.33 -> "6.3"."""
    whole, part = int(count), round(count - int(count), 2)
    if not part:
        return f"{whole:,}"
    return f"{whole or ''}{HALF}" if part == 0.5 else f"{count:.1f}"


def per_hundred(share: float) -> str:
    return str(half_up(100 * share, 0 if share >= 0.01 or not share else 1))


def ends_text(around: Interval | None) -> str:
    """ "36 to 46"; what was counted whole has no interval."""
    if around is None:
        return ""
    if around.low == around.high:
        return "exact"
    return f"{half_up(100 * around.low)} to {half_up(100 * around.high)}"
