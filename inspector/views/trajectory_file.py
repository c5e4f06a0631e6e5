"""The whole trajectory of a trial as a file: what other tools read, and what a page shows only piece by piece."""

from __future__ import annotations

from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe

from benchapp.exporting.atif_file import atif_pieces, standing_trajectories
from benchapp.models import Trial
from inspector.inspection import chosen_attempt
from inspector.views.review.closed import closed_to


@require_safe
def trajectory_file(request: HttpRequest, public_id: UUID) -> HttpResponse | StreamingHttpResponse:
    """An ATIF document of the attempt that counts, or of `?attempt=`. 404 where it recorded no step."""
    trial = get_object_or_404(Trial.objects.for_detail(), public_id=public_id)
    if closed := closed_to(request, trial=trial):
        return closed
    attempts = list(trial.attempts.order_by("number").prefetch_related("trajectories"))
    attempt = chosen_attempt(attempts, request.GET.get("attempt", ""))
    trajectories = standing_trajectories(attempt) if attempt else []
    if attempt is None or not trajectories:
        raise Http404("this attempt recorded no step")
    response = StreamingHttpResponse(atif_pieces(attempt, trajectories), content_type="application/json")
    response["Content-Disposition"] = f'attachment; filename="trajectory-{attempt.public_id}.json"'
    return response
