"""The charts of the compare pages. A new one is a `Chart` in a module of `figures`, and its place under a question here."""

from __future__ import annotations

from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Question:
    """A tab of the compare pages. `key` is the value of `q=` in the address."""

    key: str
    title: str
    charts: tuple[Chart, ...] = ()


ABOVE = forest.CHART  # the one large chart, over all questions
QUESTIONS = (
    Question(
        "help",
        "Did skills help?",
        (relative.CHART, pass_at_k.CHART, profiles.CHART, instances.SEED_CHART, authors.MATRIX_CHART, regimes.CHART),
    ),
    Question("where", "Where?", (gains.CHART, environments.CHART, categories.CHART, instances.INSTANCES_CHART)),
    Question(
        "cost",
        "At what cost?",
        (efficiency.CHART, tokens.CHART, budget_chart.CHART, generation.CHART, authors.SCALE_CHART),
    ),
    Question(
        "grow",
        "Did libraries grow?",
        (libraries.GROWTH_CHART, learning_curve.CHART, rounds.CHART, library_size.CHART),
    ),
    Question(
        "write",
        "What do skills contain?",
        (libraries.KINDS_CHART, skill_writing.PATTERNS_CHART, skill_writing.AXES_CHART),
    ),
    Question("fail", "Why did trials fail?"),
)
# By key, in the order of the tabs: the order of the report, the document and of previous and next.
CHARTS: dict[str, Chart] = {chart.key: chart for chart in (ABOVE, *(one for each in QUESTIONS for one in each.charts))}
