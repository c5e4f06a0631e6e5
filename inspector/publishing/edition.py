"""What a published page says of itself, and asking a page in this process as somebody without an account."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import cast
from urllib.parse import unquote, urlsplit
from uuid import UUID
from wsgiref.util import setup_testing_defaults

from django.core.exceptions import PermissionDenied
from django.core.handlers.wsgi import WSGIRequest
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import resolve
from django_htmx.middleware import HtmxMiddleware

from benchapp.models import Run, User
from inspector.web.text.visible import VisibleMiddleware

HOST = "published.invalid"  # of absolute addresses in an answer: never anybody's


@dataclass(frozen=True, slots=True)
class Edition:
    """Pages find it as `published`: they leave out what needs a server, and name what they were made from."""

    version: str
    record_digest: str
    home: str  # the address of the experiment
    trials: str  # and of the list of its trials
    runs: Mapping[UUID, Run]  # read once for all pages


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
    """May read and nothing more. It is no row: nothing that somebody wrote, reviews or was told is its own."""
    return User(pk=0, username="", level=User.Level.VIEWER)


def ask(address: str, edition: Edition) -> PageAnswer | None:
    """What the page answers; None where it shows nothing to this reader."""
    request = PublishedRequest(address, edition)
    try:
        response = cast(HttpResponseBase, HtmxMiddleware(VisibleMiddleware(_view))(request))
    except (Http404, PermissionDenied):
        return None
    if response.status_code != 200:
        return None
    return PageAnswer(response.get("Content-Type", "").partition(";")[0], _read(response))


def _view(request: HttpRequest) -> HttpResponse:
    match = resolve(request.path_info)
    request.resolver_match = match
    return cast(HttpResponse, match.func(request, *match.args, **match.kwargs))


def _read(response: HttpResponseBase) -> bytes:
    if response.streaming:
        return b"".join(cast(Iterable[bytes], response))
    return cast(HttpResponse, response).content
