"""An experiment's outcomes by condition as marks around the line of no skill: places only, the template draws them.

A condition has the same place and a point the same height in every row, so that rows can be read against each other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.utils.html import escape
from django.utils.safestring import SafeString

from benchapp.stats.comparing.condition_names import ConditionName, Origin, name_condition
from benchapp.stats.comparing.effects import Effect
from benchapp.stats.comparing.experiment_verdicts import ExperimentVerdict, JudgedWay
from benchapp.stats.inference.shares import percent_text
from benchapp.stats.metrics.amounts import render_signed

WIDTH, HEIGHT, MIDDLE = 190, 48, 24.0
REACH = 0.5  # shares: what lies farther from no skill is drawn at the edge
EDGE = 19.0  # pixels from the middle
STARTS = {Origin.NOBODY: 9, Origin.TRACES: 26, Origin.HUMAN: 52, Origin.MODEL: 129}
STEP, NUDGE = 17, 6  # pixels between revisions; between several marks at one place
HOLLOW = frozenset(Effect) - {Effect.BETTER, Effect.WORSE}


@dataclass(frozen=True, slots=True)
class OutcomeMark:
    """`low`, `high`: ends of its interval in pixels; None where it has none."""

    x: float
    y: float
    low: float | None
    high: float | None
    name: ConditionName
    is_hollow: bool
    words: str


def place_marks(verdict: ExperimentVerdict | None) -> tuple[OutcomeMark, ...]:
    """No skill first, then the ways in their fixed order. Empty where nothing can be held against no skill."""
    ways = [way for way in verdict.ways if name_condition(way.condition).colour] if verdict else []
    if not ways:
        return ()
    known = sorted(ways, key=lambda way: (name_condition(way.condition).order, way.label))
    base = name_condition("no-skill")
    share = percent_text(known[0].other, 0)
    first = OutcomeMark(STARTS[Origin.NOBODY], MIDDLE, None, None, base, False, f"{base.title}: {share} %")
    return (first, *_place_ways(known))


def draw_marks(marks: Iterable[OutcomeMark]) -> SafeString:
    """The drawing of a row; empty without marks. Put together here: a list has hundreds of marks."""
    found = list(marks)
    if not found:
        return SafeString("")
    words = escape("; ".join(mark.words for mark in found))
    zero = f'<line class="zero" x1="0" x2="{WIDTH}" y1="{MIDDLE:g}" y2="{MIDDLE:g}"/>'
    return SafeString(
        f'<svg class="marks" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{words}">{zero}'
        f"{''.join(map(_draw_mark, found))}</svg>"
    )


def _draw_mark(mark: OutcomeMark) -> str:
    x, reach = f"{mark.x:g}", ""
    if mark.low is not None and mark.high is not None:
        reach = f'<line class="reach" x1="{x}" x2="{x}" y1="{mark.low:g}" y2="{mark.high:g}"/>'
    return (
        f'<g class="c-{mark.name.colour}{" open" * mark.is_hollow}">{reach}'
        f'<use href="#shape-{mark.name.shape}" x="{x}" y="{mark.y:g}"><title>{escape(mark.words)}</title></use></g>'
    )


def _place_ways(ways: Iterable[JudgedWay]) -> Iterable[OutcomeMark]:
    taken: dict[float, int] = {}
    for way in ways:
        name = name_condition(way.condition)
        start = STARTS[name.origin or Origin.NOBODY] + STEP * name.step
        taken[start] = taken.get(start, -1) + 1
        low, high = (None if bound is None else _height(bound) for bound in (way.low, way.high))
        words = f"{name.title}: {percent_text(way.own, 0)} %, {render_signed(100 * way.delta, 0)} points, {way.words}"
        yield OutcomeMark(
            start + NUDGE * taken[start], _height(way.delta), low, high, name, way.effect in HOLLOW, words
        )


def _height(share: float) -> float:
    """Pixels from the top; up is better."""
    cut = max(-REACH, min(REACH, share))
    return round(MIDDLE - EDGE * cut / REACH, 1)
