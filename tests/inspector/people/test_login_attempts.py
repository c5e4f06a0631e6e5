"""Guessing at passwords: how often, by whom, and what is written down of it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from redis import Redis

from benchapp.people import login_attempts
from benchapp.people.login_attempts import PER_ACCOUNT, client_address
from tests.providers.live_streams import running_broker
from tests.worlds.factories import make_user

PASSWORD = "correct horse battery"

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch, running_broker(tmp_path_factory.mktemp("valkey"), patch) as url:
        yield url


@pytest.fixture(autouse=True)
def _with_accounts(settings: Any, broker: str) -> None:
    settings.SINGLE_USER = False
    settings.REDIS_URL = broker
    Redis.from_url(broker).flushall()
    make_user(username="ada", password=PASSWORD)


def try_as(name: str, password: str, address: str = "192.0.2.7", **more: str) -> Any:
    """From another process, as far as the server can tell: a client that knows nothing of the tries before."""
    login_attempts._client.cache_clear()
    return Client(REMOTE_ADDR=address, **more).post("/login/", {"username": name, "password": password})


def guess(times: int, name: str = "ada", **more: str) -> list[int]:
    return [try_as(name, f"guess {number}", **more).status_code for number in range(times)]


def test_the_eleventh_guess_is_not_looked_at_even_if_it_is_right() -> None:
    assert set(guess(PER_ACCOUNT)) == {200}
    refused = try_as("ada", PASSWORD)
    assert refused.status_code == 429
    assert 0 < int(refused["Retry-After"]) <= 900
    assert "Too many tries. Wait 15 minutes" in refused.text
    assert "sessionid" not in refused.cookies


def test_guessing_the_code_of_an_invitation_is_as_slow() -> None:
    """From one address, and half a form in between does not begin the count again."""
    login_attempts._client.cache_clear()
    client = Client(REMOTE_ADDR="192.0.2.7")
    answers = [
        client.post("/join/", {"code": f"sgi_{number}", "username": "eve", "password": PASSWORD}).status_code
        for number in range(PER_ACCOUNT - 1)
    ]
    answers += [client.post("/join/", {"code": "sgi_1", "password": ""}).status_code for _ in range(2)]
    assert answers == [422] * PER_ACCOUNT + [429]


def test_writing_the_name_otherwise_does_not_help() -> None:
    guess(PER_ACCOUNT)
    names = ("ADA", "ａｄａ", " ada", "ada\u3000", " " * 200 + "ada")
    assert [try_as(name, "guess").status_code for name in names] == [429] * len(names)


def test_guesses_from_elsewhere_keep_nobody_out() -> None:
    guess(PER_ACCOUNT + 1)
    assert try_as("ada", PASSWORD, address="192.0.2.8").status_code == 302


def test_guesses_at_one_account_leave_the_next_one_open() -> None:
    make_user(username="bob", password=PASSWORD)
    guess(PER_ACCOUNT + 1)
    assert try_as("bob", PASSWORD).status_code == 302


def test_one_address_cannot_try_a_password_on_many_accounts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_attempts, "PER_ADDRESS", 20)
    assert [try_as(f"name{number}", "summer2026").status_code for number in range(21)] == [200] * 20 + [429]


def test_addresses_of_one_ipv6_network_are_one() -> None:
    seen = [try_as("ada", "guess", address=f"2001:db8::{number:x}").status_code for number in range(PER_ACCOUNT + 1)]
    assert seen[-1] == 429
    assert try_as("ada", PASSWORD, address="2001:db8:0:1::1").status_code == 302


def test_a_right_password_begins_the_count_anew() -> None:
    guess(PER_ACCOUNT - 1)
    assert try_as("ada", PASSWORD).status_code == 302
    assert set(guess(PER_ACCOUNT)) == {200}


def test_the_old_password_cannot_be_guessed_from_an_open_session(client: Client) -> None:
    client.post("/login/", {"username": "ada", "password": PASSWORD})
    new = {"new_password1": "wholly another one", "new_password2": "wholly another one"}
    seen = [client.post("/password/", {"old_password": f"guess {n}", **new}).status_code for n in range(PER_ACCOUNT)]
    assert set(seen) == {200}
    assert client.post("/password/", {"old_password": PASSWORD, **new}).status_code == 429


def test_a_new_password_that_is_too_weak_is_no_guess(client: Client) -> None:
    client.post("/login/", {"username": "ada", "password": PASSWORD})
    weak = {"old_password": PASSWORD, "new_password1": "short", "new_password2": "short"}
    assert {client.post("/password/", weak).status_code for _ in range(PER_ACCOUNT + 1)} == {200}


def test_a_flood_of_names_leaves_a_bounded_number_of_counters(monkeypatch: pytest.MonkeyPatch, broker: str) -> None:
    monkeypatch.setattr(login_attempts, "COUNTERS", 8)
    for number in range(40):
        try_as(f"name{number}", "x", address=f"198.51.100.{number}")
    store = Redis.from_url(broker)
    assert len(store.keys()) <= 16
    assert min(map(store.ttl, store.keys())) > 0


def test_failures_are_logged_with_the_accounts_number_and_without_what_was_typed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        try_as("ada", "my-wrong-secret")
        try_as("my-password-typed-as-name", "x")
        guess(PER_ACCOUNT)
    said = caplog.text
    assert "login failed: account number " in said
    assert "login failed: account unknown, from 192.0.2.7" in said
    assert "login not looked at after too many tries" in said
    assert not any(secret in said for secret in ("my-wrong-secret", "my-password-typed", "guess 1"))


def test_a_broker_that_is_away_keeps_nobody_out(settings: Any, caplog: pytest.LogCaptureFixture) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    assert try_as("ada", PASSWORD).status_code == 302
    assert "tries to log in are not counted" in caplog.text


def test_clients_behind_a_trusted_proxy_are_told_apart(settings: Any) -> None:
    settings.TRUSTED_PROXIES = ["10.0.0.0/8"]
    guess(PER_ACCOUNT + 1, address="10.0.0.1", HTTP_X_FORWARDED_FOR="192.0.2.1")
    assert try_as("ada", PASSWORD, address="10.0.0.1", HTTP_X_FORWARDED_FOR="192.0.2.2").status_code == 302


@pytest.mark.parametrize(
    ("remote", "forwarded", "client"),
    [
        ("10.0.0.1", "192.0.2.1", "192.0.2.1"),
        ("10.0.0.1", "192.0.2.99, 192.0.2.1", "192.0.2.1"),  # the first is what the client claimed
        ("10.0.0.1", "", "10.0.0.1"),
        ("10.0.0.1", "no address", "10.0.0.1"),
        ("192.0.2.5", "192.0.2.1", "192.0.2.5"),  # not a proxy of ours
        ("", "192.0.2.1", "192.0.2.1"),  # through a socket file
    ],
)
def test_only_a_trusted_proxy_is_believed(settings: Any, remote: str, forwarded: str, client: str) -> None:
    settings.TRUSTED_PROXIES = ["10.0.0.1"]
    assert client_address(remote, forwarded) == client
