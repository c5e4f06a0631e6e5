"""Answers for machines: `/healthz` and `/readyz` about this process, `/metrics` about the work; and the page for
errors of the server.

The first two are open without login, so they reveal as little as possible. The third asks for a token like any page.
"""

from __future__ import annotations

import sys

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from prometheus_client import CONTENT_TYPE_LATEST

from benchapp.deploy.readiness import checks
from benchapp.experiments.work.work_metrics import render_metrics
from benchapp.record.error_text import describe_failure
from inspector.web.access import open_to_all


@open_to_all
@never_cache
def healthz(request: HttpRequest) -> JsonResponse:
    """Return 200 as long as this process answers at all; nothing else is asked. If there is no answer, restart it."""
    return JsonResponse({"status": "ok"})


@open_to_all
@never_cache
def readyz(request: HttpRequest) -> JsonResponse:
    """Return 200 if database, migrations and broker work, else 503 with the name of what does not."""
    found = checks()
    ready = all(check.is_met for check in found)
    states = {
        "status": "ready" if ready else "not ready",
        "checks": {check.name: "ok" if check.is_met else check.missing for check in found},
    }
    return JsonResponse(states, status=200 if ready else 503)


@never_cache
def metrics(request: HttpRequest) -> HttpResponse:
    """Return what waits, runs and was spent, for Prometheus and for schedulers that start workers."""
    return HttpResponse(render_metrics(), content_type=CONTENT_TYPE_LATEST)


def broken(request: HttpRequest) -> HttpResponse:
    """Answer 503 where the disk or the database failed, else 500.
    Do not read the request: that may be what failed."""
    error = sys.exc_info()[1]
    message = describe_failure(error) if error else ""
    if isinstance(error, OSError):
        message = message.rpartition(": ")[2]  # paths of the server are nothing for a page
    return render(None, "500.html", {"message": message}, status=503 if message else 500)
