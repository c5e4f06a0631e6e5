"""What a page is about: one run or trial, found by its public id and closed to whoever reviews an item of it blind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar
from uuid import UUID

from django.db.models import Model
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404

from benchapp.models import Run, Trial
from inspector.web.closed_pages import refuse_closed

View = Callable[..., HttpResponseBase]
Row = TypeVar("Row", bound=Model)
T = TypeVar("T")


def of_run(view: View) -> View:
    """The view gets the run that the address names; 404 where there is none, 403 where it is closed to the reader."""

    @wraps(view)
    def find(request: HttpRequest, *, public_id: UUID, **kwargs: Any) -> HttpResponseBase:
        run = get_object_or_404(Run.objects.for_detail(), public_id=public_id)
        closed: HttpResponse | None = refuse_closed(request, run=run, as_json=kwargs.get("as_json", False))
        return closed or view(request, run, **kwargs)

    return find


def of_trial(view: View) -> View:
    """The same for a trial."""

    @wraps(view)
    def find(request: HttpRequest, *, public_id: UUID, **kwargs: Any) -> HttpResponseBase:
        trial = get_object_or_404(Trial.objects.for_detail(), public_id=public_id)
        closed: HttpResponse | None = refuse_closed(request, trial=trial, as_json=kwargs.get("as_json", False))
        return closed or view(request, trial, **kwargs)

    return find


def choose_row(rows: Sequence[Row], public_id: str, *preferred: Callable[[Row], object]) -> Row | None:
    """The row with the public id that the address asks for; else the first that the first preference holds for, then the
    next; else the first row; None where there is none."""
    wanted = (lambda row: str(row.public_id) == public_id, *preferred, lambda row: True)  # type: ignore[attr-defined]
    return next((row for holds in wanted for row in rows if holds(row)), None)


def find_neighbours(rows: Sequence[T], row: T | None) -> tuple[T | None, T | None]:
    """The rows before and after this one: None at an end, and twice where it is not among them."""
    if row is None or row not in rows:
        return None, None
    place = rows.index(row)
    return (rows[place - 1] if place else None), (rows[place + 1] if place + 1 < len(rows) else None)
