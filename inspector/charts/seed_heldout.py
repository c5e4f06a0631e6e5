"""Success on the instance that was learned from against the instances held out. Source: SkillLearnBench, figure 2 (c)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from plotly import graph_objects as go

from benchapp.comparing.groups import Group
from benchapp.inference.shares import percent_text
from benchapp.metrics.catalogue import FIRST_TRIES
from benchapp.metrics.outcomes import Outcomes
from inspector.charts.bars import MAX_BARS, crowded
from inspector.charts.drawing import Chart, Column, Drawing, Row, Table
from inspector.charts.palette import GRID, Style, series
from inspector.charts.panels import lines, panels, plain, short
from inspector.charts.quantities import plural
from inspector.charts.sheet import Sheet

ROW = 38  # px
NOT_PUBLISHED = "SkillLearnBench's own figure is not published as numbers."
COLUMNS = (
    Column("group", "group"),
    Column("seed", "seed instance", "%"),
    Column("held_out", "held-out instances", "%"),
    Column("difference", "held-out minus seed", "pp"),
    Column("families", "families scored on both", "families, all replicates"),
    Column("left_out", "families scored on one side only", "families, all replicates"),
    Column("seed_trials", "scored trials, seed", "trials"),
    Column("held_out_trials", "scored trials, held out", "trials"),
    Column("runs", "runs"),
)


@dataclass(frozen=True, slots=True)
class Sides:
    """Means over families that were scored on both sides: shares. `trials`: scored ones of these families, by side."""

    seed: float
    held_out: float
    families: int
    left_out: int
    trials: tuple[int, int]


def sides_of(outcomes: Outcomes) -> Sides | None:
    """One run: per family the mean over its scored trials on each side, then the mean over families. The seed is instance
    1. None where no family was scored on both sides, or tasks have roles: there all of a family's first tasks are
    learned from, and the later ones are built to differ."""
    mask = outcomes.covering(FIRST_TRIES) & ~outcomes.tainted & ~np.isnan(outcomes.success)
    scored = outcomes.where(mask & (outcomes.role == 0) & (outcomes.family >= 0) & (outcomes.ordinal > 0))
    families, of = np.unique(scored.family, return_inverse=True)
    is_seed = scored.ordinal == 1
    counts = [np.bincount(of[side], minlength=len(families)) for side in (is_seed, ~is_seed)]
    sums = [
        np.bincount(of[side], weights=scored.success[side], minlength=len(families)) for side in (is_seed, ~is_seed)
    ]
    both = (counts[0] > 0) & (counts[1] > 0)
    if not both.any():
        return None
    seed, held_out = (float((total[both] / count[both]).mean()) for total, count in zip(sums, counts, strict=True))
    trials = (int(counts[0][both].sum()), int(counts[1][both].sum()))
    return Sides(seed, held_out, int(both.sum()), int((~both).sum()), trials)


def draw(sheet: Sheet) -> Drawing:
    found: dict[Group, list[Sides]] = {}
    for group in sheet.comparison.groups.all:
        sides = [side for outcomes in sheet.comparison.of_group(group) if (side := sides_of(outcomes)) is not None]
        if sides:
            found[group] = sides
    if not found:
        absent = (
            "No family of these runs was scored both on its seed instance and on a held-out one. Acquisition against "
            "deployment (LSR, ESR) is another question, since deployment tasks are built to differ."
        )
        return Drawing(None, Table(COLUMNS), absent=f"{absent} {NOT_PUBLISHED}")
    table = Table(COLUMNS, tuple(_row(sheet, group, sides) for group, sides in found.items()))
    return Drawing(_figure(sheet, found), table, _notes(len(found)))


def _mean(sides: Sequence[Sides], name: str) -> float:
    return 100 * fmean(getattr(side, name) for side in sides)


def _figure(sheet: Sheet, found: Mapping[Group, Sequence[Sides]]) -> go.Figure:
    shown = dict(list(found.items())[:MAX_BARS])
    names = "seed instance", "held-out instances"
    figure, _ = panels([""], across=1, height=max(3, len(shown)) * ROW, legend=names)
    pairs = [(_mean(sides, "seed"), _mean(sides, "held_out")) for sides in shown.values()]
    figure.add_trace(
        go.Scatter(
            x=[x for pair in pairs for x in (*pair, None)],
            y=[y for row in range(len(pairs)) for y in (row, row, None)],
            mode="lines",
            line={"color": GRID, "width": 4},
            hoverinfo="skip",
            showlegend=False,
        )
    )
    figure.add_trace(_marks(sheet, shown, "seed", names[0], series(0), "top center"))
    figure.add_trace(_marks(sheet, shown, "held_out", names[1], series(1).open, "bottom center"))
    figure.update_yaxes(
        tickvals=list(range(len(shown))),
        ticktext=[short(group.label, 44) for group in shown],
        range=[max(3, len(shown)) - 0.5, -0.5],
        zeroline=False,
        showgrid=False,
    )
    figure.update_xaxes(range=[-5, 105], title={"text": "passed, %, mean over families"})
    return figure.update_layout(showlegend=True)


def _marks(
    sheet: Sheet, found: Mapping[Group, Sequence[Sides]], name: str, title: str, style: Style, text_at: str
) -> go.Scatter:
    values = [_mean(sides, name) for sides in found.values()]
    return go.Scatter(
        x=values,
        y=list(range(len(found))),
        mode="markers+text",
        name=title,
        marker={"color": style.colour, "symbol": style.symbol, "size": 10, "line": {"width": 2}},
        text=[percent_text(value / 100, 0) for value in values],
        textposition=text_at,
        textfont={"size": 10},
        hovertext=[
            lines(plain(group.label), f"{title}: {percent_text(value / 100, 1)} %", _rests_on(sides, name))
            for (group, sides), value in zip(found.items(), values, strict=True)
        ],
        hoverinfo="text",
        customdata=[sheet.trials_url(group) for group in found],
        cliponaxis=False,
    )


def _rests_on(sides: Sequence[Sides], name: str) -> str:
    trials = sum(side.trials[name == "held_out"] for side in sides)
    families = sum(side.families for side in sides)
    return f"{plural(families, 'family', 'families')}, {plural(trials, 'scored trial')}"


def _row(sheet: Sheet, group: Group, sides: Sequence[Sides]) -> Row:
    seed, held_out = _mean(sides, "seed"), _mean(sides, "held_out")
    counts = [sum(getattr(side, name) for side in sides) for name in ("families", "left_out")]
    trials = [sum(side.trials[place] for side in sides) for place in (0, 1)]
    return Row((group.label, seed, held_out, held_out - seed, *counts, *trials, len(sides)), sheet.trials_url(group))


def _notes(groups_total: int) -> tuple[str, ...]:
    return (
        "Per family the mean over its scored trials, then over the families that were scored on both sides, then over "
        "replicates. The seed is instance 1; a family has one of it and several held out.",
        "A lower held-out value would speak for skills that fit the seed alone; the seed may also be easier or harder.",
        NOT_PUBLISHED,
        *crowded(groups_total, "groups"),
    )


CHART = Chart(
    key="seed-heldout",
    title="Seed against held-out instances",
    question="Do skills fit only the instance they were learned from?",
    draw=draw,
    after="SkillLearnBench, Figure 2 (c)",
)
