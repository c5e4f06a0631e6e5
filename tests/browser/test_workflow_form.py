"""A workflow drawn with the keyboard alone: the drawing follows, nothing is lost, and it is handed in."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from benchapp.models import TaskWorkflow
from tests.browsing import inaccessible, open_in
from tests.worlds.factories import make_suite

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

LABELS = ("read", "extract", "align", "compute", "output")


def fill_in(page: Page, number: int, label: str) -> None:
    """The letters of a label choose it in the list, Tab leads to the next field."""
    page.locator(f"[name=label-s{number}]").focus()
    keys = page.keyboard
    keys.type(label)
    keys.press("Tab")
    keys.type(f"what {label} does here")
    keys.press("Tab")
    keys.type(f"It is a {label}.")
    keys.press("Tab")


def test_a_workflow_is_drawn_and_handed_in_without_a_mouse(context: BrowserContext, live_server: Any) -> None:
    task = make_suite(key="set", environments=1, families=1).tasks.first()
    page, errors = open_in(context, live_server.url, "light")
    page.goto(f"{live_server.url}/suites/set/workflows/{task.key}/")
    for number, label in enumerate(LABELS, start=1):
        fill_in(page, number, label)
    drawing = page.locator("#drawing svg")
    expect(drawing).to_have_attribute("aria-label", "Your draft: s1 read; s2 extract after s1; s3 align after s2; "
                                      "s4 compute after s3; s5 output after s4")  # fmt: skip
    page.locator("[name=needs-s4][value=s1]").focus()
    page.keyboard.press("Space")
    expect(page.locator("#drawing .edge")).to_have_count(5)
    expect(page.locator(".rule-list .open")).to_have_count(0)
    page.locator("[name=needs-s1][value=s5]").focus()
    page.keyboard.press("Space")
    expect(page.locator(".rule-list .open").first).to_contain_text("no circle")
    page.keyboard.press("Space")
    expect(page.locator(".rule-list .open")).to_have_count(0)
    assert inaccessible(page) == []
    page.get_by_role("button", name="Hand in").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("Handed in.")).to_be_visible()
    found = TaskWorkflow.objects.get()
    assert found.is_handed_in
    assert [step.label for step in found.workflow.steps] == list(LABELS)
    assert ("s1", "s4") in found.workflow.edges
    assert errors == []
