"""What went wrong on the server: a failure of the machine in one line, everything else as ours."""

from __future__ import annotations

import pytest
from django.db import OperationalError
from django.test import Client


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("error", "status", "told"),
    [
        (OperationalError("database is locked"), 503, "The database is locked: another process writes to it."),
        (OSError(28, "No space left on device", "/srv/secret"), 503, "No space left on device."),
        (ValueError("/srv/secret"), 500, "The fault is ours"),
    ],
)
def test_a_page_says_in_one_line_what_failed(
    monkeypatch: pytest.MonkeyPatch, error: Exception, status: int, told: str
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr("inspector.pages.imports.imports_view._select_batches", fail)
    answer = Client(raise_request_exception=False).get("/imports/")
    assert answer.status_code == status
    assert told in answer.text
    assert "/srv/secret" not in answer.text
