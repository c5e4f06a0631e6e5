"""`/published/`: what the four papers print, table by table, and what in it does not add up."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from benchapp.papers.loading import PAPERS, read_errata, read_published_rows
from benchapp.papers.printing import Number, flatten_rows, lay_out
from inspector.pages.compare.printed_lanes import MAIN, choose_metric, draw_printed, list_metrics, title_metric
from inspector.web.responses import render_page

# Figures whose numbers appear nowhere in their paper's text or tables. They are not drawn here.
NOT_PRINTED: Mapping[str, tuple[str, ...]] = {
    "skillevolbench": ("Figure 5 (library size)", "Figure 6 (by environment)", "Figure 7 (cost)"),
    "skillflow": ("Figures 6 and 11 (gains by domain and family)", "Figures 7 and 8 (skill growth, kinds of files)"),
    "skilllearnbench": ("Figures 2, 4 and 5 (instances, rounds, methods), except numbers in tables",),
    "skillgenbench": ("Figures 4 to 8 (regimes, generators, pass@k, budgets), except numbers in the text",),
}


@require_safe
def published(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    paper = request.GET.get("paper", "")
    paper = paper if paper in PAPERS else next(iter(PAPERS))
    numbers = _numbers(paper)
    tables = sorted({number["table"] for number in numbers}, key=_order_table)
    main = next((number["table"] for number in numbers if number["metric"] in MAIN), tables[0])
    table = request.GET.get("table", "")
    table = table if table in tables else main
    shown = [number for number in numbers if number["table"] == table]
    layout = lay_out(shown)
    metric = choose_metric(layout, request.GET.get("metric", ""))
    chart = draw_printed(layout, metric)
    found = read_errata(paper)
    data = {
        "paper": paper,
        "table": table,
        "tables": tables,
        "metric": metric,
        "answer": chart.answer,
        "rows": shown,
        "findings": found,
        "not_published_as_numbers": NOT_PRINTED[paper],
        "next": None,  # a table is never longer than a page
    }
    wrong = [finding for finding in found if not finding.is_rounding]
    context = {
        "papers": PAPERS,
        "name": PAPERS[paper],
        "numbers": sum(number["value"] is not None for number in numbers),
        "numbers_here": sum(number["value"] is not None for number in shown),
        "chart": chart,
        "metrics": [(code, title_metric(code)) for code in list_metrics(layout)],
        "columns": layout.columns,
        "labels": layout.labels,
        "lines": layout.lines,
        "found": wrong,
        "found_here": sum(finding.table == table for finding in wrong),
        "rounded": [finding for finding in found if finding.is_rounding],
    }
    return render_page(request, "compare/published.html", data=data, context=context, as_json=as_json)


def _order_table(table: str) -> tuple[bool, str, int]:
    """Tables by their numbers, then figures, then the running text."""
    kind, _, number = table.partition(" ")
    return kind != "Table", kind, int(number or 0)


@cache
def _numbers(paper: str) -> tuple[Number, ...]:
    return tuple(flatten_rows(read_published_rows(paper)))
