"""A draft in a real browser: what a step changed is fetched when it is opened, a file is edited,
and the new form follows a choice."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Route, expect

from benchapp.models import Draft
from inspector.web.access import local_user
from tests.browsing import inaccessible, open_in, settle
from tests.worlds.recorded_drafts import make_whole_draft

# A choice that is made before the new form listens is not followed.
LISTENS = "() => !document.querySelector('.htmx-swapping, .htmx-settling')"
pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_steps_open_in_place_and_a_file_is_edited(context: BrowserContext, live_server: Any) -> None:
    draft = make_whole_draft(local_user())
    page, errors = open_in(context, live_server.url, "dark")
    page.goto(f"{live_server.url}/drafts/{draft.public_id}/")
    for number in (5, 7):
        fold = page.locator(f"#fold-{number}")
        expect(fold.locator(".step-parts")).to_have_count(0)
        fold.locator("> summary").click()
        expect(fold.locator(".step-parts")).to_be_visible()
        fold.locator(f"#prompt-{number} > summary").click()
    expect(page.locator("#fold-7 .del .code")).to_contain_text("0.60")
    expect(page.locator("#fold-7")).to_contain_text("You are the architect")
    settle(page)
    assert inaccessible(page) == []
    page.get_by_role("link", name="late-fees-1", exact=True).first.click()
    page.locator("textarea").fill("# Fees of one branch\n\nOther words.\n")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#step-13")).to_contain_text("local edited")
    expect(page.locator("#step-13")).to_contain_text("tasks/late-fees-1/instruction.md")
    assert b"Other words." in Draft.objects.get().head.read()["tasks/late-fees-1/instruction.md"].content
    assert page.evaluate("window.violations") == []
    assert errors == []


def test_the_form_follows_the_loop_and_keeps_what_was_typed(context: BrowserContext, live_server: Any) -> None:
    page, errors = open_in(context, live_server.url, "light")
    page.goto(f"{live_server.url}/drafts/new/")
    page.get_by_label("Family", exact=True).fill("late-fees")
    expect(page.get_by_label("Corpus", exact=True)).to_be_visible()
    page.get_by_role("radio", name="Instances of a task").check()
    expect(page.get_by_label("Suite", exact=True)).to_be_visible()
    settle(page)
    page.wait_for_function(LISTENS)
    page.get_by_label("Suite", exact=True).select_option("starter")
    expect(page.locator("#id_begin option[value='E1-LS1-T1']")).to_have_count(1)
    settle(page)
    page.wait_for_function(LISTENS)
    page.get_by_label("Task", exact=True).select_option("E1-LS1-T1")
    settle(page)
    assert inaccessible(page) == []
    expect(page.get_by_label("Family", exact=True)).to_have_value("late-fees")
    expect(page.get_by_label("Task", exact=True)).to_have_value("E1-LS1-T1")
    page.get_by_role("button", name="Start the draft").last.click()
    expect(page.get_by_role("heading", name="Waiting for a worker.")).to_be_visible()
    assert Draft.objects.get().loop == "instances"
    assert errors == []


def test_what_is_typed_before_the_form_is_replaced_stays(context: BrowserContext, live_server: Any) -> None:
    """The answer does not contain it; the next request sends it."""
    page, errors = open_in(context, live_server.url, "light")
    page.goto(f"{live_server.url}/drafts/new/")
    page.wait_for_function(LISTENS)
    waiting: list[Route] = []
    page.route("**/drafts/new/", lambda route: waiting.append(route))
    with page.expect_request("**/drafts/new/"):
        page.get_by_role("radio", name="Instances of a task").check()
    family = page.get_by_label("Family", exact=True)
    family.press_sequentially("late")
    waiting[0].continue_()
    page.unroute("**/drafts/new/")
    expect(page.get_by_label("Suite", exact=True)).to_be_visible()
    expect(family).to_have_value("late")
    expect(family).to_be_focused()
    family.press_sequentially("-fees")
    page.wait_for_function(LISTENS)
    page.get_by_label("Suite", exact=True).select_option("starter")
    expect(page.locator("#id_begin option[value='E1-LS1-T1']")).to_have_count(1)
    expect(family).to_have_value("late-fees")
    assert errors == []
