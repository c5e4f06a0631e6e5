"""Rows of a table as drawings as wide as their cell: shares as bars, in the colour of their condition, on one axis for all rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.html import escape
from django.utils.safestring import SafeString

from benchapp.stats.comparing.condition_names import name_condition

HEIGHT = 26  # px
ROOM = 1.04  # of the longest bar: some air behind it
LEAST = 0.05  # least share of an axis on either side of zero: an empty bar needs a zero to start at


@dataclass(frozen=True, slots=True)
class BarAxis:
    """How far bars go to either side of zero, as shares."""

    left: float
    right: float

    @classmethod
    def of(cls, left: Sequence[float], right: Sequence[float]) -> BarAxis:
        """Wide enough for all of them."""
        return cls(ROOM * max([LEAST, *left]), ROOM * max([LEAST, *right]))

    def place(self, share: float) -> float:
        """In percent of the width; what breaks counts below zero."""
        return 100 * (self.left + share) / (self.left + self.right)


@dataclass(frozen=True, slots=True)
class TwoSided:
    """Shares of the same whole: what got worse, drawn to the left, and what got better, to the right."""

    worse: float
    better: float


def draw_two_sided(axis: BarAxis, condition: str, own: TwoSided, luck: TwoSided | None, says: str) -> SafeString:
    """`luck`: the same of a second try where nothing was learned, as a tick on either side."""
    colour, zero = name_condition(condition).colour or "ink", axis.place(0)
    parts = [
        f'<line class="zero-line" x1="{zero:.2f}%" x2="{zero:.2f}%" y1="0" y2="{HEIGHT}"/>',
        _bar(axis.place(-own.worse), zero, f"soft c-{colour}"),
        _bar(zero, axis.place(own.better), f"c-{colour}"),
    ]
    parts += [_tick(axis.place(at)) for at in ((-luck.worse, luck.better) if luck else ())]
    return _lane(parts, says)


def draw_share(condition: str, share: float, ends: tuple[float, float] | None, says: str) -> SafeString:
    """From nothing to all; `ends` of its interval as a thin line over the bar."""
    colour = name_condition(condition).colour or "ink"
    parts = [f'<line class="grid-line" x1="{at}%" x2="{at}%" y1="0" y2="{HEIGHT}"/>' for at in (0, 25, 50, 75, 100)]
    parts.append(_bar(0, 100 * share, f"c-{colour}"))
    if ends:
        line = f'x1="{100 * ends[0]:.2f}%" x2="{100 * ends[1]:.2f}%" y1="{HEIGHT / 2:g}" y2="{HEIGHT / 2:g}"'
        parts += [f'<line class="halo" {line}/>', f'<line class="whisker" {line}/>']
    return _lane(parts, says)


def _bar(start: float, end: float, kind: str) -> str:
    return (
        f'<rect class="bar {kind}" x="{start:.2f}%" width="{max(0.0, end - start):.2f}%" y="6" height="{HEIGHT - 12}"/>'
    )


def _tick(at: float) -> str:
    return f'<line class="luck" x1="{at:.2f}%" x2="{at:.2f}%" y1="2" y2="{HEIGHT - 2}"/>'


def _lane(parts: Sequence[str], says: str) -> SafeString:
    label = escape(says)
    return SafeString(
        f'<svg class="lane" width="100%" height="{HEIGHT}" role="img" aria-label="{label}">{"".join(parts)}</svg>'
    )
