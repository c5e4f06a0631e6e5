"""Evidence capsules: what one claim about a decision or a trial rests on, as one file to take away."""

from __future__ import annotations

import base64
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe

from benchapp.models import Run, Trial
from inspector.pages.library.capsule import DECISION_WITH, Capsule, build_decision_capsule, build_trial_capsule
from inspector.web.closed_pages import refuse_closed
from inspector.web.subject import of_run


@require_safe
@of_run
def library_capsule(request: HttpRequest, run: Run) -> HttpResponse:
    """`?episode=&decision=` name the decision, `claim=` is printed at the top. 404 where there is no such decision."""
    try:
        episode_id, number = UUID(request.GET.get("episode", "")), int(request.GET.get("decision", ""))
    except ValueError as error:
        raise Http404("a capsule is of one decision: ?episode=ID&decision=NUMBER") from error
    episode = get_object_or_404(run.episodes.select_related("library", "family"), public_id=episode_id)
    if not 0 < number < 2**31:
        raise Http404("no such decision")
    decision = get_object_or_404(episode.decisions.select_related(*DECISION_WITH), number=number)
    return _download(build_decision_capsule(run, episode, decision, request.GET.get("claim", "")))


@require_safe
def trial_capsule(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """The trial with its steps and checks, and what became of the library after it."""
    found = get_object_or_404(Trial.objects.for_detail(), public_id=public_id)
    if closed := refuse_closed(request, trial=found) or refuse_closed(request, run=found.episode.run):
        return closed
    return _download(build_trial_capsule(found, request.GET.get("claim", "")))


def _download(capsule: Capsule) -> HttpResponse:
    digest = base64.b64encode(bytes.fromhex(capsule.sha256)).decode()
    named = {"Content-Disposition": f'attachment; filename="{capsule.name}"', "Repr-Digest": f"sha-256=:{digest}:"}
    return HttpResponse(capsule.text, headers=named)
