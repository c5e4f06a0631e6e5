from __future__ import annotations

from typing import Any

import pytest
from django.db import OperationalError, connection, connections
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client
from django.test.utils import CaptureQueriesContext

from benchapp.deploy import embedded_broker

STRANGER = {"Accept": "*/*"}


@pytest.fixture(autouse=True)
def _with_accounts(settings: Any) -> None:
    settings.SINGLE_USER = False


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> dict[str, bool]:
    """A switch for the broker: what is asked here is how its state is told, not how a ping is sent."""
    state = {"answers": True}
    monkeypatch.setattr(embedded_broker, "answers", lambda url: state["answers"])
    return state


def test_it_says_that_it_lives_without_a_database(client: Client) -> None:
    """No `django_db` mark: a query would fail. The cookie of a session must not lead to one either."""
    client.cookies["sessionid"] = "somebody"
    response = client.get("/healthz", headers=STRANGER)
    assert (response.status_code, response.json()) == (200, {"status": "ok"})
    assert "no-store" in response["Cache-Control"]


@pytest.mark.django_db
def test_it_is_ready_when_everything_is_there(client: Client, broker: dict[str, bool]) -> None:
    client.get("/readyz")
    with CaptureQueriesContext(connection) as captured:
        response = client.get("/readyz", headers=STRANGER)
    assert (response.status_code, response.json()) == (
        200,
        {"status": "ready", "checks": {"database": "ok", "migrations": "ok", "broker": "ok"}},
    )
    assert len(captured) <= 2


@pytest.mark.django_db
def test_it_names_what_is_missing(client: Client, broker: dict[str, bool]) -> None:
    broker["answers"] = False
    MigrationRecorder(connection).record_unapplied("benchapp", "0001_squashed_0029_joined_suites")
    response = client.get("/readyz")
    assert response.status_code == 503
    assert response.json()["checks"] == {
        "database": "ok",
        "migrations": "1 not applied: run manage.py migrate",
        "broker": "does not answer",
    }


@pytest.mark.django_db
def test_it_tells_nothing_of_a_database_that_is_away(
    client: Client, broker: dict[str, bool], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away(self: MigrationRecorder) -> Any:
        raise OperationalError('connection to "db.internal" as "owner" failed: password 12345')

    monkeypatch.setattr(MigrationRecorder, "applied_migrations", away)
    monkeypatch.setattr(connections["default"], "close", lambda: None)  # the test's transaction lives in it
    response = client.get("/readyz")
    assert response.status_code == 503
    assert response.json()["checks"]["database"] == "does not answer"
    assert "internal" not in response.text
    assert "db.internal" in caplog.text


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_nothing_can_be_sent_there(client: Client, path: str) -> None:
    assert client.post(path).status_code == 405
