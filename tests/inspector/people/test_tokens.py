"""A token lets a program act as its owner, within its scope and until it is revoked."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import path

from benchapp.models import Activity, ApiToken, User
from benchapp.people.accounts import make_token
from inspector.web.access import needs, takes_runs
from tests.worlds.factories import make_user

pytestmark = pytest.mark.django_db


def _change(request: HttpRequest) -> HttpResponse:
    return HttpResponse("changed")


urlpatterns = [
    path("other/", needs(User.Level.VIEWER)(_change)),
    path("runs/", takes_runs(needs(User.Level.OPERATOR)(_change))),
]
handler403 = "inspector.web.access.deny"


@pytest.fixture(autouse=True)
def _with_accounts(settings: Any) -> None:
    settings.SINGLE_USER = False


@pytest.fixture
def grace() -> User:
    return make_user(username="grace", level=User.Level.OPERATOR)


def bearer(token: str, **kwargs: Any) -> Client:
    return Client(headers={"Authorization": f"Bearer {token}", "Accept": "application/json"}, **kwargs)


def test_it_is_shown_once_and_reads_what_its_owner_may_read(client: Client, grace: User) -> None:
    client.force_login(grace)
    page = client.post("/people/me/tokens/", {"name": "notebook", "scope": "read"})
    (token,) = re.findall(r'id="token-code"[^>]*>([^<]+)</pre>', page.text)
    assert bearer(token).get("/people/me.json").json()["account"] == "grace"
    assert bearer(token).get("/people.json").status_code == 403  # for admins
    assert token not in client.get("/people/me/").text
    (listed,) = client.get("/people/me.json").json()["tokens"]
    assert (listed["name"], listed["scope"], token.startswith(listed["hint"])) == ("notebook", "read", True)
    assert listed["last_used_at"]


def test_it_is_kept_as_a_digest_and_never_logged(client: Client, grace: User, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    _, token = make_token(grace, "notebook", "read")
    bearer(token).get("/index.json")
    bearer(token + "x").get("/index.json")
    rows = [str(vars(row)) for row in (*ApiToken.objects.all(), *Activity.objects.all())]
    assert not [text for text in (*rows, caplog.text) if token in text]


@pytest.mark.parametrize(
    ("scope", "other", "runs"), [("read", "This token only reads.", 403), ("log", "hands in runs and changes", 200)]
)
def test_its_scope_bounds_what_it_changes(grace: User, settings: Any, scope: str, other: str, runs: int) -> None:
    """Without a CSRF token, which no program has."""
    settings.ROOT_URLCONF = __name__
    _, token = make_token(grace, "loop", scope)
    program = bearer(token, enforce_csrf_checks=True)
    refused = program.post("/other/")
    assert (refused.status_code, other in refused.json()["error"]) == (403, True)
    assert program.post("/runs/").status_code == runs


def test_it_gives_no_level_that_its_owner_lacks(settings: Any) -> None:
    settings.ROOT_URLCONF = __name__
    _, token = make_token(make_user(level=User.Level.VIEWER), "loop", "log")
    assert bearer(token).post("/runs/").status_code == 403


def test_a_session_still_needs_its_csrf_token(grace: User, settings: Any) -> None:
    settings.ROOT_URLCONF = __name__
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(grace)
    assert browser.post("/runs/").status_code == 403


def test_one_that_is_revoked_or_whose_owner_is_off_opens_nothing(client: Client, grace: User) -> None:
    made, token = make_token(grace, "notebook", "read")
    client.force_login(grace)
    client.post(f"/people/tokens/{made.public_id}/revoke/")
    refused = bearer(token).get("/index.json")
    assert (refused.status_code, refused.json()["error"][:26]) == (401, "This token does not work h")
    _, other = make_token(grace, "second", "read")
    User.objects.update(is_active=False)
    assert bearer(other).get("/index.json").status_code == 401


def test_an_admin_revokes_anybodys_and_others_only_their_own(client: Client, grace: User) -> None:
    made, token = make_token(grace, "notebook", "read")
    client.force_login(make_user(username="mallory", level=User.Level.OPERATOR))
    assert client.post(f"/people/tokens/{made.public_id}/revoke/").status_code == 404
    client.force_login(make_user(username="ada", level=User.Level.ADMIN))
    assert "notebook" in client.get("/people/").text
    client.post(f"/people/tokens/{made.public_id}/revoke/")
    assert bearer(token).get("/index.json").status_code == 401


def test_it_works_from_another_machine_in_single_user_mode(settings: Any, grace: User) -> None:
    settings.SINGLE_USER = True
    _, token = make_token(grace, "notebook", "read")
    assert bearer(token, REMOTE_ADDR="192.0.2.7").get("/people/me.json").json()["account"] == "grace"


@pytest.mark.parametrize("fields", [{"name": "", "scope": "read"}, {"name": "x", "scope": "admin"}])
def test_half_a_token_is_refused(client: Client, grace: User, fields: dict[str, str]) -> None:
    client.force_login(grace)
    assert client.post("/people/me/tokens/", fields).status_code == 422
    assert not ApiToken.objects.exists()


def test_only_operators_make_tokens_that_hand_in_runs(client: Client) -> None:
    client.force_login(make_user(level=User.Level.REVIEWER))
    assert "also hands in runs" not in client.get("/people/me/").text
    assert client.post("/people/me/tokens/", {"name": "loop", "scope": "log"}).status_code == 422
    assert not ApiToken.objects.exists()


def test_the_addresses_that_stay_in_the_browser_lead_back_when_they_are_read(client: Client) -> None:
    client.force_login(make_user(level=User.Level.ADMIN))
    assert client.get("/people/me/tokens/").headers["Location"] == "/people/me/"
    assert client.get("/people/invite/").headers["Location"] == "/people/"
