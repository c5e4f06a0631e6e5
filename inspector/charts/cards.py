"""The addresses a drawn chart has, for the pages that show one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from django.urls import reverse

from benchapp.stats.comparing.choices import Choices
from inspector.charts.chart import Chart, ChartDrawing
from inspector.charts.chart_request import choose_options
from inspector.charts.contrast import say_alike, write_finding
from inspector.charts.drawn_chart import draw_chart
from inspector.charts.sheet import ChartSheet

ANY = "any-chart"  # replaced by the key of a chart


class Titled(Protocol):
    """What a card needs of its chart."""

    @property
    def key(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def question(self) -> str: ...


@dataclass(frozen=True, slots=True)
class ChartCard:
    """One chart with these choices: `page` shows it large with its table, `json` and `csv` are its twins."""

    chart: Titled
    page: str
    json: str
    csv: str
    large: bool = False  # is it the only one of its page?
    drawing: ChartDrawing | None = None  # with its HTML, where the server draws it
    finding: str = ""

    @property
    def title(self) -> str:
        """What the numbers say; the chart's own title where they say nothing in a sentence."""
        return self.finding or self.chart.title


@dataclass(frozen=True, slots=True)
class Gallery:
    """The charts of a tab. Each is drawn where its answer differs between the conditions; else one sentence takes its place. `waiting`
    are those that have nothing to draw yet."""

    cards: tuple[ChartCard, ...]
    sentences: tuple[tuple[ChartCard, str], ...]
    waiting: tuple[tuple[ChartCard, str], ...]


def build_gallery(charts: Sequence[Chart], sheet: ChartSheet) -> Gallery:
    cards: list[ChartCard] = []
    sentences, waiting = [], []
    for chart, card in zip(charts, cards_of(charts, sheet.comparison.choices), strict=True):
        lack = "" if set(chart.published) & set(sheet.comparison.choices.published) else chart.lacks(sheet)
        drawing = None if lack else draw_chart(chart, choose_options(sheet, chart), with_figure=False).drawing
        if drawing is None or drawing.absent:
            waiting.append((card, lack or (drawing.absent if drawing else "")))
        elif sentence := chart.repeats or say_alike(drawing.answers):
            sentences.append((card, sentence))
        else:
            cards.append(with_drawing(card, chart, drawing))
    return Gallery(tuple(cards), tuple(sentences), tuple(waiting))


def with_drawing(card: ChartCard, chart: Chart, drawing: ChartDrawing) -> ChartCard:
    return replace(card, drawing=drawing, finding=write_finding(chart.finding, drawing.answers))


def card_of(chart: Chart, choices: Choices, *, large: bool = False) -> ChartCard:
    return cards_of([chart], choices, large=large)[0]


def cards_of(charts: Iterable[Chart], choices: Choices, *, large: bool = False) -> list[ChartCard]:
    """For a page with several charts; each with all choices, its own options among them."""
    query = choices.query()
    tail = f"?{query}" if query else ""
    page, twin, table = (reverse(name, args=[ANY]) + tail for name in ("chart", "chart-json", "chart-csv"))

    def address(of_any: str, chart: Chart) -> str:
        return of_any.replace(ANY, chart.key, 1)

    return [
        ChartCard(chart, address(page, chart), address(twin, chart), address(table, chart), large) for chart in charts
    ]
