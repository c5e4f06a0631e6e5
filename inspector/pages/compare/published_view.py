"""`/published/`: what the four papers print, table by table, and what in it does not add up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from benchapp.papers.errata import read_errata
from benchapp.papers.loading import PAPERS, read_published_rows
from benchapp.papers.printing import Number, flatten_rows, lay_out
from inspector.web.responses import render_page

# Figures whose numbers stand nowhere in their paper's text or tables. Nothing of them is drawn here.
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
    tables = list(dict.fromkeys(number["table"] for number in numbers))
    table = request.GET.get("table", "")
    table = table if table in tables else tables[0]
    shown = [number for number in numbers if number["table"] == table]
    found = read_errata(paper)
    data = {
        "paper": paper,
        "table": table,
        "tables": tables,
        "rows": shown,
        "findings": found,
        "not_published_as_numbers": NOT_PRINTED[paper],
        "next": None,  # a table is never longer than a page
    }
    layout = lay_out(shown)
    context = {
        "papers": [(key, name, _count_printed(_numbers(key))) for key, name in PAPERS.items()],
        "name": PAPERS[paper],
        "numbers": _count_printed(numbers),
        "columns": layout.columns,
        "labels": layout.labels,
        "lines": layout.lines,
        "found": (wrong := [finding for finding in found if not finding.is_rounding]),
        "rounded": (rounded := [finding for finding in found if finding.is_rounding]),
        "kinds": dict(Counter(finding.kind for finding in wrong if finding.table == table)),
        "rounded_here": sum(finding.table == table for finding in rounded),
    }
    return render_page(request, "compare/published.html", data=data, context=context, as_json=as_json)


@cache
def _numbers(paper: str) -> tuple[Number, ...]:
    return tuple(flatten_rows(read_published_rows(paper)))


def _count_printed(numbers: Iterable[Number]) -> int:
    return sum(number["value"] is not None for number in numbers)
