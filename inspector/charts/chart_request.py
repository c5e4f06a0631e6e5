"""From the address of a page to what its charts draw from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Protocol

from django.http import Http404, HttpRequest
from django.urls import reverse

from benchapp.papers.published_rows import list_papers, read_published_rows
from benchapp.stats.comparing.choices import LETTERS, Choices, names_known, parse_choices
from benchapp.stats.comparing.comparison import comparison_of
from benchapp.stats.comparing.condition_names import SEPARATOR, say_label
from benchapp.stats.metrics.catalogue import METRICS, TABLES, pick_primary, table_for
from inspector.charts.chart import Answer, Chart, ChartDrawing
from inspector.charts.drawn_chart import draw_chart
from inspector.charts.sheet import ChartSheet

_value = attrgetter("value")
ANY = "any-chart"  # replaced by the key of a chart
ALIKE = 0.1  # of the largest value: numbers of a place within this distance make no contrast
MOST_NAMED = 3  # places in the sentence of a chart whose conditions are alike


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


class Gallery:
    """The charts of a tab. Each is drawn where its answer differs between the conditions; else one sentence takes its
    place. `waiting` are those that have nothing to draw yet."""

    def __init__(self, charts: Sequence[Chart], sheet: ChartSheet) -> None:
        self.cards: list[ChartCard] = []
        self.sentences: list[tuple[ChartCard, str]] = []
        self.waiting: list[tuple[ChartCard, str]] = []
        for chart, card in zip(charts, cards_of(charts, sheet.comparison.choices), strict=True):
            lack = "" if set(chart.papers) & set(sheet.comparison.choices.published) else chart.lacks(sheet)
            drawing = None if lack else draw_chart(chart, choose_options(sheet, chart), with_figure=False).drawing
            if drawing is None or drawing.absent:
                self.waiting.append((card, lack or (drawing.absent if drawing else "")))
            elif sentence := chart.repeats or say_alike(drawing.answers):
                self.sentences.append((card, sentence))
            else:
                self.cards.append(with_drawing(card, chart, drawing))


def with_drawing(card: ChartCard, chart: Chart, drawing: ChartDrawing) -> ChartCard:
    return replace(card, drawing=drawing, finding=write_finding(chart.finding, drawing.answers))


def card_of(chart: Chart, choices: Choices, *, large: bool = False) -> ChartCard:
    return cards_of([chart], choices, large=large)[0]


def cards_of(charts: Iterable[Chart], choices: Choices, *, large: bool = False) -> list[ChartCard]:
    """For a page with several charts; each with all choices, its own options among them."""
    query = choices.query()
    tail = f"?{query}" if query else ""
    of_any = [reverse(name, args=[ANY]) + tail for name in ("chart", "chart-json", "chart-csv")]
    cards = []
    for chart in charts:
        page, twin, table = (each.replace(ANY, chart.key, 1) for each in of_any)
        cards.append(ChartCard(chart, page, twin, table, large))
    return cards


# --- whether conditions differ ---


def say_alike(answers: Sequence[Answer]) -> str:
    """One sentence in place of a chart whose answer is the same in all conditions, or less than a tenth apart;
    else empty."""
    who, places = {answer.who for answer in answers}, _split(answers)
    if len(who) < 2 or any(_gap(of) > ALIKE * max(abs(answer.value) for answer in of) for of in places):
        return ""
    shown = [of for of in places if any(answer.value for answer in of)] or places
    numbers = []
    for of in shown[:MOST_NAMED]:
        low, high = min(of, key=_value).text, max(of, key=_value).text
        numbers.append(f"{high if low == high else f'{low} to {high}'} {of[0].what}".strip())
    word = "groups" if any(SEPARATOR in each for each in who) else "conditions"
    same = "The same" if not any(map(_gap, places)) else "About the same"
    return f"{same} in all {len(who)} {word}: {'; '.join(numbers)}."


def write_finding(template: str, answers: Sequence[Answer]) -> str:
    """The template with the two ends of the largest contrast: `high` and `low` are conditions, `most` and `least`
    their numbers, `what` where it is. Empty where there is none."""
    contrast = max((of for of in _split(answers) if len(of) > 1), key=_gap, default=[])
    if not template or not contrast or not _gap(contrast):
        return ""
    high, low = max(contrast, key=_value), min(contrast, key=_value)
    return template.format(
        high=_name(each.who for each in contrast if each.value == high.value),
        most=high.text,
        low=_name(each.who for each in contrast if each.value == low.value),
        least=low.text,
        what=high.what,
    )


def _split(answers: Iterable[Answer]) -> list[list[Answer]]:
    """By place."""
    places: dict[str, list[Answer]] = {}
    for answer in answers:
        places.setdefault(answer.what, []).append(answer)
    return list(places.values())


def _gap(of: Sequence[Answer]) -> float:
    values = [answer.value for answer in of]
    return max(values) - min(values)


def _name(labels: Iterable[str]) -> str:
    names = [say_label(label) for label in labels]
    return " and ".join(names) if len(names) < 3 else f"{len(names)} conditions"


def sheet_of(request: HttpRequest, chart: Chart | None = None, **fixed: object) -> ChartSheet:
    """Read what this request asks for; for one chart also its own options. `fixed`: choices that the page makes itself.

    An invalid part of the address never stops the page: it is ignored, and `problems` says so. Http404 where none of
    the experiments and runs that it names exists: without them it would show every run.
    """
    choices, problems = parse_choices(request.GET)
    choices = choices.but(**fixed)
    named = any(request.GET.get(name, "").strip() for name in ("experiment", *LETTERS))
    if named and not choices.experiment and not choices.sides:
        raise Http404("no such experiment or run")
    sheet = build_sheet(choices, chart)
    if not sheet.comparison.runs and not names_known(sheet.comparison.choices):
        raise Http404("no such experiment or run")
    return replace(sheet, problems=(*problems, *sheet.problems))


def build_sheet(choices: Choices, chart: Chart | None = None) -> ChartSheet:
    comparison = comparison_of(choices)
    problems: list[str] = []
    table = comparison.choices.table
    if table and table not in TABLES:
        problems.append(f"table: {table[:80]!r} ignored, expected one of {', '.join(TABLES)}")
        table = ""
    table = table or table_for(comparison.outcomes.values())  # else the one that fits the runs
    # "Past first" says nearly the same once more: charts and exports have it where somebody asks for it.
    metrics = tuple(metric for metric in TABLES[table] if comparison.has(metric) and not metric.past_first)
    name = comparison.choices.metric
    metric = METRICS.get(name)  # of any table; else the primary one of these
    if metric is None or not (metric in metrics or comparison.has(metric)):
        metric = pick_primary(metrics)
        if name:
            known = ", ".join(each.key for each in metrics) or "none, there are no trials"
            problems.append(f"metric: {name[:80]!r} ignored, these runs have {known}")
    papers = list_papers() if choices.published else ()  # a new process need not read the papers' tables first
    for paper in choices.published:
        if paper not in papers:
            problems.append(f"published: {paper[:80]!r} ignored, expected one of {', '.join(papers)}")
    printed = tuple(row for paper in choices.published if paper in papers for row in read_published_rows(paper))
    options = _options(choices.option, chart.list_options(comparison), problems) if chart else {}
    return ChartSheet(comparison, table, metrics, metric, printed, options, tuple(problems))


def choose_options(sheet: ChartSheet, chart: Chart) -> ChartSheet:
    """The same sheet with the options of one chart, for a page with several."""
    known = chart.list_options(sheet.comparison)
    return replace(sheet, options=_options(sheet.comparison.choices.option, known, []))


def _options(texts: Iterable[str], known: Mapping[str, tuple[str, ...]], problems: list[str]) -> Mapping[str, str]:
    """A chart's options, each with the chosen or its first value. Options of other charts are ignored."""
    options = {name: values[0] for name, values in known.items()}
    for text in texts:
        name, _, value = text.partition(":")
        if name not in known:
            continue
        if value in known[name]:
            options[name] = value
        else:
            problems.append(f"option: {text[:80]!r} ignored, expected {name}: {', '.join(known[name])}")
    return options
