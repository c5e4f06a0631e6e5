"""From the address of a page to what its charts draw from."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from django.http import Http404, HttpRequest

from benchapp.papers.loading import list_papers, read_published_rows
from benchapp.papers.published_rows import PrintedNumber
from benchapp.stats.comparing.choices import LETTERS, Choices, names_known, parse_choices
from benchapp.stats.comparing.comparison import GroupComparison, comparison_of
from benchapp.stats.metrics.catalogue import METRICS, TABLES, pick_primary, table_for
from benchapp.stats.metrics.metric import TrialMetric
from inspector.charts.chart import Chart
from inspector.charts.sheet import ChartSheet


def sheet_of(request: HttpRequest, chart: Chart | None = None, **fixed: object) -> ChartSheet:
    """Read what this request asks for; for one chart also its own options. `fixed`: choices that the page makes itself.

    An invalid part of the address never stops the page: it is ignored, and `problems` says so. Http404 where none of the
    experiments and runs that it names exists: without them it would show every run.
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
    table = _table(comparison, problems)
    # "Past first" says nearly the same once more: charts and exports have it where somebody asks for it.
    metrics = tuple(metric for metric in TABLES[table] if comparison.has(metric) and not metric.past_first)
    return ChartSheet(
        comparison=comparison,
        table=table,
        metrics=metrics,
        metric=_metric(comparison, metrics, problems),
        published=_read_published(choices.published, problems),
        options=_options(choices.option, chart.list_options(comparison), problems) if chart else {},
        problems=tuple(problems),
    )


def choose_options(sheet: ChartSheet, chart: Chart) -> ChartSheet:
    """The same sheet with the options of one chart, for a page with several."""
    known = chart.list_options(sheet.comparison)
    return replace(sheet, options=_options(sheet.comparison.choices.option, known, []))


def _table(comparison: GroupComparison, problems: list[str]) -> str:
    """The chosen one, else the one that fits the runs."""
    table = comparison.choices.table
    if table and table not in TABLES:
        problems.append(f"table: {table[:80]!r} ignored, expected one of {', '.join(TABLES)}")
        table = ""
    return table or table_for(comparison.outcomes.values())


def _metric(comparison: GroupComparison, metrics: tuple[TrialMetric, ...], problems: list[str]) -> TrialMetric | None:
    """The chosen one, of any table; else the primary one of these."""
    name = comparison.choices.metric
    chosen = METRICS.get(name)
    if chosen is not None and (chosen in metrics or comparison.has(chosen)):
        return chosen
    if name:
        told = ", ".join(metric.key for metric in metrics) or "none, there are no trials"
        problems.append(f"metric: {name[:80]!r} ignored, these runs have {told}")
    return pick_primary(metrics)


def _read_published(asked_for: Collection[str], problems: list[str]) -> tuple[PrintedNumber, ...]:
    if not asked_for:
        return ()  # a new process need not read the papers' tables first
    known = list_papers()
    for name in asked_for:
        if name not in known:
            problems.append(f"published: {name[:80]!r} ignored, expected one of {', '.join(known)}")
    return tuple(row for name in asked_for if name in known for row in read_published_rows(name))


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
