"""`/experiments/<id>/rounds/`: has libraries tried on all deployed tasks: of each round, or the last without each of its skills."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_http_methods

from benchapp.experiments.round_probes import cancel_rounds, launch_rounds, list_learning_runs
from benchapp.models import Experiment, User
from inspector.pages.experiments.measuring import (
    PAGE,
    SKILLS,
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
        done = _cancel(request, found) if request.POST.get("act") == "cancel" else _launch(request, found)
        if done:
            return done
    query = request.POST if request.method == "POST" else request.GET
    page = open_measuring_page(found, query)
    data = {"experiment": found, **PAGE.read(page), "next": None}
    context = {
        "experiment": found,
        "page": page,
        "reason": query.get("reason", page.asked.reason),
        "wants_judged": request.method == "GET" or "judged" in query,
    }
    status = 422 if request.method == "POST" else 200
    return render_page(
        request, "experiments/measuring.html", data=data, context=context, as_json=as_json, status=status
    )


def _launch(request: HttpRequest, found: Experiment) -> HttpResponse | None:
    """Launch what was estimated. None where it is refused: the page says why."""
    asked, problem = read_asked(request.POST)
    try:
        if problem:
            raise RunnerError(problem)
        wanted = preview_asked(list_learning_runs(found), asked)
        judged = bool(request.POST.get("judged"))
        probes = launch_rounds(wanted, reason=request.POST.get("reason", ""), by=user_of(request), judged=judged)
    except RunnerError as error:
        messages.error(request, f"Nothing was launched. {error}")
        return None
    told = f"{len(probes)} probe{'' if len(probes) == 1 else 's'}, {wanted.trials} trials"
    place = "What skills add" if asked.design == SKILLS else "The learning curve"
    messages.success(request, f"Launched: {told}. {place} appears when they have ended.")
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
