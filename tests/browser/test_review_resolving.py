"""An adjudicator with the keyboard alone keeps reports, and opens and resolves one disagreement after the other."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse
from playwright.sync_api import BrowserContext, Page, expect

from benchapp.models import AgreementReport, Queue, Resolution
from tests.browsing import LOOKS, inaccessible, open_in
from tests.worlds.factories import make_trial, make_user
from tests.worlds.review_factories import make_queue, make_review

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def world(live_server: Any) -> tuple[str, Queue]:
    """Two people differ about three items of four."""
    people = [make_user(username=name, level="reviewer") for name in ("ann", "bob")]
    queue = make_queue([make_trial(success=False) for _ in range(4)], reviewers=people)
    said = [("misapplied", "silent bypass"), ("over-specific", "over-specific"), ("misapplied", "over-specific")]
    for item, answers in zip(queue.items.all(), [*said, ("silent bypass", "misapplied")], strict=True):
        for person, code in zip(people, answers, strict=True):
            make_review(item, person, [code], mark={"quote": "done", "attribution": "agent"})
    return live_server.url, queue


def ticked(page: Page) -> list[str]:
    read = "boxes => boxes.map(box => box.parentElement.querySelector('.choice-name').textContent)"
    return list(page.eval_on_selector_all("input[name=codes]:checked", read))


def arrived(page: Page, title: str) -> None:
    """The page is there, and its script has run."""
    expect(page.get_by_role("heading", name=title)).to_be_visible()
    page.wait_for_load_state()


def test_three_disagreements_are_resolved_without_a_mouse(context: BrowserContext, world: tuple[str, Queue]) -> None:
    base, queue = world
    page, errors = open_in(context, base, "light")
    page.goto(base + reverse("agreement", args=[queue.public_id]))
    keys = page.keyboard
    page.get_by_role("link", name="See the disagreements").click()
    arrived(page, "Keep the agreement, then discuss")
    keys.press("Enter")
    expect(page.get_by_text("item 1", exact=True)).to_be_visible()
    page.wait_for_load_state()
    assert AgreementReport.objects.get().is_before_discussion
    keys.press("Enter")
    arrived(page, "Settle item 1")
    for press in ("=", "4", "t", "2"):  # start from the second review; the definition is unclear
        keys.press(press)
    keys.press("Control+Enter")
    arrived(page, "Settle item 3")
    for press in ("=", "1", "1", "a", "2", "t", "1", "w"):  # all codes but the first; the skill; overlooked; memo
        keys.press(press)
    keys.type("w 1 a")
    keys.press("Control+Enter")
    arrived(page, "Settle item 4")
    keys.press("0")
    assert (ticked(page), page.is_checked("[name=nothing_wrong]")) == ([], True)
    for press in ("#", "b", "y", "p", "Enter", "t", "1"):
        keys.press(press)
    assert not page.is_checked("[name=nothing_wrong]")
    keys.press("Control+Enter")
    expect(page.get_by_text("No disagreement is open.")).to_be_visible()
    found = [
        ([code.name for code in made.codes.all()], made.category, made.attribution, made.memo)
        for made in Resolution.objects.order_by("item")
    ]
    assert found == [
        (["silent bypass"], "definition", "agent", ""),
        (["misapplied"], "slip", "skill", "w 1 a"),
        (["silent bypass"], "slip", "agent", ""),
    ]
    assert errors == []


def test_what_was_chosen_survives_paging_through_the_evidence(
    context: BrowserContext, world: tuple[str, Queue]
) -> None:
    base, queue = world
    AgreementReport.objects.create(
        queue=queue, version=queue.version, occasion="discussion", is_before_discussion=True,
        items_total=4, reviewers_total=2, values={},
    )  # fmt: skip
    page, _ = open_in(context, base, "dark")
    address = base + reverse("resolve", args=[queue.items.first().public_id])
    page.goto(address)
    for press in ("=", "3", "t", "4", "w"):
        page.keyboard.press(press)
    page.keyboard.type("half a sentence")
    page.goto(f"{address}?step=1#step-1")
    assert ticked(page) == ["misapplied"]
    assert page.input_value("#memo") == "half a sentence"
    assert page.locator("input[name=category]:checked").get_attribute("value") == "evidence"
    page.goto(base + reverse("resolve", args=[queue.items.last().public_id]))
    assert ticked(page) == []


@pytest.mark.parametrize(("theme", "width"), LOOKS)
def test_its_pages_are_accessible_and_fit(
    context: BrowserContext, world: tuple[str, Queue], theme: str, width: int
) -> None:
    base, queue = world
    page, errors = open_in(context, base, theme)
    page.set_viewport_size({"width": width, "height": 900})
    addresses = [reverse(name, args=[queue.public_id]) for name in ("agreement", "disagreements")]
    for address in addresses:
        page.goto(base + address)
        assert inaccessible(page) == []
    page.keyboard.press("Enter")
    page.wait_for_selector("table.disagreements")
    for address in (*addresses, reverse("resolve", args=[queue.items.first().public_id])):
        page.goto(base + address)
        assert inaccessible(page) == []
        assert not page.evaluate("document.documentElement.scrollWidth > innerWidth")
        assert page.evaluate("window.violations") == []
    assert errors == []
