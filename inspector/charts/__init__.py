"""The charts of results. A new one is a `Chart` in a module of `figures`, and its place on a page here."""

from __future__ import annotations

from inspector.charts.chart import Chart
from inspector.charts.figures import (
    authors,
    budget_chart,
    categories,
    efficiency,
    environments,
    forest,
    gains,
    generation,
    instances,
    learning_curve,
    libraries,
    library_size,
    pass_at_k,
    profiles,
    regimes,
    relative,
    rounds,
    skill_writing,
    tokens,
)

ABOVE = forest.CHART  # what the answer's table draws
# By the name of the page's address.
OF_PAGES: dict[str, tuple[Chart, ...]] = {
    "compare-where": (
        *(gains.CHART, environments.CHART, categories.CHART, instances.INSTANCES_CHART),
        *(relative.CHART, pass_at_k.CHART, profiles.CHART, instances.SEED_CHART, authors.MATRIX_CHART, regimes.CHART),
    ),
    "compare-cost": (efficiency.CHART, tokens.CHART, budget_chart.CHART, generation.CHART, authors.SCALE_CHART),
    "compare-libraries": (
        *(libraries.GROWTH_CHART, learning_curve.CHART, rounds.CHART, library_size.CHART),
        *(libraries.KINDS_CHART, skill_writing.PATTERNS_CHART, skill_writing.AXES_CHART),
    ),
}
# By key, in the order of the pages: the order of the report, the document and of previous and next.
CHARTS: dict[str, Chart] = {chart.key: chart for chart in (ABOVE, *(one for each in OF_PAGES.values() for one in each))}
