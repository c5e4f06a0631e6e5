"""The charts of the compare pages, by key. A new one is a module in `figures` with a `CHART`, and its place in `_ALL`."""

from __future__ import annotations

from inspector.charts.chart import Chart
from inspector.charts.figures import (
    budget_chart,
    categories,
    efficiency,
    environments,
    file_kinds,
    forest,
    gains,
    generation,
    growth,
    instances,
    library_size,
    pass_at_k,
    profiles,
    relative,
    rounds,
    seed_heldout,
    tokens,
)

_ALL: tuple[Chart, ...] = (
    forest.CHART,
    relative.CHART,
    library_size.CHART,
    environments.CHART,
    efficiency.CHART,
    gains.CHART,
    categories.CHART,
    instances.CHART,
    seed_heldout.CHART,
    rounds.CHART,
    growth.CHART,
    file_kinds.CHART,
    profiles.CHART,
    pass_at_k.CHART,
    budget_chart.CHART,
    generation.CHART,
    tokens.CHART,
)
CHARTS: dict[str, Chart] = {chart.key: chart for chart in _ALL}
