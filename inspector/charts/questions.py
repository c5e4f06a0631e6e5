"""The questions of a comparison as tabs, each with the charts that draw and those that wait for data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from inspector.charts import QUESTIONS, Question
from inspector.charts.cards import ChartCard, cards_of
from inspector.charts.chart import Chart
from inspector.charts.sheet import ChartSheet


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
    cards = cards_of([chart for each in QUESTIONS for chart in each.charts], sheet.comparison.choices)
    by_key = {card.chart.key: card for card in cards}
    return [_build_tab(sheet, each, by_key, is_open=each is asked) for each in QUESTIONS]


def _build_tab(sheet: ChartSheet, question: Question, cards: Mapping[str, ChartCard], *, is_open: bool) -> QuestionTab:
    lacks = {chart.key: _find_lack(chart, sheet) for chart in question.charts}
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
