"""Find the run or trial that a page is about by its public id, and refuse a person who reviews an item of it
blind."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import wraps
from itertools import chain
from typing import TypeVar
from uuid import UUID

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404

from benchapp.experiments.work.progress import AtWork
from benchapp.models import Episode, Queue, QueueItem, Run, Trial
from benchapp.models.base import PublicModel
from benchapp.models.trials import TrialQuerySet
from benchapp.review.blinding import ReviewAccess, hidden_until
from inspector.web.access import user_of
from inspector.web.responses import View, render_page


def review_access(request: HttpRequest) -> ReviewAccess:
    """Return what this person may read.
    Read once for a request, unless it may change what they still have to review."""
    if request.method not in {"GET", "HEAD"}:
        return ReviewAccess(user_of(request))
    access: ReviewAccess = vars(request).setdefault("review_access", ReviewAccess(user_of(request)))
    return access


def refuse_closed(
    request: HttpRequest, *, trial: Trial | None = None, run: Run | None = None, as_json: bool = False
) -> HttpResponse | None:
    """Return 403 with the reason and a link to the queue; None if the page is open to this person.

    The answer names the queue but not the trial or run, so all closed pages look the same.
    """
    return _refuse(request, review_access(request).closing(trial=trial, run=run), as_json=as_json)


def item_closed_to(request: HttpRequest, item: QueueItem, *, as_json: bool = False) -> HttpResponse | None:
    """As `refuse_closed`, for an item of a queue that this person does not review: another queue may hide it from
    them."""
    return _refuse(request, review_access(request).closing_item(item), as_json=as_json)


def _refuse(request: HttpRequest, queue: Queue | None, *, as_json: bool) -> HttpResponse | None:
    if queue is None:
        return None
    error = f"This page could reveal an item of the queue “{queue.name}” that you have not finished yet."
    data = {"error": error, "queue": request.build_absolute_uri(queue.get_absolute_url())}
    return render_page(request, "review/closed.html", data=data, context={"queue": queue}, as_json=as_json, status=403)


def without_closed(access: ReviewAccess, working: list[AtWork]) -> list[AtWork]:
    """Hide the steps of trials that are closed to this reader."""
    shown = []
    for row in working:
        trial = row.attempt.trial
        queue = access.closing_trial(trial.task_id, trial.episode.key) if row.step else None
        if queue and row.step:
            row = replace(row, step={"step_id": row.step.get("step_id", "?"), "message": hidden_until(queue)})
        shown.append(row)
    return shown


Row = TypeVar("Row", bound=PublicModel)
T = TypeVar("T")


def of_run(view: View) -> View:
    """Give the view the run that the address names. 404 if there is none, 403 if it is closed to the reader."""

    @wraps(view)
    def find(request: HttpRequest, *, public_id: UUID, **kwargs: object) -> HttpResponseBase:
        site = getattr(request, "static_site", None)
        run = site.runs[public_id] if site else get_object_or_404(Run.objects.for_detail(), public_id=public_id)
        closed = refuse_closed(request, run=run, as_json=bool(kwargs.get("as_json")))
        return closed or view(request, run, **kwargs)

    return find


def of_trial(view: View) -> View:
    """Give the view the trial that the address names, with the rows that a page shows around it.
    Refuses as `of_run`."""
    return _of_trial(view, TrialQuerySet.for_detail)


def of_trial_alone(view: View) -> View:
    """As `of_trial`, without the rows that a page shows around it: for a file or a text that needs none of them."""
    return _of_trial(view, TrialQuerySet.not_deleted)


def _of_trial(view: View, select: Callable[[TrialQuerySet], TrialQuerySet]) -> View:
    @wraps(view)
    def find(request: HttpRequest, *, public_id: UUID, **kwargs: object) -> HttpResponseBase:
        site = getattr(request, "static_site", None)
        trial = site.shown.find(public_id) if site else None
        trial = trial or get_object_or_404(select(Trial.objects.all()), public_id=public_id)
        closed = refuse_closed(request, trial=trial, as_json=bool(kwargs.get("as_json")))
        return closed or view(request, trial, **kwargs)

    return find


def once_for(run: Run, name: Hashable, read: Callable[[], T]) -> T:
    """Read once for this run object, which lives for one request, or for all pages of a static site."""
    kept: dict[Hashable, T] = vars(run).setdefault("read_once", {})
    if name not in kept:
        kept[name] = read()
    return kept[name]


def choose_row(rows: Sequence[Row], public_id: str, *preferred: Callable[[Row], object]) -> Row | None:
    """Return the row whose public id the address asks for; else the first row that a preference accepts, in the order
    of the preferences; else the first row; None without rows."""
    named = (row for row in rows if str(row.public_id) == public_id)
    liked = (row for holds in preferred for row in rows if holds(row))
    return next(chain(named, liked, rows), None)


def head_of(run: Run, episodes: Sequence[Episode], episode: Episode | None) -> dict[str, object]:
    """Return what the head of a page reads that shows one episode of a run."""
    return {"section": "run", "this_run": run, "this_episode": episode, "all_episodes": episodes}


def find_neighbours(rows: Sequence[T], row: T | None) -> tuple[T | None, T | None]:
    """Return (previous, next), each None at an end; (None, None) if the row is not among them."""
    if row is None or row not in rows:
        return None, None
    place = rows.index(row)
    return (rows[place - 1] if place else None), (rows[place + 1] if place + 1 < len(rows) else None)
