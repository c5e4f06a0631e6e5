"""The forest of a row of experiments: a lane for each condition, points against no skill, the same axis in every row."""

from __future__ import annotations

from django.utils.html import escape
from django.utils.safestring import SafeString

from benchapp.stats.comparing.condition_names import name_condition
from benchapp.stats.comparing.experiment_verdicts import ExperimentVerdict, JudgedWay
from benchapp.stats.inference.shares import percent_text
from benchapp.stats.metrics.amounts import render_signed

WIDTH, MIDDLE, EDGE = 200, 100.0, 94.0  # pixels; from the middle to the edge
REACH = 0.6  # shares: what is farther from no skill is drawn at the edge
LANE, MAX_HEIGHT = 11.0, 66.0  # many lanes are drawn closer


def draw_forest(verdict: ExperimentVerdict | None) -> SafeString:
    """Empty where nothing could be compared with a baseline. Put together here: a list has hundreds of marks."""
    if verdict is None or not verdict.ways:
        return SafeString("")
    ways = sorted(verdict.ways, key=lambda way: (name_condition(way.condition).order, way.label))
    lane = min(LANE, MAX_HEIGHT / len(ways))
    height = lane * len(ways) + 4
    words = [
        f"{name_condition(way.condition).title}: {percent_text(way.own, 0)} %, {render_signed(100 * way.delta, 0)} points,"
        f" {way.words}"
        for way in ways
    ]
    lanes = (
        _draw_lane(way, said, 2 + lane * (at + 0.5)) for at, (way, said) in enumerate(zip(ways, words, strict=True))
    )
    return SafeString(
        f'<svg class="small-forest" width="{WIDTH}" height="{height:g}" role="img" aria-label="{escape("; ".join(words))}">'
        f'<line class="zero" x1="{MIDDLE:g}" x2="{MIDDLE:g}" y1="0" y2="{height:g}"/>{"".join(lanes)}</svg>'
    )


def _draw_lane(way: JudgedWay, words: str, y: float) -> str:
    name, interval = name_condition(way.condition), ""
    if way.low is not None and way.high is not None:
        ends = f'x1="{_place(way.low):g}" x2="{_place(way.high):g}"'
        interval = f'<line class="reach" {ends} y1="{y:g}" y2="{y:g}"/>'
    return (
        f'<g class="c-{name.colour or "ink"}{"" if way.effect.is_clear else " open"}">{interval}'
        f'<use href="#shape-{name.shape}" x="{_place(way.delta):g}" y="{y:g}"><title>{escape(words)}</title></use></g>'
    )


def _place(share: float) -> float:
    """Pixels from the left; right is better."""
    return round(MIDDLE + EDGE * max(-REACH, min(REACH, share)) / REACH, 1)
