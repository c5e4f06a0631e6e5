"""`/compare/`: runs picked by filter, and their conditions against a baseline. One experiment has a page of its own."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from benchapp.models import Run
from benchapp.papers.published_rows import PAPERS
from benchapp.stats.comparing.answer import arrange
from benchapp.stats.comparing.choices import assign, parse_choices
from benchapp.stats.comparing.selection import facets_of
from benchapp.stats.metrics.catalogue import METRICS
from inspector.charts.chart_request import sheet_of
from inspector.pages.compare.answer_page import answer_twin, build_answer_context, comparison_twin, groups_twin
from inspector.pages.compare.results import find_new_address, read_parent
from inspector.pages.compare.sides_view import build_sides, choose_sides
from inspector.web.responses import next_url, paginate, render_page

GROUPS_PER_PAGE = 30


def compare(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    choices, problems = parse_choices(request.GET)
    parent = read_parent(choices)
    if parent is not None or choices.q:
        return redirect(find_new_address(choices, parent, as_json=as_json))
    # A part that is ignored would widen the comparison to runs that nobody asked for.
    if problems or not choices.pairs() or choices.metric not in ("", *METRICS):
        return choose_sides(request, as_json=as_json)
    sheet = sheet_of(request)
    comparison = sheet.comparison
    members = assign(comparison.runs, choices.sides)
    missing = [side for side in choices.sides if not members[side.letter]]
    missing = [side for side in missing if not Run.objects.not_deleted().filter(side.matches()).exists()]
    if missing:
        return choose_sides(request, as_json=as_json, missing=missing)
    groups = paginate(request, arrange(comparison.groups.all), per_page=GROUPS_PER_PAGE)
    data = {**comparison_twin(request, sheet), "next": next_url(request, groups)}
    if as_json:
        data |= {"answer": answer_twin(sheet), "groups": groups_twin(sheet, list(groups))}
        return render_page(request, "compare/compare.html", data=data, as_json=True)
    context = {
        **build_answer_context(request, sheet, list(groups)),
        **(build_sides(comparison) if choices.sides else {}),
        "page": groups,
        "page_name": "page",
        "facets": facets_of(choices),
        "papers": PAPERS,
        "experiments_total": len({run.experiment_id for run in comparison.runs}),
    }
    return render_page(request, "compare/compare.html", data=data, context=context)
