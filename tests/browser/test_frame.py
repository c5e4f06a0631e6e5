"""What the frame and the grid do by hand: theme, keys, walking, asking again."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from benchapp.models import Experiment, Run, Trial
from tests.pages import address, make_world

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def base(live_server: object) -> str:
    make_world()
    return live_server.url  # type: ignore[attr-defined]


def test_the_theme_is_kept_by_the_server(base: str, page: Page) -> None:
    page.emulate_media(color_scheme="light")
    page.goto(base)
    page.get_by_role("button", name="Switch between light and dark").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.goto(base + "/imports/")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(13, 17, 23)"


def test_a_question_mark_lists_the_keys(base: str, page: Page) -> None:
    page.goto(base + address("run"))
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keys")
    expect(dialog).to_be_visible()
    expect(dialog).to_contain_text("walk the grid")
    expect(dialog.get_by_role("heading")).to_have_text(["Keys", "Move", "See", "Act", "Go to"])
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()


def test_keys_lead_to_other_pages_but_not_while_typing(base: str, page: Page) -> None:
    page.goto(base)
    page.keyboard.press("i")
    page.keyboard.press("g")
    page.keyboard.press("i")
    page.wait_for_url("**/imports/")
    page.get_by_label("or a path on the server").fill("")
    page.get_by_label("or a path on the server").press_sequentially("giT?")
    expect(page.get_by_label("or a path on the server")).to_have_value("giT?")
    assert page.url.endswith("/imports/")


def test_g_and_a_key_of_the_page_do_nothing_of_the_page(base: str, page: Page) -> None:
    page.goto(base + address("run"))
    before = page.url
    page.keyboard.press("g")
    page.keyboard.press("l")  # no page of its own; l alone opens the library
    page.keyboard.press("g")
    page.keyboard.press("g")
    assert page.url == before
    page.keyboard.press("l")
    page.wait_for_url("**/library/**")


def test_the_menu_of_a_person_opens_and_closes_by_keys(base: str, page: Page) -> None:
    page.goto(base)
    page.get_by_role("button", name="local").press("Enter")
    expect(page.get_by_role("link", name="Activity")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("link", name="Activity")).to_be_hidden()


def test_arrows_walk_the_grid_and_enter_opens_a_trial(base: str, page: Page) -> None:
    page.goto(base + address("run"))
    focused = "document.activeElement.getAttribute('aria-label')"
    page.keyboard.press("g")
    page.keyboard.press("t")
    assert page.evaluate(focused).startswith("Task E1-F1-T1, acquisition")
    for key, expected in (
        ("ArrowRight", "Task E1-F1-T2, acquisition"),
        ("ArrowDown", "Task E1-F2-T2, acquisition"),
        ("ArrowDown", "Task E2-F1-T2, acquisition"),  # over the row that names the environment
        ("ArrowLeft", "Task E2-F1-T1, acquisition"),
        ("ArrowLeft", "Task E2-F1-T1, acquisition"),  # nothing further left: it stays
    ):
        page.keyboard.press(key)
        assert page.evaluate(focused).startswith(expected), key
    page.keyboard.press("Enter")
    page.wait_for_url("**/trials/**")


def test_the_skip_link_leads_to_the_content(base: str, page: Page) -> None:
    page.goto(base)
    page.keyboard.press("Tab")
    expect(page.locator(":focus")).to_have_text("Skip to the content")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_a_running_run_follows_without_losing_the_focus(base: str, page: Page) -> None:
    page.goto(base + address("run"))
    trial = Trial.objects.get(status="running")
    square = page.locator(f"#trial-{trial.public_id}")
    expect(square).to_have_text("…")
    square.focus()
    Trial.objects.filter(pk=trial.pk).update(status="passed", success=True, is_done=True)
    expect(square).to_have_text("✓", timeout=10_000)
    assert page.evaluate("document.activeElement.id") == f"trial-{trial.public_id}"
    Run.objects.update(status="done")
    expect(page.locator("#live[hx-trigger]")).to_have_count(0, timeout=10_000)


def test_the_overview_stops_asking_at_the_end(base: str, page: Page) -> None:
    page.goto(base)
    expect(page.locator("#live[hx-trigger]")).to_have_count(1)
    Experiment.objects.update(status="done")
    expect(page.locator("#live[hx-trigger]")).to_have_count(0, timeout=10_000)
    assert page.evaluate("window.violations") == []
