"""The addresses a drawn chart has, for the pages that show one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from django.urls import reverse

from benchapp.stats.comparing.choices import Choices
from inspector.charts.chart import Chart
from inspector.charts.sheet import ChartSheet

ANY = "any-chart"  # stands where the key of a chart belongs


class Titled(Protocol):
    """What a card says of its chart."""

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


@dataclass(frozen=True, slots=True)
class Gallery:
    """The charts of a page: those that draw something of these runs, and those that wait, with what for."""

    cards: tuple[ChartCard, ...]
    waiting: tuple[tuple[ChartCard, str], ...]


def build_gallery(charts: Sequence[Chart], sheet: ChartSheet) -> Gallery:
    """As far as it shows without drawing. Where numbers of a paper are laid over, these are drawn alone."""
    choices = sheet.comparison.choices
    lacks = ["" if set(chart.published) & set(choices.published) else chart.lacks(sheet) for chart in charts]
    cards = list(zip(cards_of(charts, choices), lacks, strict=True))
    return Gallery(tuple(card for card, lack in cards if not lack), tuple(each for each in cards if each[1]))


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
