"""The whole trajectory of a trial as a file: what other tools read, and what a page shows only piece by piece."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.views.decorators.http import require_safe

from benchapp.exports.atif_file import atif_pieces, standing_trajectories
from benchapp.models import Trial
from inspector.pages.trials.trial import choose_attempt
from inspector.web.subject import of_trial


@require_safe
@of_trial
def trajectory_file(request: HttpRequest, trial: Trial) -> HttpResponse | StreamingHttpResponse:
    """An ATIF document of the attempt that counts, or of `?attempt=`. 404 where it recorded no step."""
    attempts = list(trial.attempts.order_by("number").prefetch_related("trajectories"))
    attempt = choose_attempt(attempts, request.GET.get("attempt", ""))
    trajectories = standing_trajectories(attempt) if attempt else []
    if attempt is None or not trajectories:
        raise Http404("this attempt recorded no step")
    response = StreamingHttpResponse(atif_pieces(attempt, trajectories), content_type="application/json")
    response["Content-Disposition"] = f'attachment; filename="trajectory-{attempt.public_id}.json"'
    return response
