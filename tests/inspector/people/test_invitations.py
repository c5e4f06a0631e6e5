"""Somebody is invited by a link, from a page, while the product runs: the link works once,
and nobody else learns it."""

from __future__ import annotations

import logging
import re
from datetime import timedelta
from html import unescape
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.test import Client
from django.utils import timezone

from benchapp.models import Activity, Invitation, User
from benchapp.people.accounts import InvitationRefused, accept, invite
from tests.worlds.factories import make_user

pytestmark = pytest.mark.django_db

PASSWORD = "correct horse battery"
GONE = "This code is not valid"


@pytest.fixture(autouse=True)
def _fast(settings: Any) -> None:
    settings.SINGLE_USER = True
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def admin() -> User:
    return make_user(username="ada", level=User.Level.ADMIN)


def make_link(client: Client, **fields: str) -> str:
    page = client.post("/people/invite/", {"name": "grace", "level": "reviewer", **fields})
    assert page["Cache-Control"] == "max-age=0, no-cache, no-store, must-revalidate, private"
    (link,) = re.findall(r'id="invitation-link"[^>]*>([^<]+)</pre>', page.text)
    return unescape(link)


def join(link: str, **fields: str) -> Any:
    client = Client()
    data = {"code": urlsplit(link).fragment, "username": "grace", "password": PASSWORD, **fields}
    return client.post("/join/", data, follow=True)


def test_a_single_user_installation_becomes_a_team_without_a_restart(client: Client) -> None:
    """The local user invites; who joins is logged in with the invited level; whoever is at the machine stays local."""
    link = make_link(client)
    assert link.startswith("http://testserver/join/?name=grace&as=reviewer#sgi_")
    door = Client().get(link.partition("#")[0].removeprefix("http://testserver")).text
    assert 'value="grace"' in door
    assert (
        "You join as reviewer: you read everything except what a blind review hides, review trials and comment." in door
    )
    page = join(link)
    assert "Welcome, grace. You are logged in as reviewer." in page.text
    assert page.context["user"].username == "grace"
    assert Client().login(username="grace", password=PASSWORD)
    assert client.get("/people/me.json").json()["account"] == "local"
    assert [act.verb for act in Activity.objects.all()] == ["account.added", "account.invited"]


def test_who_logged_in_at_this_machine_is_not_the_local_user() -> None:
    client = Client()
    client.force_login(make_user(username="grace", level=User.Level.VIEWER))
    assert client.get("/people/me.json").json()["account"] == "grace"
    assert client.get("/people/").status_code == 403
    client.post("/logout/")
    assert client.get("/people/me.json").json()["account"] == "local"


def test_the_local_user_finds_the_login_form(client: Client) -> None:
    assert "Log in to Skillglass" in client.get("/login/").text


@pytest.mark.parametrize("forwarded", [{"REMOTE_ADDR": "192.0.2.7"}, {"HTTP_X_FORWARDED_FOR": "192.0.2.7"}])
def test_other_machines_log_in_as_soon_as_somebody_can(forwarded: dict[str, str]) -> None:
    assert Client(**forwarded).get("/").status_code == 403
    make_user(username="grace")
    assert Client(**forwarded).get("/").headers["Location"] == "/login/?next=/"


def test_a_link_works_once(client: Client) -> None:
    link = make_link(client)
    assert join(link).status_code == 200
    again = join(link, username="mallory")
    assert again.status_code == 422
    assert GONE in again.text
    assert not User.objects.filter(username="mallory").exists()


def test_of_two_who_use_one_code_at_the_same_time_one_gets_in(admin: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second has read the invitation before the first used it up."""
    _, code = invite(by=admin, level="viewer")
    found = Invitation.objects.get()
    accept(code, "grace", PASSWORD)
    monkeypatch.setattr("benchapp.people.accounts.find_invitation", lambda code: found)
    with pytest.raises(InvitationRefused):
        accept(code, "mallory", PASSWORD)
    assert not User.objects.filter(username="mallory").exists()


def test_a_link_can_be_withdrawn_and_grows_old(client: Client) -> None:
    link = make_link(client)
    client.post(f"/people/invitations/{Invitation.objects.get().public_id}/withdraw/")
    assert GONE in join(link).text
    old = make_link(client)
    Invitation.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert GONE in join(old).text
    assert not Invitation.objects.open().exists()
    assert User.objects.filter(username="grace").count() == 0


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"username": "ADA"}, "There is an account of this name."),
        ({"username": "a<b"}, "Enter a valid username"),
        ({"username": ""}, "Choose a name."),
        ({"username": "local"}, "is the name of single-user mode"),
        ({"password": "short"}, "This password is too short"),
        ({"password": ""}, "Choose a password."),
        ({"code": "sgi_guess"}, GONE),
        ({"code": ""}, "Paste the code"),
    ],
)
def test_a_mistake_leaves_the_link_good(client: Client, admin: User, fields: dict[str, str], said: str) -> None:
    link = make_link(client)
    response = join(link, **fields)
    assert response.status_code == 422
    assert said in unescape(response.text)
    assert PASSWORD not in response.text
    assert join(link).status_code == 200


def test_the_same_kind_of_link_gives_a_new_password(client: Client) -> None:
    grace = make_user(username="grace", level=User.Level.REVIEWER)
    link = make_link(client, name="", account="grace")
    assert "/join/?account=grace#" in link
    assert "New password for grace" in Client().get("/join/?account=grace").text
    assert join(link, username="somebody else").status_code == 200
    assert Client().login(username="grace", password=PASSWORD)
    grace.refresh_from_db()
    assert grace.level == "reviewer"
    assert client.post("/people/invite/", {"account": "local"}).status_code == 404


def test_an_account_that_is_off_gets_no_password(client: Client) -> None:
    grace = make_user(username="grace")
    link = make_link(client, account="grace")
    grace.is_active = False
    grace.save()
    assert GONE in join(link).text
    assert client.post("/people/invite/", {"account": "grace"}).status_code == 404


def test_it_can_be_carried_as_a_file(client: Client) -> None:
    response = client.post("/people/invite/", {"name": "grace", "level": "viewer", "form": "file"})
    assert response["Content-Disposition"] == 'attachment; filename="skillglass-invitation.txt"'
    (code,) = re.findall(r"^ {4}(sgi_\S+)$", response.text, re.MULTILINE)
    assert join(f"#{code}").status_code == 200


def test_the_code_is_written_nowhere(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    """Not in the database, not in a log, not on a page after the first."""
    caplog.set_level(logging.DEBUG)
    link = make_link(client)
    code = urlsplit(link).fragment
    join(link)
    seen = [client.get(path).text for path in ("/people/", "/people.json", "/activity/", "/activity.json")]
    rows = [str(vars(row)) for row in (*Invitation.objects.all(), *Activity.objects.all())]
    assert not [text for text in (*seen, *rows, caplog.text) if code in text or PASSWORD in text]


def test_only_admins_invite(client: Client) -> None:
    client.force_login(make_user(username="grace", level=User.Level.OPERATOR))
    for path in ("/people/invite/", f"/people/invitations/{Invitation().public_id}/withdraw/"):
        assert client.post(path, {"level": "admin"}).status_code == 403
    assert not Invitation.objects.exists()


def test_no_other_level_is_made_up(client: Client) -> None:
    assert "no such level" in client.post("/people/invite/", {"level": "owner"}, follow=True).text
    assert not Invitation.objects.exists()


def test_the_door_checks_the_link_before_a_password_is_chosen(client: Client) -> None:
    link = make_link(client)
    code = {"code": urlsplit(link).fragment, "check": "1"}
    answer = Client().post("/join/", code)
    assert answer.status_code == 200
    assert "invited you. The link works once, until " in answer.text
    join(link)
    assert Client().post("/join/", code).status_code == 422
