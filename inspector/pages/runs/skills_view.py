"""`/runs/<id>/skills/`, the usage funnel: which skills were there, which were read, followed, and how those trials ended."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from benchapp.models import Run, Trial
from benchapp.record.json_shape import encode
from inspector.pages.runs.skills import SHARES, open_funnel
from inspector.web.closed_pages import words_of
from inspector.web.responses import render_page
from inspector.web.subject import of_run
from inspector.web.text.row_shapes import RUN_HEAD


@require_safe
@of_run
def skills(request: HttpRequest, run: Run, *, as_json: bool = False) -> HttpResponse:
    closed_rows = words_of(request).closed_trials()
    open_trials = Trial.objects.exclude(pk__in=closed_rows.filter(episode__run=run).values("pk"))
    page = open_funnel(run, request.GET, open_trials)
    data = {"run": RUN_HEAD.read(run), **encode(page), "next": None}
    context = {"section": "run", "this_run": run, "this": page, "shares": SHARES}
    return render_page(request, "runs/skills.html", data=data, context=context, as_json=as_json)
