"""Permalinks: an address that says as of when, and a page that says what has come since instead of mixing it in."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.http import HttpRequest
from django.utils import timezone

from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.stats.comparing.comparison import GroupComparison, count_added_since


@dataclass(frozen=True, slots=True)
class Permalink(Shaped):
    """`added`: runs that match and came later. `revised`: trials of the shown runs that were settled later. Both are left
    out. `unfinished`: one sentence about what has not come yet, or "". `differs`: the numbers are others than those the link was made with, although nothing came later that could be
    left out: something was deleted or edited since."""

    as_of: datetime | None
    added: int
    revised: int
    differs: bool
    query: str
    permalink: str
    live: str
    unfinished: str

    json_shape = JsonShape(
        *("as_of", "runs_added_since=added", "trials_revised_since=revised", "numbers_differ=differs"),
        *("unfinished?", "permalink"),
    )


def build_permalink(request: HttpRequest, comparison: GroupComparison) -> Permalink:
    choices = comparison.choices
    query = choices.but(as_of=choices.as_of or timezone.now(), seen=comparison.fingerprint).query()
    # The page's own path, also when its twin was asked for.
    path = f"{request.path.removesuffix('.json')}/" if request.path.endswith(".json") else request.path
    return Permalink(
        as_of=choices.as_of,
        added=count_added_since(choices),
        revised=comparison.revised,
        differs=bool(choices.seen) and choices.seen != comparison.fingerprint,
        query=query,
        permalink=request.build_absolute_uri(f"{path}?{query}"),
        live=f"{request.path}?{choices.but(as_of=None, seen='').query()}",
        unfinished=comparison.unfinished,
    )
