"""`/compare/charts/<key>/`: one chart with its question, notes and table; twins in JSON and CSV."""

from __future__ import annotations

import orjson
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.cache import patch_vary_headers

from benchapp.stats.metrics.splits import name_attribute
from inspector.charts import CHARTS
from inspector.charts.chart import BY, Chart, ChartTable
from inspector.charts.chart_request import card_of, sheet_of, with_drawing
from inspector.charts.chart_table import MAX_ROWS, csv_text, numeric_columns, text_rows
from inspector.charts.drawing.palette import twins
from inspector.charts.drawn_chart import DrawnChart, draw_chart, write_caption
from inspector.charts.sheet import ChartSheet
from inspector.pages.compare.results import Permalink, read_parent
from inspector.pages.people.comments import count_chart_comments
from inspector.web.responses import PathLink, attach, is_published, render_page, wants_fragment


def chart(request: HttpRequest, key: str, *, as_json: bool = False) -> HttpResponse:
    found = _find_chart(key)
    sheet = sheet_of(request, found)
    drawn_chart = draw_chart(found, sheet, with_figure=as_json)
    if not as_json and wants_fragment(request):
        context = {"chart": found, **build_table(drawn_chart.drawing.table)}
        response = render(request, "compare/_chart_table.html", context)
        patch_vary_headers(response, ["HX-Request"])
        return response
    comparison, drawing = sheet.comparison, drawn_chart.drawing
    # Whose scores the chart shows: its notes name the judge then.
    judge = comparison.judge if comparison.judged_by in drawing.notes else None
    pin = Permalink(request, comparison)
    links = [PathLink(row.url) if row.url else None for row in drawing.table.rows]
    rows = [{**record, "url": link} for record, link in zip(drawing.table.records(), links, strict=True)]
    data = {
        "key": found.key,
        "title": found.title,
        "question": found.question,
        "caption": write_caption(found, sheet),
        "figure": None if drawn_chart.figure is None else orjson.Fragment(drawn_chart.figure),
        "dark": twins(),  # of each light colour
        "table": {"columns": drawing.table.columns, "rows": rows},
        "notes": drawing.notes,
        "absent": drawing.absent,
        "after": found.after,
        "choices": comparison.choices.pairs(),
        "options": sheet.options,
        "metric": sheet.metric.key if found.uses_metric and sheet.metric else None,
        "problems": sheet.problems,
        "scripted": comparison.scripted or bool(judge and judge.is_scripted),
        "fingerprint": comparison.fingerprint,
        "pin": pin,
        "as_of": pin.as_of,
        "permalink": pin.permalink,
    }
    context = {} if as_json else {**_build_context(request, found, sheet, drawn_chart), "judge": judge}
    return render_page(request, "compare/chart.html", data=data, context=context, as_json=as_json)


def chart_csv(request: HttpRequest, key: str) -> HttpResponse:
    found = _find_chart(key)
    table = draw_chart(found, sheet_of(request, found), with_figure=False).drawing.table
    text = csv_text(table, request.build_absolute_uri)
    return HttpResponse(text, "text/csv; charset=utf-8", headers=attach(f"{found.key}.csv"))


def _find_chart(key: str) -> Chart:
    if key not in CHARTS:
        raise Http404(f"no chart {key!r}; there are {', '.join(CHARTS)}")
    return CHARTS[key]


def _build_context(request: HttpRequest, found: Chart, sheet: ChartSheet, drawn_chart: DrawnChart) -> dict[str, object]:
    choices, keys = sheet.comparison.choices, list(CHARTS)
    place = keys.index(found.key)
    before, behind = (card_of(CHARTS[keys[(place + step) % len(keys)]], choices) for step in (-1, 1))  # in a round
    return {
        "chart": found,
        "choices": choices,
        "stand_ins": sheet.comparison.stand_ins,
        "card": with_drawing(card_of(found, choices, large=True), found, drawn_chart.drawing),
        "before": before,
        "behind": behind,
        "parent": read_parent(choices),
        "query": choices.query(),
        "metrics": sheet.metrics,
        "chosen": sheet.metric,
        "settings": [
            (name, [(f"{name}:{value}", name_attribute(value) if name == BY else value) for value in values])
            for name, values in found.list_options(sheet.comparison).items()
        ],
        "drawn": [f"{name}:{value}" for name, value in sheet.options.items()],
        "commented": None if is_published(request) else count_chart_comments(found.key, choices),
        "kept": [
            (name, value)
            for name, value in choices.pairs()
            if not (name == "option" and value.partition(":")[0] in found.options)
            and not (name == "metric" and found.uses_metric)  # the page's own form has controls for both
        ],
        **build_table(drawn_chart.drawing.table),
    }


def build_table(table: ChartTable) -> dict[str, object]:
    """Return a chart's numbers as a template writes them, the first MAX_ROWS rows."""
    return {
        "heads": list(zip(table.columns, numeric_columns(table), strict=True)),
        "rows": text_rows(table),
        "rows_left": max(0, len(table.rows) - MAX_ROWS),
    }
