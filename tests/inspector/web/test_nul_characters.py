"""A NUL character anywhere in a request is answered 400, and the answer names the part."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from benchapp.models import Codebook, User
from tests.worlds.factories import make_user

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    "address",
    [
        "/search/?q=a%00b",
        "/activity/?person=%00",
        "/compare/trials/?task=%00",
        "/imports/?%00=x",
        "/people/a%00b/change/",
    ],
)
def test_an_address_with_one_is_refused(client: Client, address: str) -> None:
    response = client.get(address)
    assert response.status_code == 400
    assert "NUL character" in response.text
    assert "\x00" not in response.text


def test_a_program_is_told_in_its_own_words(client: Client) -> None:
    response = client.get("/search.json?q=%00")
    assert (response.status_code, list(response.json())) == (400, ["error"])


@pytest.mark.parametrize(
    ("address", "fields"),
    [
        ("/login/", {"username": "a\x00da", "password": "x"}),
        ("/login/", {"username": "ada", "password": "\x00"}),
        ("/review/codebooks/new/", {"name": "Failures\x00"}),
        ("/people/invite/", {"name": "bob\x00", "level": "viewer"}),
        ("/comments/write/", {"text": "see\x00"}),
    ],
)
def test_a_form_with_one_is_refused(client: Client, settings: Any, address: str, fields: dict[str, str]) -> None:
    settings.SINGLE_USER = False
    client.force_login(make_user(level=User.Level.ADMIN))
    response = client.post(address, fields)
    assert response.status_code == 400
    assert "of the form" in response.text
    assert not Codebook.objects.exists()
    assert User.objects.count() == 1


def test_a_cookie_with_an_escaped_one_is_refused(client: Client, settings: Any) -> None:
    settings.SINGLE_USER = False
    response = client.get("/", headers={"Cookie": r'sessionid="\000bcdefghijklmnopqrstuvwxyz012345"'})
    assert response.status_code == 400
