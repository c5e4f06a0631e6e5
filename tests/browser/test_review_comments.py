"""Comments by keyboard in a real browser; what is typed outlives a session that ends meanwhile."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from benchapp.models import Comment, Trial, User
from runner.base.types import Source, Step
from tests.browsing import inaccessible, open_in
from tests.worlds.factories import make_trial, make_user, record_steps

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

PASSWORD = "correct horse battery"
TEXT = "The header is lost **here**. @grace, do you see it?"


@pytest.fixture
def trial(settings: Any) -> Trial:
    settings.SINGLE_USER = False
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    for name in ("ada", "grace"):
        make_user(username=name, password=PASSWORD, level=User.Level.REVIEWER)
    trial = make_trial(success=False)
    record_steps(trial.counting_attempt(), [Step(n, Source.AGENT, message=f"did {n}") for n in range(1, 6)])
    return trial


def log_in(page: Page, base: str, name: str) -> None:
    page.goto(f"{base}/login/")
    page.keyboard.type(name)  # the field has the focus
    page.keyboard.press("Tab")
    page.keyboard.type(PASSWORD)
    page.keyboard.press("Enter")
    page.wait_for_url(f"{base}/")


def open_thread(page: Page, base: str, trial: Trial) -> None:
    page.goto(f"{base}{trial.get_absolute_url()}")
    open_thread_here(page)


def open_thread_here(page: Page) -> None:
    page.wait_for_load_state("networkidle")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("m")
    expect(page.locator("#thread textarea").last).to_be_focused()


def test_two_people_talk_about_a_step_by_keyboard_alone(live_server: Any, browser: Browser, trial: Trial) -> None:
    base = live_server.url
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page, errors = open_in(context, base, "light")
    log_in(page, base, "ada")
    open_thread(page, base, trial)
    page.keyboard.type(TEXT)
    page.keyboard.press("Control+Enter")
    expect(page.locator("#thread .comment strong")).to_have_text("here")
    expect(page.locator("#thread textarea").last).to_have_value("")
    assert inaccessible(page) == []
    page.keyboard.press("Escape")
    expect(page.locator("#step-2 .says")).to_be_focused()
    expect(page.locator("#step-2 .says")).to_have_text("1 comment")
    context.close()

    context = browser.new_context(viewport={"width": 390, "height": 844})
    page, more = open_in(context, base, "dark")
    log_in(page, base, "grace")
    expect(page.locator(".mentioned")).to_contain_text("1")
    open_thread(page, base, trial)
    assert inaccessible(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.keyboard.press("Escape")
    page.reload()
    expect(page.locator(".mentioned")).to_have_count(0)
    context.close()
    assert errors + more == []


def test_a_text_sent_before_htmx_settles_leaves_no_copy_behind(
    live_server: Any, context: BrowserContext, trial: Trial
) -> None:
    base = live_server.url
    page, errors = open_in(context, base, "light")
    log_in(page, base, "ada")
    page.goto(f"{base}{trial.get_absolute_url()}")
    page.evaluate("htmx.config.defaultSettleDelay = 60000")
    open_thread_here(page)
    page.keyboard.type(TEXT)
    page.keyboard.press("Control+Enter")
    expect(page.locator("#thread .comment strong")).to_have_text("here")
    expect(page.locator("#thread textarea").last).to_have_value("")
    assert trial.get_absolute_url() in page.url  # the trial's page is still the one at hand
    assert errors == []


def test_what_is_typed_outlives_the_session(live_server: Any, context: BrowserContext, trial: Trial) -> None:
    base = live_server.url
    page, _ = open_in(context, base, "light")
    log_in(page, base, "ada")
    open_thread(page, base, trial)
    page.keyboard.type(TEXT)
    kept = context.cookies()
    context.clear_cookies(name="sessionid")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#thread .problem").last).to_contain_text("You are logged out. Your text is kept")
    expect(page.locator("#thread textarea").last).to_have_value(TEXT)
    assert not Comment.objects.exists()
    context.add_cookies(kept)  # logged in again, in another tab
    open_thread(page, base, trial)
    expect(page.locator("#thread textarea").last).to_have_value(TEXT)
    page.keyboard.press("Control+Enter")
    expect(page.locator("#thread .comment")).to_have_count(1)
    assert Comment.objects.get().text == TEXT
