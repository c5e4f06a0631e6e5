"""The answer to whoever asks for a page that would give away an item they review blind."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from benchapp.models import Run, Trial, User
from benchapp.reviewing.blinding import closing_queue
from inspector.pages import render_page


def closed_to(
    request: HttpRequest, *, trial: Trial | None = None, run: Run | None = None, as_json: bool = False
) -> HttpResponse | None:
    """403 with the reason and the way to the queue; None where the page is open to this person. One query.

    The answer names the queue and nothing of the trial or run that was asked for, so all closed pages look the same.
    """
    user: User = request.user  # type: ignore[assignment]  # nobody comes here without
    queue = closing_queue(user, trial=trial, run=run)
    if queue is None:
        return None
    said = f"This page could give away an item of the queue “{queue.name}” that you have not finished yet."
    data = {"error": said, "queue": request.build_absolute_uri(queue.get_absolute_url()), "next": None}
    return render_page(request, "review/closed.html", data=data, context={"queue": queue}, as_json=as_json, status=403)
