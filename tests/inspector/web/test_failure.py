"""What went wrong on the server: a failure of the machine in one line, everything else as ours."""

from __future__ import annotations

import pytest
from django.db import OperationalError
from django.test import Client, RequestFactory

from inspector.web.health import broken


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


@pytest.mark.django_db
def test_a_form_without_its_token_is_refused_in_our_words(settings: pytest.FixtureRequest) -> None:
    settings.SINGLE_USER = False  # type: ignore[attr-defined]
    answer = Client(enforce_csrf_checks=True).post("/login/", {"username": "ann", "password": "x"})
    assert answer.status_code == 403
    assert "Nothing was changed." in answer.text
    assert "<style" not in answer.text


def test_the_page_needs_no_database() -> None:
    answer = broken(RequestFactory().get("/"))  # pytest refuses a query in a test that does not ask for the database
    assert answer.status_code == 500
    assert "<h1>This page failed</h1>" in answer.content.decode()
