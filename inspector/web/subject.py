"""Finds the run or trial that a page is about by its public id. Closed to a person who reviews an item of it blind."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import wraps
from itertools import chain
from typing import TypeVar
from uuid import UUID

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import get_object_or_404

from benchapp.models import Run, Trial
from benchapp.models.base import PublicModel
from benchapp.models.trials import TrialQuerySet
from inspector.web.closed_pages import refuse_closed
from inspector.web.responses import View

Row = TypeVar("Row", bound=PublicModel)
T = TypeVar("T")


def of_run(view: View) -> View:
    """The view gets the run that the address names; 404 where there is none, 403 where it is closed to the reader."""

    @wraps(view)
    def find(request: HttpRequest, *, public_id: UUID, **kwargs: object) -> HttpResponseBase:
        site = getattr(request, "published", None)
        run = site.runs[public_id] if site else get_object_or_404(Run.objects.for_detail(), public_id=public_id)
        closed = refuse_closed(request, run=run, as_json=bool(kwargs.get("as_json")))
        return closed or view(request, run, **kwargs)

    return find


def of_trial(view: View) -> View:
    """The same for a trial, with the rows that a page shows around it."""
    return _of_trial(view, TrialQuerySet.for_detail)


def of_trial_alone(view: View) -> View:
    """The same without the rows that a page shows around it: for a file or a text that needs none of them."""
    return _of_trial(view, TrialQuerySet.standing)


def _of_trial(view: View, select: Callable[[TrialQuerySet], TrialQuerySet]) -> View:
    @wraps(view)
    def find(request: HttpRequest, *, public_id: UUID, **kwargs: object) -> HttpResponseBase:
        site = getattr(request, "published", None)
        trial = site.shown.find(public_id) if site else None
        trial = trial or get_object_or_404(select(Trial.objects.all()), public_id=public_id)
        closed = refuse_closed(request, trial=trial, as_json=bool(kwargs.get("as_json")))
        return closed or view(request, trial, **kwargs)

    return find


def once_for(run: Run, name: Hashable, read: Callable[[], T]) -> T:
    """Read once for this run in memory, which lasts for one request, or for all pages of one published site."""
    kept: dict[Hashable, T] = vars(run).setdefault("read_once", {})
    if name not in kept:
        kept[name] = read()
    return kept[name]


def choose_row(rows: Sequence[Row], public_id: str, *preferred: Callable[[Row], object]) -> Row | None:
    """The row with the public id that the address asks for; else the first that the first preference holds for, then the
    next; else the first row; None where there is none."""
    named = (row for row in rows if str(row.public_id) == public_id)
    liked = (row for holds in preferred for row in rows if holds(row))
    return next(chain(named, liked, rows), None)


def find_neighbours(rows: Sequence[T], row: T | None) -> tuple[T | None, T | None]:
    """The rows before and after this one: None at an end, and twice where it is not among them."""
    if row is None or row not in rows:
        return None, None
    place = rows.index(row)
    return (rows[place - 1] if place else None), (rows[place + 1] if place + 1 < len(rows) else None)
