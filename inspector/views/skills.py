"""`/runs/<id>/skills/`, the usage funnel: which skills were there, which were read, followed, and how those trials ended."""

from __future__ import annotations

from typing import cast

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from benchapp.models import Run, Trial, User
from benchapp.reviewing.blinding import closed_trials
from inspector.funnel import SHARES, open_funnel
from inspector.funnel import as_json as funnel_as_json
from inspector.pages import render_page
from inspector.views.review.closed import of_open_run


@require_safe
@of_open_run
def skills(request: HttpRequest, run: Run, *, as_json: bool = False) -> HttpResponse:
    closed_rows = closed_trials(cast(User, request.user))
    told = Trial.objects.exclude(pk__in=closed_rows.filter(episode__run=run).values("pk"))
    page = open_funnel(run, request.GET, told)
    data = {
        "run": {"id": run.public_id, "condition": run.condition, "scripted": run.scripted},
        **funnel_as_json(page),
        "next": None,
    }
    context = {"section": "run", "this_run": run, "this": page, "shares": SHARES}
    return render_page(request, "inspector/skills.html", data=data, context=context, as_json=as_json)
