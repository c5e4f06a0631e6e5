"""The charts of the compare pages, by key. A new one is a `Chart` in a module of `figures`, and its place in `_ALL`."""

from __future__ import annotations

from inspector.charts.chart import Chart
from inspector.charts.figures import (
    budget_chart,
    categories,
    efficiency,
    environments,
    forest,
    gains,
    generation,
    instances,
    libraries,
    library_size,
    pass_at_k,
    profiles,
    relative,
    rounds,
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
    instances.INSTANCES_CHART,
    instances.SEED_CHART,
    rounds.CHART,
    libraries.GROWTH_CHART,
    libraries.KINDS_CHART,
    profiles.CHART,
    pass_at_k.CHART,
    budget_chart.CHART,
    generation.CHART,
    tokens.CHART,
)
CHARTS: dict[str, Chart] = {chart.key: chart for chart in _ALL}
