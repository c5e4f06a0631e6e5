"""The filter somebody came with to make a queue, kept while they first make a codebook for it."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import reverse

from benchapp.review.queues.populations import Population, parse_population

COOKIE = "queue_filter"
LONGEST = 3_000  # characters: browsers refuse cookies of 4 kB
SECONDS = 2 * 3600
PRESET = "failed"  # what an address without one means


@dataclass(frozen=True, slots=True)
class KeptFilter:
    query: str
    population: Population

    @property
    def url(self) -> str:
        return f"{reverse('queue-new')}?{self.query}"

    @property
    def says(self) -> str:
        parts = ", ".join(text for _, _, text in self.population.narrowed_by())
        return self.population.says() + (f": {parts}" if parts else "")


def keep_filter(request: HttpRequest, response: HttpResponse, query: str) -> None:
    """Only what fits, and only while the reader is at making a queue."""
    if 0 < len(query) <= LONGEST:
        response.set_cookie(
            COOKIE,
            query,
            max_age=SECONDS,
            path=reverse("review"),
            secure=request.is_secure(),
            httponly=True,
            samesite="Lax",
        )


def drop_filter(response: HttpResponse) -> None:
    response.delete_cookie(COOKIE, path=reverse("review"))


def kept_filter(request: HttpRequest) -> KeptFilter | None:
    """None where nothing is kept, or what is kept means nothing any more."""
    query = request.COOKIES.get(COOKIE, "")
    if not query or len(query) > LONGEST:
        return None
    given = QueryDict(query)
    population, problems = parse_population(given, preset=PRESET)
    return None if problems else KeptFilter(given.urlencode(), population)
