"""The one reader of closed words for a request, and the answer instead of a page that would give away an item."""

from __future__ import annotations

from dataclasses import replace

from django.http import HttpRequest, HttpResponse

from benchapp.experiments.work.progress import AtWork
from benchapp.models import Queue, QueueItem, Run, Trial
from benchapp.review.blinding import Words, hidden_until
from inspector.web.access import user_of
from inspector.web.responses import render_page


def words_of(request: HttpRequest) -> Words:
    """The words this reader may see. Read once for a request, unless it may change what they still have to review."""
    if request.method not in {"GET", "HEAD"}:
        return Words(user_of(request))
    words: Words = vars(request).setdefault("words", Words(user_of(request)))
    return words


def refuse_closed(
    request: HttpRequest, *, trial: Trial | None = None, run: Run | None = None, as_json: bool = False
) -> HttpResponse | None:
    """Return 403 with the reason and a link to the queue; None if the page is open to this person.

    The answer names the queue but not the trial or run, so all closed pages look the same.
    """
    return _refuse(request, words_of(request).closing(trial=trial, run=run), as_json=as_json)


def item_closed_to(request: HttpRequest, item: QueueItem, *, as_json: bool = False) -> HttpResponse | None:
    """The same for an item of a queue that this person does not review: another queue may hide it from them."""
    return _refuse(request, words_of(request).closing_item(item), as_json=as_json)


def _refuse(request: HttpRequest, queue: Queue | None, *, as_json: bool) -> HttpResponse | None:
    if queue is None:
        return None
    error = f"This page could reveal an item of the queue “{queue.name}” that you have not finished yet."
    data = {"error": error, "queue": request.build_absolute_uri(queue.get_absolute_url()), "next": None}
    return render_page(request, "review/closed.html", data=data, context={"queue": queue}, as_json=as_json, status=403)


def without_closed(words: Words, working: list[AtWork]) -> list[AtWork]:
    """Hide the steps of trials that are closed to this reader."""
    shown = []
    for row in working:
        trial = row.attempt.trial
        queue = words.closing_trial(trial.task_id, trial.episode.key) if row.step else None
        if queue and row.step:
            row = replace(row, step={"step_id": row.step.get("step_id", "?"), "message": hidden_until(queue)})
        shown.append(row)
    return shown
