"""`/trials/<id>/live/`: what the agent did since the page last asked, for the inspector of a trial at work."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_safe

from benchapp.models import Trial
from inspector.pages.trials.live_trial import steps_since
from inspector.web.subject import of_trial


@require_safe
@of_trial
def live_trial(request: HttpRequest, found: Trial) -> HttpResponse:
    """A fragment for htmx; anybody else is sent to the page it belongs to."""
    if not request.htmx:  # type: ignore[attr-defined]
        return redirect(found)
    number = request.GET.get("attempt", "")
    attempt = get_object_or_404(found.attempts, number=int(number) if number.isdecimal() and len(number) < 6 else 0)
    context = {"live": steps_since(attempt, request.GET.get("after", "")), "this_trial": found, "is_more": True}
    return render(request, "trials/_live_more.html", context)
