"""`/experiments/<id>/rounds/`: has the library of each round tried on all deployed tasks, for the learning curve."""

from __future__ import annotations

from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from benchapp.experiments.round_probes import cancel_rounds, launch_rounds, list_learning_runs
from benchapp.models import Experiment, User
from inspector.pages.experiments.measuring import (
    PAGE,
    AskedMeasuring,
    open_measuring_page,
    preview_asked,
    read_asked,
)
from inspector.web.access import needs, user_of
from inspector.web.responses import render_page
from runner.base.errors import RunnerError


@require_http_methods(["GET", "HEAD", "POST"])
@needs(User.Level.OPERATOR, to_change=True)
def experiment_rounds(request: HttpRequest, public_id: UUID, *, as_json: bool = False) -> HttpResponse:
    found = get_object_or_404(Experiment.objects.standing(), public_id=public_id)
    if request.method == "POST":
        return _cancel(request, found) if request.POST.get("act") == "cancel" else _launch(request, found)
    page = open_measuring_page(found, request.GET)
    data = {"experiment": found, **PAGE.read(page), "next": None}
    context = {"experiment": found, "page": page}
    return render_page(request, "experiments/measuring.html", data=data, context=context, as_json=as_json)


def _launch(request: HttpRequest, found: Experiment) -> HttpResponse:
    """Launches what was estimated; a refusal is said on the page."""
    asked, problem = read_asked(request.POST)
    try:
        if problem:
            raise RunnerError(problem)
        wanted = preview_asked(found, asked)
        judged = bool(request.POST.get("judged"))
        probes = launch_rounds(wanted, reason=request.POST.get("reason", ""), by=user_of(request), judged=judged)
    except RunnerError as error:
        messages.error(request, f"Nothing was launched. {error}")
        return redirect(_build_address(found, asked))
    told = f"{len(probes)} probe{'' if len(probes) == 1 else 's'}, {wanted.trials} trials"
    messages.success(request, f"Launched: {told}. The learning curve appears when they have ended.")
    return redirect("experiment-rounds", found.public_id)


def _cancel(request: HttpRequest, found: Experiment) -> HttpResponse:
    reason = request.POST.get("reason", "")
    try:
        stopped = cancel_rounds(list_learning_runs(found), reason=reason, by=user_of(request))
    except RunnerError as error:
        messages.error(request, f"Nothing was cancelled. {error}")
    else:
        messages.success(request, f"Cancelled: {stopped} probe{'' if stopped == 1 else 's'}. What they recorded stays.")
    return redirect("experiment-rounds", found.public_id)


def _build_address(found: Experiment, asked: AskedMeasuring) -> str:
    pairs = [*(("run", name) for name in asked.runs), ("times", str(asked.times))]
    pairs += [("usd", f"{asked.max_usd:g}")] if asked.max_usd else []
    return f"{reverse('experiment-rounds', args=[found.public_id])}?{urlencode(pairs)}"
