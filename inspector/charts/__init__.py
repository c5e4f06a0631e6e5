"""The charts of results. A new one is a `Chart` in a module of `figures`, and its place on a page here."""

from __future__ import annotations

from inspector.charts.chart import Chart
from inspector.charts.figures import (
    authors,
    budgets,
    categories,
    efficiency,
    forest,
    gains,
    instances,
    libraries,
    pass_at_k,
    profiles,
    regimes,
    rounds,
    skill_writing,
    tokens,
    validation,
)

ABOVE = forest.CHART  # what the answer's table draws
# By the name of the page's address.
OF_PAGES: dict[str, tuple[Chart, ...]] = {
    "compare-where": (
        *(
            gains.GAINS_CHART,
            categories.ENVIRONMENTS_CHART,
            categories.CATEGORIES_CHART,
            instances.INSTANCES_CHART,
            gains.RELATIVE_CHART,
        ),
        *(pass_at_k.CHART, profiles.CHART, instances.SEED_CHART, authors.MATRIX_CHART, regimes.CHART),
    ),
    "compare-cost": (
        *(efficiency.CHART, tokens.CHART, budgets.BUDGET_CHART, budgets.GENERATION_CHART, authors.SCALE_CHART),
    ),
    "compare-libraries": (
        *(libraries.GROWTH_CHART, validation.CHART, rounds.CURVE_CHART, rounds.ROUNDS_CHART, libraries.SIZE_CHART),
        *(libraries.KINDS_CHART, skill_writing.PATTERNS_CHART, skill_writing.AXES_CHART),
    ),
}
# By key, in the order of the pages: the order of the report, the document and of previous and next.
CHARTS: dict[str, Chart] = {chart.key: chart for chart in (ABOVE, *(one for each in OF_PAGES.values() for one in each))}
