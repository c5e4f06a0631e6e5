"""What a published page says about itself, and requests in this process by somebody without an account."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast
from urllib.parse import unquote, urlsplit
from uuid import UUID
from wsgiref.util import setup_testing_defaults

from django.core.exceptions import PermissionDenied
from django.core.handlers.wsgi import WSGIRequest
from django.db.models import prefetch_related_objects
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import ResolverMatch
from django_htmx.middleware import HtmxMiddleware

from benchapp.models import Run, Trial, User
from inspector.pages.trials.trial import AROUND
from inspector.reader.reading import read_ahead
from inspector.web.text.visible import VisibleMiddleware

HOST = "published.invalid"  # of absolute addresses in an answer: never anybody's


GROUP, MOST_READ = 50, 500  # trials that are read at once, and that stay in memory


class TrialShelf:
    """The trials of a site, read in groups with the rows of their pages. Those after `MOST_READ` are read one by one."""

    def __init__(self, trials: Sequence[UUID], runs: Mapping[UUID, Run]) -> None:
        self.trials, self.runs = trials[:MOST_READ], runs
        self.places = {public_id: place // GROUP for place, public_id in enumerate(self.trials)}
        self.groups: dict[int, dict[UUID, Trial]] = {}

    def find(self, public_id: UUID) -> Trial | None:
        """Return None where it is not here."""
        place = self.places.get(public_id)
        if place is None:
            return None
        if place not in self.groups:
            self.groups[place] = self._read(self.trials[place * GROUP : (place + 1) * GROUP])
        return self.groups[place].get(public_id)

    def _read(self, wanted: Sequence[UUID]) -> dict[UUID, Trial]:
        found = list(Trial.objects.for_detail().filter(public_id__in=wanted))
        for trial in found:
            trial.episode.run = self.runs[trial.episode.run.public_id]  # what was read once for it is kept there
        read_ahead(found)
        prefetch_related_objects(found, *AROUND)
        return {trial.public_id: trial for trial in found}


@dataclass(frozen=True, slots=True)
class Edition:
    """Pages find it as `published`: they leave out what needs a server, and name what they were made from."""

    version: str
    record_digest: str
    home: str  # the address of the experiment
    trials: str  # and of the list of its trials
    runs: Mapping[UUID, Run]  # read once for all pages
    shown: TrialShelf


@dataclass(frozen=True, slots=True)
class PageAnswer:
    """`kind`: the content type without its parameters."""

    kind: str
    content: bytes


class PublishedRequest(WSGIRequest):
    """From nobody: no cookie, no session, no host that settings would have to allow."""

    def __init__(self, address: str, edition: Edition) -> None:
        url = urlsplit(address)
        path = unquote(url.path).encode().decode("latin-1")  # as a web server hands it over
        environ: dict[str, object] = {"PATH_INFO": path, "QUERY_STRING": url.query}
        setup_testing_defaults(environ)
        super().__init__(environ)
        self.user = make_reader()
        self.published = edition

    def get_host(self) -> str:
        return HOST


def make_reader() -> User:
    """A reader without an account: may read and nothing more. It has no row, so it owns no text, review or mention."""
    return User(pk=0, username="", level=User.Level.VIEWER)


def ask(address: str, edition: Edition, match: ResolverMatch) -> PageAnswer | None:
    """What the page answers; None where it shows nothing to this reader. `match`: what its path resolves to."""
    request = PublishedRequest(address, edition)
    request.resolver_match = match
    try:
        response = cast(HttpResponseBase, HtmxMiddleware(VisibleMiddleware(_view))(request))
    except (Http404, PermissionDenied):
        return None
    if response.status_code != 200:
        return None
    return PageAnswer(response.get("Content-Type", "").partition(";")[0], _read(response))


def _view(request: HttpRequest) -> HttpResponse:
    match = cast(ResolverMatch, request.resolver_match)
    return cast(HttpResponse, match.func(request, *match.args, **match.kwargs))


def _read(response: HttpResponseBase) -> bytes:
    if response.streaming:
        return b"".join(cast(Iterable[bytes], response))
    return cast(HttpResponse, response).content
