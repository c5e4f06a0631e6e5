"""`/compare/certainty/`: how sure the differences are, and of what."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from benchapp.experiments.skill_probes import read_left_out
from benchapp.stats.comparing.answer import rank_groups
from benchapp.stats.comparing.certainty import assess
from inspector.charts.chart_request import sheet_of
from inspector.pages.compare.results import begin_page, begin_twin
from inspector.web.responses import next_url, paginate, render_page

ITEMS_PER_PAGE = 60


@require_safe
def certainty(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    sheet = sheet_of(request)
    comparison, metric = sheet.comparison, sheet.metric
    found = assess(comparison, metric) if metric else None
    page = paginate(request, list(found.items) if found else [], per_page=ITEMS_PER_PAGE)
    ranks = rank_groups(comparison, metric) if metric else None
    left_out = read_left_out(comparison.runs)
    data = {
        **begin_twin(request, sheet),
        "metric": metric.key if metric else None,
        "measured": found.measured if found else None,
        "factor": found.factor if found else None,
        "groups": found.groups if found else (),
        "transfer": found.transfer if found else None,
        "ranks": ranks,
        "left_out": left_out,
        "items": list(page),
        "next": next_url(request, page),
    }
    context = {
        **begin_page(comparison, "compare-certainty"),
        "problems": sheet.problems,
        "pin": data["pin"],
        "chosen": metric,
        "found": found,
        "page": page,
        "baseline": comparison.groups.baseline,
    }
    return render_page(request, "compare/compare_certainty.html", data=data, context=context, as_json=as_json)
