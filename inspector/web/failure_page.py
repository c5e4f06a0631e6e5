"""The page for errors of the server: one line names a failure of the machine; everything else is a bug of ours."""

from __future__ import annotations

import sys

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from benchapp.record.machine_failures import describe_failure


def broken(request: HttpRequest) -> HttpResponse:
    """Answers 503 where the disk or the database failed, else 500. No request's data is read: that may be what failed."""
    error = sys.exc_info()[1]
    told = describe_failure(error) if error else ""
    if isinstance(error, OSError):
        told = told.rpartition(": ")[2]  # paths of the server are nothing for a page
    return render(None, "500.html", {"told": told}, status=503 if told else 500)
