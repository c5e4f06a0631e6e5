"""No view changes anything for somebody whose level does not allow it: every address is asked, so a new one is too."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, path, reverse

from benchapp.models import User
from inspector.web.access import needs
from tests.worlds.factories import make_user

# What a viewer may send: each is about the sender's own account and nothing else.
OWN = {
    "login": "comes in",
    "logout": "goes out",
    "password": "their own password",
    "comments-read": "their own mentions",
    "join": "comes in for the first time",
    "token-make": "a token of their own",
    "token-revoke": "a token of their own",
}
UNSAFE = ("post", "put", "patch", "delete")
EXAMPLES = {"uuid": str(uuid.UUID(int=7)), "int": 7, "slug": "x", "str": "x", "path": "x"}
REFUSED = {403, 405}


def patterns(resolver: URLResolver) -> Iterator[URLPattern]:
    for entry in resolver.url_patterns:
        if isinstance(entry, URLResolver):
            yield from patterns(entry)
        else:
            yield entry


def example(pattern: URLPattern) -> str:
    kinds = {
        name: type(kind).__name__.removesuffix("Converter").lower() for name, kind in pattern.pattern.converters.items()
    }
    kinds = {name: "str" if kind == "string" else kind for name, kind in kinds.items()}
    return reverse(pattern.name, kwargs={name: EXAMPLES[kind] for name, kind in kinds.items()})


def every_name() -> list[str]:
    return [pattern.name for pattern in patterns(get_resolver())]


@pytest.fixture
def viewer(client: Client, db: None, settings: Any) -> Client:
    settings.SINGLE_USER = False
    client.force_login(make_user(level=User.Level.VIEWER))
    return client


def test_a_viewer_can_change_nothing_at_any_address(viewer: Client) -> None:
    allowed = []
    for pattern in patterns(get_resolver()):
        if pattern.name in OWN:
            continue
        for method in UNSAFE:
            response = getattr(viewer, method)(example(pattern))
            if response.status_code not in REFUSED:
                allowed.append((pattern.name, method, response.status_code))
    assert allowed == []


def test_what_viewers_may_send_exists() -> None:
    assert set(OWN) <= set(every_name())


def test_the_walk_would_see_a_view_that_names_no_level(viewer: Client, settings: Any) -> None:
    settings.ROOT_URLCONF = __name__
    assert viewer.post("/careless/").status_code not in REFUSED
    assert viewer.post("/careful/", headers={"Accept": "application/json"}).status_code == 403


def careless(request: HttpRequest) -> HttpResponse:
    return HttpResponse("changed")


handler403 = "inspector.web.access.deny"
urlpatterns = [path("careless/", careless), path("careful/", needs(User.Level.OPERATOR)(careless))]


@pytest.mark.django_db
def test_a_stranger_sees_nothing(client: Client, settings: Any) -> None:
    settings.SINGLE_USER = False
    every = list(patterns(get_resolver()))
    is_open = [getattr(pattern.callback, "open_to_all", False) for pattern in every]
    opened = {pattern.name for pattern, each in zip(every, is_open, strict=True) if each}
    assert opened == {"login", "logout", "sso", "sso-callback", "join", "healthz", "readyz"}
    seen = []
    for pattern, each in zip(every, is_open, strict=True):
        response = client.get(example(pattern), headers={"Accept": "*/*"})
        if not each and (response.status_code != 401 or response.json()["login"] != "/login/"):
            seen.append(pattern.name)
    assert seen == []


@pytest.mark.parametrize(
    ("level", "may"),
    [
        (User.Level.VIEWER, 1),
        (User.Level.REVIEWER, 2),
        (User.Level.OPERATOR, 3),
        (User.Level.ADMIN, 4),
    ],
)
def test_each_level_may_do_what_those_before_it_may(level: str, may: int) -> None:
    assert [User(level=level).may(wanted) for wanted in User.Level] == [place < may for place in range(4)]


def test_an_account_that_is_off_may_do_nothing() -> None:
    assert not User(level=User.Level.ADMIN, is_active=False).may(User.Level.VIEWER)
