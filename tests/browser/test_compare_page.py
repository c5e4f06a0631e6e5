"""The compare page walked as a reader does: choose, look, link, save, and open the link elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from benchapp.models import Experiment
from benchapp.stats.comparing.effects import Effect
from tests.worlds.copies import built_once
from tests.worlds.factories import make_experiment, make_learning_run, make_suite

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
T, F = True, False
EVERYTHING = "/compare/?since=2020-01-01"


@pytest.fixture(autouse=True)
def _settled(page: Page) -> Iterator[None]:
    """Charts that are still being fetched would hold the tables that are emptied after a test."""
    yield
    page.wait_for_load_state("networkidle")
    page.goto("about:blank")


@built_once
def make_three_conditions() -> Experiment:
    experiment = make_experiment(name="six episodes", suite=make_suite(environments=6, families=2))
    for condition, outcomes in (
        ("no-skill", (T, F, F, F, F, F, F, F, F)),
        ("selfgen-always", (T, T, F, T, T, F, T, T, T)),
    ):
        make_learning_run(experiment, condition=condition, outcomes=outcomes, scripted=True)
    make_learning_run(experiment, condition="curated-always", outcomes=(T, F, F, F, T, F, T, F, T), scripted=True)
    return experiment


@pytest.fixture
def base(live_server: object) -> str:
    make_three_conditions()
    return live_server.url  # type: ignore[attr-defined]


def table(page: Page) -> str:
    return page.locator("table.lanes").inner_text()


def test_a_choice_applies_itself_and_stands_in_the_address(base: str, page: Page) -> None:
    page.goto(f"{base}{EVERYTHING}")
    assert "Human-written, always revised" in table(page)
    page.locator("[data-facet=condition] summary").click()
    page.locator("input[name=condition][value=no-skill]").check()
    page.locator("input[name=condition][value=selfgen-always]").check()
    page.locator("[data-facet=condition]").get_by_role("button", name="Show these").click()
    page.wait_for_url(
        re.compile("condition=no-skill.*condition=selfgen-always|condition=selfgen-always.*condition=no-skill")
    )
    assert "Human-written, always revised" not in table(page)
    page.locator("select[name=baseline]").select_option("selfgen-always")
    page.wait_for_url(re.compile("baseline=selfgen-always"))
    expect(page.locator("#forest")).to_contain_text("against self-written, always revised")
    page.go_back()
    expect(page.locator("#forest")).to_contain_text("against no skill")


def test_a_name_keeps_the_hyphen_of_its_letters(base: str, page: Page) -> None:
    """Inter's tabular figures bring a hyphen as wide as a figure."""
    page.goto(f"{base}{EVERYTHING}")
    figures = "(each) => getComputedStyle(each).fontVariantNumeric"
    assert page.locator(".lanes th .condition").first.evaluate(figures) == "normal"
    assert page.locator(".lanes td.num").first.evaluate(figures) == "tabular-nums"


def test_the_verdict_and_its_sentence_come_from_the_test(base: str, page: Page) -> None:
    page.goto(f"{base}{EVERYTHING}")
    # six episodes that all differ alike: the error is that of one trial that came out otherwise
    expect(page.locator("#answer")).to_contain_text("Yes, both conditions clearly helped, in this run")
    page.locator("#sentences summary").click()
    first = page.locator("#sentences li").first
    expect(first).to_contain_text(
        "Self-written, always revised solved 24 of 36 tasks, No skill 0 of 36 of the same: +66.7 points"
    )
    expect(first).to_contain_text("95 % interval for 2 comparisons together")


def test_a_cell_leads_to_its_trials(base: str, page: Page) -> None:
    page.goto(f"{base}/compare/?metric=ESR&condition=selfgen-always")
    page.locator(".lanes td.other a").first.click()
    page.wait_for_url(re.compile("/compare/trials/"))
    expect(page.locator("main")).to_contain_text("36")


def test_a_permalink_pins_the_table_and_announces_what_came(base: str, page: Page, browser: Browser) -> None:
    page.goto(f"{base}{EVERYTHING}&metric=LSR")
    before = table(page)
    address = page.locator("a[data-copies]").get_attribute("href")
    assert address is not None
    page.wait_for_load_state("networkidle")
    experiment = make_experiment(name="later", suite=make_suite(environments=1, families=1))
    make_learning_run(experiment, condition="later", scripted=True)
    second = browser.new_context()
    other = second.new_page()
    other.goto(address)
    assert table(other) == before
    expect(other.locator(".pin")).to_contain_text("1 run was added since and is left out")
    other.get_by_role("link", name="Show the current record").click()
    expect(other.locator("table.lanes")).to_contain_text("later")
    other.wait_for_load_state("networkidle")
    second.close()


def test_a_comparison_is_saved_and_corrected_over_what_was_declared(base: str, page: Page) -> None:
    page.goto(f"{base}{EVERYTHING}")
    page.locator("summary", has_text="Share").click()
    page.get_by_role("link", name=re.compile("^Save comparison")).click()
    page.get_by_label("Name").fill("does it help?")
    page.get_by_role("button", name=re.compile("Save")).click()
    page.wait_for_url(re.compile(r"/comparisons/[0-9a-f-]{36}/"))
    expect(page.locator("h1")).to_contain_text("does it help?")
    expect(page.locator("h2#declared")).to_contain_text("2 of 2 hold: 2 better.")
    expect(page.locator(".answer .held li")).to_have_count(2)
    expect(page.locator(".answer .held li").first).to_contain_text(Effect.BETTER.words)
    page.locator("summary", has_text="How this is tested").click()
    expect(page.locator("main")).to_contain_text("all judged together")


def test_the_experiment_page_has_no_violation_either(base: str, page: Page) -> None:
    page.goto(f"{base}/")
    page.get_by_role("link", name="six episodes").first.click()
    page.get_by_role("link", name=re.compile("^Where")).click()
    expect(page.locator("figure.chart .chart-html").first).to_be_visible(timeout=20_000)
    assert page.evaluate("window.violations") == []


def test_runs_are_compared_once_two_sides_have_some(base: str, page: Page) -> None:
    page.goto(f"{base}/compare/")
    compare = page.get_by_role("button", name="Compare", exact=True)
    first, second = (page.get_by_role("region", name=f"Side {letter}") for letter in "AB")
    expect(compare).to_be_disabled()
    page.locator("label:has(input[name=a])").first.click()
    expect(compare).to_be_disabled()
    expect(first).to_contain_text(re.compile(r"\d+ trials?"))
    expect(second).to_contain_text("No run yet")
    page.locator("label:has(input[name=b])").last.click()
    expect(second).to_contain_text(re.compile(r"\d+ trials?"))
    compare.click()
    page.wait_for_url(re.compile("a=.*b="))
