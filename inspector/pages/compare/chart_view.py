"""`/compare/charts/<key>/`: one chart with its question, notes and table; twins in JSON and CSV."""

from __future__ import annotations

import orjson
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.cache import patch_vary_headers
from django.views.decorators.http import require_safe

from benchapp.stats.comparing.choices import Choices
from benchapp.stats.judged.judged_columns import ChosenJudge
from benchapp.stats.metrics.splits import name_attribute
from inspector.charts import CHARTS
from inspector.charts.cards import ChartCard, card_of, with_drawing
from inspector.charts.chart import BY, Chart, ChartTable
from inspector.charts.chart_request import sheet_of
from inspector.charts.chart_table import MAX_ROWS, csv_text, numeric_columns, text_rows
from inspector.charts.drawing.palette import twins
from inspector.charts.drawn_chart import DrawnChart, draw_chart, write_caption
from inspector.charts.sheet import ChartSheet
from inspector.pages.compare.results import read_parent
from inspector.pages.people.comments import count_chart_comments
from inspector.web.permalinks import build_permalink
from inspector.web.responses import PathLink, is_published, render_page, wants_fragment


@require_safe
def chart(request: HttpRequest, key: str, *, as_json: bool = False) -> HttpResponse:
    found = _chart(key)
    sheet = sheet_of(request, found)
    drawn_chart = draw_chart(found, sheet, with_figure=as_json)
    if not as_json and wants_fragment(request):
        response = render(request, "compare/_chart_table.html", _table_context(found, drawn_chart.drawing.table))
        patch_vary_headers(response, ["HX-Request"])
        return response
    data = _read_twin(request, found, sheet, drawn_chart)
    context = {} if as_json else _context(request, found, sheet, drawn_chart)
    return render_page(request, "compare/chart.html", data=data, context=context, as_json=as_json)


@require_safe
def chart_csv(request: HttpRequest, key: str) -> HttpResponse:
    found = _chart(key)
    table = draw_chart(found, sheet_of(request, found), with_figure=False).drawing.table
    response = HttpResponse(csv_text(table, request.build_absolute_uri), "text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{found.key}.csv"'
    return response


def _chart(key: str) -> Chart:
    if key not in CHARTS:
        raise Http404(f"no chart {key!r}; there are {', '.join(CHARTS)}")
    return CHARTS[key]


def _read_twin(request: HttpRequest, found: Chart, sheet: ChartSheet, drawn_chart: DrawnChart) -> dict[str, object]:
    """`figure` is plotly's, in the light colours; `dark` gives the twin of each."""
    comparison, drawing = sheet.comparison, drawn_chart.drawing
    pin = build_permalink(request, comparison)
    return {
        "key": found.key,
        "title": found.title,
        "question": found.question,
        "caption": write_caption(found, sheet),
        "figure": None if drawn_chart.figure is None else orjson.Fragment(drawn_chart.figure),
        "dark": twins(),
        "table": _read_table(drawing.table),
        "notes": drawing.notes,
        "absent": drawing.absent,
        "after": found.after,
        "choices": comparison.choices.pairs(),
        "options": sheet.options,
        "metric": sheet.metric.key if found.uses_metric and sheet.metric else None,
        "problems": sheet.problems,
        "scripted": comparison.scripted or bool((judge := _shown_judge(sheet, drawn_chart)) and judge.is_scripted),
        "fingerprint": comparison.fingerprint,
        "pin": pin,
        "as_of": pin.as_of,
        "permalink": pin.permalink,
        "next": None,
    }


def _shown_judge(sheet: ChartSheet, drawn_chart: DrawnChart) -> ChosenJudge | None:
    """Whose scores the chart shows: its notes name the judge then."""
    return sheet.comparison.judge if sheet.comparison.judged_by in drawn_chart.drawing.notes else None


def _read_table(table: ChartTable) -> dict[str, object]:
    links = [PathLink(row.url) if row.url else None for row in table.rows]
    return {
        "columns": table.columns,
        "rows": [{**record, "url": link} for record, link in zip(table.records(), links, strict=True)],
    }


def _context(request: HttpRequest, found: Chart, sheet: ChartSheet, drawn_chart: DrawnChart) -> dict[str, object]:
    choices = sheet.comparison.choices
    before, behind = _find_neighbours(found, choices)
    drawn = (f"{name}:{value}" for name, value in sheet.options.items())
    kept = [(name, value) for name, value in choices.pairs() if not _is_asked_again(found, name, value)]
    return {
        "chart": found,
        "choices": choices,
        "stand_ins": sheet.comparison.stand_ins,
        "judge": _shown_judge(sheet, drawn_chart),
        "card": with_drawing(card_of(found, choices, large=True), found, drawn_chart.drawing),
        "before": before,
        "behind": behind,
        "parent": read_parent(choices),
        "query": choices.query(),
        "pin": build_permalink(request, sheet.comparison),
        "metrics": sheet.metrics,
        "chosen": sheet.metric,
        "settings": [
            (name, [(f"{name}:{value}", name_attribute(value) if name == BY else value) for value in values])
            for name, values in found.list_options(sheet.comparison).items()
        ],
        "drawn": list(drawn),
        "commented": None if is_published(request) else count_chart_comments(found.key, choices),
        "kept": kept,
        **_table_context(found, drawn_chart.drawing.table),
    }


def _is_asked_again(found: Chart, name: str, value: str) -> bool:
    """Whether the page's own form has a control for this part of the address."""
    own_option = name == "option" and value.partition(":")[0] in found.options
    return own_option or (name == "metric" and found.uses_metric)


def _find_neighbours(found: Chart, choices: Choices) -> tuple[ChartCard, ChartCard]:
    """The charts before and after it, in a round."""
    keys = list(CHARTS)
    place = keys.index(found.key)
    before, behind = (CHARTS[keys[(place + step) % len(keys)]] for step in (-1, 1))
    return card_of(before, choices), card_of(behind, choices)


def _table_context(found: Chart, table: ChartTable) -> dict[str, object]:
    return {
        "chart": found,
        "heads": list(zip(table.columns, numeric_columns(table), strict=True)),
        "rows": text_rows(table),
        "rows_left": max(0, len(table.rows) - MAX_ROWS),
    }
