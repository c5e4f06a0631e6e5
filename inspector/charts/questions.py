"""The charts of a comparison under the question each helps to answer: one tab a question, at most four charts in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from inspector.charts import CHARTS
from inspector.charts.cards import ChartCard, cards_of
from inspector.charts.chart import Chart
from inspector.charts.sheet import ChartSheet


@dataclass(frozen=True, slots=True)
class Question:
    """`key` is the value of `q=` in the address."""

    key: str
    title: str
    charts: tuple[str, ...] = ()


QUESTIONS = (
    Question("help", "Did skills help?", ("relative", "pass-at-k", "profiles", "seed-heldout")),
    Question("where", "Where?", ("gains", "environments", "categories", "instances")),
    Question("cost", "At what cost?", ("efficiency", "tokens", "budget", "generation-budget")),
    Question("grow", "Did libraries grow?", ("growth", "rounds", "library-size", "file-kinds")),
    Question("fail", "Why did trials fail?"),
)
ABOVE = "forest"  # the one large chart, over all questions


@dataclass(frozen=True, slots=True)
class WaitingChart:
    """A chart that has nothing to draw yet, with what it waits for."""

    card: ChartCard
    lacks: str


@dataclass(frozen=True, slots=True)
class QuestionTab:
    """One question with its charts: those to draw, and those that wait for data. `query`: the address that opens it."""

    question: Question
    is_open: bool
    query: str
    cards: tuple[ChartCard, ...]
    waiting: tuple[WaitingChart, ...]


def open_question(asked: str) -> Question:
    """The one asked for, else the first."""
    return next((each for each in QUESTIONS if each.key == asked), QUESTIONS[0])


def build_tabs(sheet: ChartSheet) -> list[QuestionTab]:
    """All questions, with what each chart can draw of these runs as far as that shows without drawing it."""
    asked = open_question(sheet.comparison.choices.q)
    cards = cards_of([CHARTS[key] for each in QUESTIONS for key in each.charts], sheet.comparison.choices)
    by_key = {card.chart.key: card for card in cards}
    return [_build_tab(sheet, each, by_key, is_open=each is asked) for each in QUESTIONS]


def _build_tab(sheet: ChartSheet, question: Question, cards: Mapping[str, ChartCard], *, is_open: bool) -> QuestionTab:
    lacks = {key: _find_lack(CHARTS[key], sheet) for key in question.charts}
    return QuestionTab(
        question,
        is_open,
        sheet.comparison.choices.query(q="" if question is QUESTIONS[0] else question.key),
        tuple(cards[key] for key, lack in lacks.items() if not lack),
        tuple(WaitingChart(cards[key], lack) for key, lack in lacks.items() if lack),
    )


def _find_lack(chart: Chart, sheet: ChartSheet) -> str:
    """Nothing where numbers of a paper are laid over: these are drawn alone then."""
    return "" if set(chart.published) & set(sheet.comparison.choices.published) else chart.lacks(sheet)
