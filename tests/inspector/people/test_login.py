from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import Client

from benchapp.models import User
from benchapp.people.accounts import check_single_user
from inspector.web.access import AccessMiddleware
from tests.worlds.factories import make_trial, make_user
from tests.worlds.review_factories import make_item, make_queue

PASSWORD = "correct horse battery"

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _with_accounts(settings: Any) -> None:
    settings.SINGLE_USER = False
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # the slow one is Django's to test


def log_in(client: Client, password: str = PASSWORD, **fields: str) -> Any:
    return client.post("/login/", {"username": "ada", "password": password, **fields})


def test_it_asks_who_comes_and_leads_back(client: Client) -> None:
    response = client.get("/imports/?page=2")
    assert (response.status_code, response.url) == (302, "/login/?next=/imports/%3Fpage%3D2")
    make_user(username="ada", password=PASSWORD)
    entered = log_in(client, next="/imports/?page=2")
    assert (entered.status_code, entered.url) == (302, "/imports/?page=2")
    assert ">ada <span" in client.get("/imports/").text


def test_it_leads_to_review_where_an_item_waits_for_that_person(client: Client) -> None:
    ada = make_user(username="ada", password=PASSWORD, level=User.Level.REVIEWER)
    queue = make_queue([], reviewers=[ada])
    assert log_in(client, next="/").url == "/"
    make_item(queue, trial=make_trial(success=False))
    assert log_in(Client(), next="/").url == "/review/"
    assert log_in(Client(), next="/jobs/").url == "/jobs/"


@pytest.mark.parametrize("target", ["https://elsewhere.example/", "//elsewhere.example/", "javascript:alert(1)"])
def test_it_never_leads_elsewhere(client: Client, target: str) -> None:
    make_user(username="ada", password=PASSWORD)
    assert log_in(client, next=target).url == "/"


def test_it_says_the_same_for_a_wrong_password_and_no_account(client: Client) -> None:
    make_user(username="ada", password=PASSWORD)
    wrong = log_in(client, "wrong")
    stranger = client.post("/login/", {"username": "bob", "password": "wrong"})
    said = "Wrong name or password"
    assert said in wrong.text
    assert said in stranger.text
    assert 'value="ada"' in wrong.text
    assert "wrong" not in wrong.text


def test_it_keeps_out_an_account_that_is_off(client: Client) -> None:
    make_user(username="ada", password=PASSWORD, is_active=False)
    assert "switched off" in log_in(client).text


def test_an_account_that_is_switched_off_is_out_at_once(client: Client) -> None:
    ada = make_user()
    client.force_login(ada)
    assert client.get("/people/me/").status_code == 200
    User.objects.filter(pk=ada.pk).update(is_active=False)
    assert client.get("/people/me/").status_code == 302


def test_one_goes_out_by_post_alone(client: Client) -> None:
    client.force_login(make_user())
    assert client.get("/logout/").status_code == 405
    assert client.post("/logout/").url == "/"
    assert client.get("/").status_code == 302


def test_one_changes_the_own_password(client: Client) -> None:
    make_user(username="ada", password=PASSWORD)
    log_in(client)
    new = "a staple for the horse"
    fields = {"old_password": PASSWORD, "new_password1": new, "new_password2": new}
    weak = client.post("/password/", {**fields, "new_password1": "1234567890", "new_password2": "1234567890"})
    assert "entirely numeric" in weak.text
    assert client.post("/password/", fields).url == "/people/me/"
    assert client.get("/people/me/").status_code == 200  # this session stays
    assert "Wrong name or password" in log_in(Client()).text
    assert log_in(Client(), new).status_code == 302


def test_a_script_whose_session_ended_gets_401_and_the_way_in(client: Client) -> None:
    response = client.post("/comparisons/save/", headers={"Accept": "application/json"})
    assert (response.status_code, response.json()) == (401, {"error": "Log in first.", "login": "/login/"})


def test_a_form_whose_session_ended_says_that_nothing_was_taken(client: Client) -> None:
    response = client.post("/comparisons/save/", {"name": "x"}, headers={"Accept": "text/html,*/*"})
    assert response.status_code == 401
    assert "Nothing was saved" in response.text


def test_whoever_lacks_the_level_is_told_which_one_it_takes(client: Client) -> None:
    client.force_login(make_user(level=User.Level.REVIEWER))
    page = client.get("/people/")
    assert page.status_code == 403
    assert "Only admins can do this. Your level is reviewer; an admin can change it." in page.text
    twin = client.get("/people.json")
    assert (twin.status_code, twin.json()) == (
        403,
        {"error": "Only admins can do this. Your level is reviewer; an admin can change it."},
    )


# --- single-user mode -------------------------------------------------------------------------------------------


def test_single_user_mode_lets_this_machine_in_as_the_local_admin(client: Client, settings: Any) -> None:
    settings.SINGLE_USER = True
    assert client.get("/people/me.json").json()["account"] == "local"


@pytest.mark.parametrize(
    "sent",
    [
        {"REMOTE_ADDR": "192.0.2.7"},
        {"REMOTE_ADDR": ""},
        {"HTTP_X_FORWARDED_FOR": "127.0.0.1"},
        {"HTTP_FORWARDED": "for=127.0.0.1"},
    ],
)
def test_single_user_mode_lets_nobody_else_in(client: Client, settings: Any, sent: dict[str, str]) -> None:
    settings.SINGLE_USER = True
    assert client.get("/", **sent).status_code == 403


@pytest.mark.parametrize("host", ["skillglass.example.org", "*", ".example.org", "192.0.2.7", "0.0.0.0"])
def test_single_user_mode_refuses_a_name_that_others_reach(settings: Any, host: str) -> None:
    settings.SINGLE_USER = True
    settings.ALLOWED_HOSTS = ["localhost", host]
    (error,) = check_single_user()
    assert host in error.msg
    with pytest.raises(ImproperlyConfigured, match="loopback names only"):
        AccessMiddleware(lambda request: None)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.0.3.4", "[::1]", "glass.localhost"])
def test_single_user_mode_takes_names_of_this_machine(settings: Any, host: str) -> None:
    settings.SINGLE_USER = True
    settings.ALLOWED_HOSTS = [host]
    assert check_single_user() == []
    AccessMiddleware(lambda request: None)


def test_accounts_may_stand_under_any_name(settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["skillglass.example.org"]
    assert check_single_user() == []
