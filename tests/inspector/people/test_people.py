from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from benchapp.models import Activity, User
from tests.queries import assert_queries_flat
from tests.worlds.factories import make_user

pytestmark = pytest.mark.django_db

PASSWORD = "correct horse battery"


@pytest.fixture
def admin(client: Client, settings: Any) -> User:
    settings.SINGLE_USER = False
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    user = make_user(username="ada", level=User.Level.ADMIN, password=PASSWORD)
    client.force_login(user)
    return user


def test_an_admin_changes_level_and_state(client: Client, admin: User) -> None:
    grace = make_user(username="grace")
    client.post("/people/grace/change/", {"level": "reviewer", "reason": "joins the team"})
    client.post("/people/grace/change/", {"active": "0"})
    grace.refresh_from_db()
    assert (grace.level, grace.is_active) == ("reviewer", False)
    assert [act.verb for act in Activity.objects.all()] == ["account.off", "account.level"]
    client.post("/people/grace/change/", {"active": "1"})
    grace.refresh_from_db()
    assert grace.is_active


def test_the_page_says_why_the_last_admin_stays(client: Client, admin: User) -> None:
    response = client.post("/people/ada/change/", {"active": "0"}, follow=True)
    assert "ada is the last admin" in response.text
    assert "Nothing was changed" in client.post("/people/ada/change/", {"level": "owner"}, follow=True).text


def test_there_is_nobody_of_that_name(client: Client, admin: User) -> None:
    assert client.post("/people/nobody/change/", {"level": "viewer"}).status_code == 404


def test_everybody_sees_their_own_pseudonym_and_nobody_elses(client: Client, admin: User) -> None:
    grace = make_user(username="grace")
    listed = client.get("/people/").text + client.get("/people.json").text
    assert grace.pseudonym not in listed
    client.force_login(grace)
    assert grace.pseudonym in client.get("/people/me/").text
    assert client.get("/people/me.json").json()["level"] == "viewer"


def test_names_are_escaped(client: Client, admin: User) -> None:
    User.objects.create(username="<b>bold</b>")  # no form lets it in; another road might
    assert "<b>bold</b>" not in client.get("/people/").text


def test_its_queries_do_not_grow(client: Client, admin: User) -> None:
    assert_queries_flat(client, "/people/", lambda n: [make_user() for _ in range(n)])


def test_it_turns_pages(client: Client, admin: User) -> None:
    for _ in range(60):
        make_user()
    first = client.get("/people.json").json()
    assert len(first["people"]) == 50
    assert len(client.get(first["next"]).json()["people"]) == 11
