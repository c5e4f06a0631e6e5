"""From the login page to a provider of OpenID Connect and back, under the content policy, in a real browser."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse
from playwright.sync_api import Page, expect

from benchapp.models import User
from benchapp.people.accounts import invite
from tests.browsing import inaccessible
from tests.oidc_provider import run_provider
from tests.worlds.factories import make_user

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_an_invited_person_comes_in_by_the_provider(page: Page, live_server: Any, settings: Any) -> None:
    """The link of an invitation, the provider's page, home; then out, and in again by the button of the login page."""
    settings.SINGLE_USER = False
    violations: list[str] = []
    page.on("console", lambda message: violations.append(message.text) if "Content Security" in message.text else None)
    with run_provider(f"{live_server.url}{reverse('sso-callback')}") as provider:
        provider.configure(settings)
        settings.OIDC_LEVEL = "none"
        provider.add_person("ada-1", preferred_username="ada")
        _, code = invite(by=make_user(username="root", level=User.Level.ADMIN), level=User.Level.OPERATOR)

        page.goto(f"{live_server.url}/join/#{code}")
        assert inaccessible(page) == []
        page.get_by_role("button", name="Join with Example ID").click()
        expect(page.get_by_text("Your invitation is valid.")).to_be_visible()
        assert inaccessible(page) == []
        page.get_by_role("link", name="Log in with Example ID").click()
        page.get_by_placeholder("sub").fill("ada-1")
        page.get_by_role("button", name="Authorize").click()
        expect(page.get_by_text("Welcome, ada. You are logged in as operator.")).to_be_visible()
        assert page.url == f"{live_server.url}/"

        page.goto(f"{live_server.url}/people/me/")
        expect(page.get_by_text("You log in with Example ID.")).to_be_visible()
        page.locator(".head").get_by_role("button", name="Log out").click()
        page.goto(f"{live_server.url}/imports/")
        page.get_by_role("link", name="Log in with Example ID").click()
        page.get_by_role("button", name="ada-1").click()
        page.wait_for_url(f"{live_server.url}/imports/")
    assert violations == []
    assert page.evaluate("window.violations") == []
