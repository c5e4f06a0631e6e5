"""One log line per request, and an id that all lines of one request share."""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections.abc import Callable
from urllib.parse import quote

from django.http import HttpRequest, HttpResponse

from benchapp.record import log_context

log = logging.getLogger(__name__)

HEADER = "X-Request-ID"
SANE = re.compile(r"[A-Za-z0-9._-]{8,64}")  # anything else from outside is not written into logs
QUIET = ("/healthz", "/readyz", "/static/")  # asked every few seconds, or a dozen times a page


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
            _tell(request, response, 1000 * (time.monotonic() - started))
        response[HEADER] = known
        return response


def _tell(request: HttpRequest, response: HttpResponse, milliseconds: float) -> None:
    path = quote(request.path, safe="/:@!$&'()*+,;=-._~")
    level = logging.DEBUG if request.path.startswith(QUIET) and response.status_code < 500 else logging.INFO
    facts = {
        "method": request.method,
        "path": path,
        "status": response.status_code,
        "milliseconds": round(milliseconds, 1),
    }
    log.log(
        level,
        "%s %s %d in %.0f ms",
        request.method,
        path,
        response.status_code,
        milliseconds,
        extra={"facts": facts},
    )
