"""Middleware that looks at every request: refuse NUL characters,
and write one log line with an id that all lines of it share."""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections.abc import Callable, Iterator
from urllib.parse import quote

from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, JsonResponse
from django.template.loader import render_to_string

from benchapp.record import log_context
from inspector.web.access import wants_page

log = logging.getLogger(__name__)

HEADER = "X-Request-ID"
SANE = re.compile(r"[A-Za-z0-9._-]{8,64}")  # anything else from outside is not written into logs
QUIET = ("/healthz", "/readyz", "/metrics", "/static/")  # asked every few seconds, or a dozen times a page
NUL = "\x00"


class NulMiddleware:
    """Refuse a request that contains a NUL character with 400, and name the part.
    Runs before anything that reads a session, a form or an address."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(self, request: HttpRequest, view: object, args: object, kwargs: object) -> HttpResponse | None:
        part = next(_find_parts(request), None)
        if part is None:
            return None
        message = f"There is a NUL character in {part}, where no text may have one."
        if wants_page(request):
            theme = request.COOKIES.get("theme", "").replace(NUL, "")
            return HttpResponseBadRequest(render_to_string("400.html", {"message": message, "theme": theme}))
        return JsonResponse({"error": message}, status=400)


def _find_parts(request: HttpRequest) -> Iterator[str]:
    if NUL in request.path:
        yield "the address"
    for words, fields in (("the address", request.GET), ("the form", request.POST)):
        for name, values in fields.lists():
            if any(NUL in text for text in (name, *values)):
                yield f"the part “{name[:80].replace(NUL, '')}” of {words}"
    if any(NUL in text for text in request.COOKIES.values()):
        yield "a cookie"


class RequestLogMiddleware:
    """Runs first, so that it sees the answers of every other middleware. The id goes back in X-Request-ID.

    The query is left out: it may hold what a person searched for. `user` is an account's number, never a name.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        given = request.headers.get(HEADER, "")
        known = given if SANE.fullmatch(given) else uuid.uuid4().hex
        with log_context.about(request=known):
            started = time.monotonic()
            response = self.get_response(request)
            milliseconds = 1000 * (time.monotonic() - started)
            path = quote(request.path, safe="/:@!$&'()*+,;=-._~")
            is_quiet = request.path.startswith(QUIET) and response.status_code < 500
            facts = {
                "method": request.method,
                "path": path,
                "status": response.status_code,
                "milliseconds": round(milliseconds, 1),
            }
            shown = request.method, path, response.status_code, milliseconds
            log.log(logging.DEBUG if is_quiet else logging.INFO, "%s %s %d in %.0f ms", *shown, extra={"facts": facts})
        response[HEADER] = known
        return response
