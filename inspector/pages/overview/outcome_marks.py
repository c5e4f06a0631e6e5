"""An experiment's outcomes by condition as marks around the line of no skill: places only, the template draws them.

A condition has the same place and a point the same height in every row, so that rows can be read against each other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

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
HOLLOW = (Effect.OPEN, Effect.UNTESTED, Effect.SAME)


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


def _place_ways(ways: Iterable[JudgedWay]) -> Iterable[OutcomeMark]:
    taken: dict[float, int] = {}
    for way in ways:
        name = name_condition(way.condition)
        start = STARTS[name.origin or Origin.NOBODY] + STEP * name.step
        taken[start] = taken.get(start, -1) + 1
        low, high = (None if bound is None else _height(bound) for bound in (way.low, way.high))
        words = f"{name.title}: {percent_text(way.own, 0)} %, {render_signed(100 * way.delta, 0)} points, {way.effect.value}"
        yield OutcomeMark(
            start + NUDGE * taken[start], _height(way.delta), low, high, name, way.effect in HOLLOW, words
        )


def _height(share: float) -> float:
    """Pixels from the top; up is better."""
    cut = max(-REACH, min(REACH, share))
    return round(MIDDLE - EDGE * cut / REACH, 1)
