"""The time machine and the inspector as a person meets them: every view, both themes, keys, folds and links."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from benchapp.models import Blob, DecisionEvidence, Run, SkillUse, Trial
from runner.base.types import Observation, Source, Step, ToolCall
from tests.browsing import LOOKS, inaccessible, open_in, settle
from tests.worlds.factories import (
    make_attempt,
    make_decision,
    make_family,
    make_learning_run,
    make_snapshot,
    record_steps,
)

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

BODY = "---\nname: sums\ndescription: Sum columns.\n---\n\n# Sums\n\n" + "".join(f"- rule {n}\n" for n in range(60))
PATCH = (
    b'{"summary": "s", "operation_type": "revise", "upsert_files": {"sums/SKILL.md": "---\\nname: x\\n---\\nnew\\n"}}'
)


def _steps(count: int) -> list[Step]:
    return [
        Step(
            number,
            Source.USER if number == 1 else Source.AGENT,
            message=f"message {number}",
            reasoning="I think." if number % 2 else None,
            tool_calls=(ToolCall("c", "shell", {"command": f"run {number}"}),),
            observations=(Observation("line\n" * (4_000 if number == 3 else 2), "c", is_error=number in (9, 40)),),
        )
        for number in range(1, count + 1)
    ]


@pytest.fixture
def world(live_server: object) -> tuple[str, Run, Trial]:
    """A run whose last decisions touch code and Markdown, one rejected, with evidence; a failed trial of 60 steps."""
    run = make_learning_run(families=1, scripted=True)
    episode = run.episodes.get()
    trial = episode.trials.filter(success=False).order_by("id").first()
    trajectory = record_steps(trial.counting_attempt(), _steps(60))
    SkillUse.objects.create(attempt=trajectory.attempt, trajectory=trajectory, step=12, skill="sums", kind="read")
    family = make_family(episode.environment, key="E1-F9")
    code = 'import csv\n\n\ndef total(rows):\n    """Sum."""\n    return sum(rows)  # all\n'
    before = make_snapshot({"sums/SKILL.md": BODY, "sums/scripts/a.py": code})
    make_decision(episode, family, after_trial=trial, after=before)
    after = {"sums/SKILL.md": BODY.replace("rule 30", "law 30"), "sums/scripts/a.py": code.replace("sum(rows)", "0")}
    revised = make_decision(episode, family, after_trial=trial, after=make_snapshot(after), operation_type="revise")
    DecisionEvidence.objects.create(
        decision=revised, ordinal=0, trial=trial, compaction=trajectory.compactions.get(kind="rich")
    )
    finding = {"rule": "name-is-folder", "path": "sums/SKILL.md", "message": "x is not sums", "severity": "error"}
    make_decision(
        episode, family, after_trial=trial, status="rejected", patch_id=Blob.objects.put(PATCH), findings=[finding]
    )
    return live_server.url, run, trial  # type: ignore[attr-defined]


LIBRARY = [
    "?decision=5",
    "?decision=5&view=split&tab=trajectory",
    "?decision=5&view=rendered&tab=verdict",
    "?decision=5&view=source&file=sums/scripts/a.py&tab=users",
    "?decision=6",
    "?from=R0&to=R4",
]
TRIAL = ["", "?view=rich", "?view=rough", "?at=40"]


@pytest.mark.parametrize(("theme", "width"), LOOKS)
def test_every_view_keeps_the_policy_and_wcag_aa(
    world: tuple[str, Run, Trial], context: BrowserContext, theme: str, width: int
) -> None:
    base, run, trial = world
    page, errors = open_in(context, base, theme)
    page.set_viewport_size({"width": width, "height": 900})
    addresses = [f"/runs/{run.public_id}/library/{query}" for query in LIBRARY]
    addresses += [f"/trials/{trial.public_id}/{query}" for query in TRIAL]
    for address in addresses:
        page.goto(base + address)
        settle(page)
        assert page.evaluate("window.violations") == [], address
        assert inaccessible(page) == [], address
        assert page.evaluate("document.documentElement.scrollWidth") <= width, address
    assert errors == []


def test_keys_walk_steps_errors_and_skills(world: tuple[str, Run, Trial], page: Page) -> None:
    base, _, trial = world
    page.goto(f"{base}/trials/{trial.public_id}/")
    settle(page)  # a key before the scripts are there goes nowhere
    here = page.locator(".steps > li.at")
    page.keyboard.press("j")
    expect(here).to_have_id("step-1")
    page.keyboard.press("e")
    expect(here).to_have_id("step-9")
    page.keyboard.press("s")
    expect(here).to_have_id("step-12")
    page.keyboard.press("k")
    expect(here).to_have_id("step-11")
    page.keyboard.press("e")
    expect(page.locator("#step-40")).to_be_in_viewport()
    expect(here).to_have_id("step-40")
    page.keyboard.press("E")
    expect(here).to_have_id("step-9")
    page.keyboard.press("G")
    expect(here).to_have_id("step-60")
    page.keyboard.press("r")
    expect(page.locator("#step-59 details.think")).to_have_attribute("open", "")
    page.keyboard.press("c")
    expect(page.locator("#cut-rich")).to_be_checked()
    page.keyboard.press("o")
    expect(page.locator("#outline")).to_be_hidden()


def test_more_steps_come_as_one_scrolls_and_the_address_follows(world: tuple[str, Run, Trial], page: Page) -> None:
    base, _, trial = world
    page.goto(f"{base}/trials/{trial.public_id}/")
    page.mouse.move(700, 600)
    steps = page.locator(".steps > li.step")
    for _ in range(40):
        page.mouse.wheel(0, 1200)
        page.wait_for_timeout(80)
    expect(steps).to_have_count(60)
    page.wait_for_function("Number(location.hash.slice(6)) > 30 && location.search.includes('at=')")
    page.goto(f"{base}/trials/{trial.public_id}/#step-58")
    expect(page.locator("#step-58")).to_be_in_viewport()
    page.goto(f"{base}/trials/{trial.public_id}/?at=50#step-50")
    page.wait_for_timeout(600)
    top = page.locator("#step-50").bounding_box()["y"]  # type: ignore[index]
    assert 0 <= top < 120, "steps that came above did not move it"
    page.locator(".outline a[href$='#step-2']").click()
    expect(page.locator("#step-2")).to_be_in_viewport()
    assert page.evaluate("window.violations") == []


def test_the_strip_leads_to_other_trials(world: tuple[str, Run, Trial], page: Page) -> None:
    base, _, trial = world
    page.goto(f"{base}/trials/{trial.public_id}/")
    expect(page.locator(".evo [aria-current]")).to_be_in_viewport()
    place, is_last = page.locator(".evo-side"), re.compile(r"trial (\d+) of \1\b")
    page.locator(".evo-trial").last.click()
    expect(place).to_contain_text(is_last)
    settle(page)  # the words are there before the script that hears the key
    page.keyboard.press("[")
    expect(place).not_to_contain_text(is_last)
    expect(place).to_contain_text("trial ")
    assert page.evaluate("window.violations") == []


def test_of_a_result_of_millions_of_characters_its_end_and_its_middle_are_a_click_away(
    world: tuple[str, Run, Trial], page: Page
) -> None:
    base, _, trial = world
    whole = "".join(f"line {number}\n" for number in range(150_000)) + "the end"
    attempt = make_attempt(trial, counts=False, steps=None)
    record_steps(attempt, [Step(1, Source.AGENT, observations=(Observation(whole),))])
    page.goto(f"{base}/trials/{trial.public_id}/?attempt={attempt.number}")
    expect(page.locator("#step-1 pre.result").last).to_contain_text("line 149999\nthe end")
    page.locator("#step-1 summary").click()
    page.get_by_role("link", name="from the middle").click()
    expect(page.locator("#step-1 .gap")).to_have_count(2)
    page.get_by_role("link", name="the last 64,000").last.click()
    expect(page.locator("#step-1 .more")).to_contain_text("line 149900\n")


def test_a_folded_text_opens_in_place(world: tuple[str, Run, Trial], page: Page) -> None:
    base, _, trial = world
    page.goto(f"{base}/trials/{trial.public_id}/?at=3#step-3")
    text = page.locator("#step-3 .result:has(> pre)")
    summary = text.locator("summary")
    expect(summary).to_contain_text("3,987 lines more")
    expect(summary).to_contain_text("lines 9 to 3,995 of 4,000")
    summary.click()
    expect(text.get_by_role("link")).to_have_count(0)
    expect(text.locator(".more")).to_be_visible()
    expect(text.locator("> pre")).to_have_count(2)
    assert text.locator(".more").inner_text().split() == ["line"] * 3_987
    assert page.evaluate("document.querySelector('#step-3 .more').offsetHeight <= innerHeight")
    summary.click()
    expect(text.locator(".more")).to_be_hidden()


def test_a_selection_in_a_text_with_folded_blank_lines_counts_its_characters(
    world: tuple[str, Run, Trial], page: Page
) -> None:
    base, _, trial = world
    screen = "\nroot# ls\n" + "\n" * 37 + "root# done\n"
    attempt = make_attempt(trial, counts=False, steps=None)
    record_steps(attempt, [Step(1, Source.AGENT, observations=(Observation(screen),))])
    page.goto(f"{base}/trials/{trial.public_id}/?attempt={attempt.number}")
    text = page.locator("#step-1 pre.result")
    assert text.evaluate("each => each.textContent") == screen
    expect(text.locator("details.blanks > summary")).to_have_accessible_name("37 blank lines")
    assert text.bounding_box()["height"] < 150  # type: ignore[index]
    text.locator("summary").click()
    assert text.bounding_box()["height"] > 500  # type: ignore[index]


def test_keys_walk_the_changes_of_a_library(world: tuple[str, Run, Trial], page: Page) -> None:
    base, run, _ = world
    page.goto(f"{base}/runs/{run.public_id}/library/?decision=5")
    page.keyboard.press("n")
    expect(page.locator(".diff tr.at")).to_contain_text("rule 30")
    page.keyboard.press("k")
    expect(page.locator("[data-stop][aria-current]")).to_have_attribute("data-stop", "d4")
    expect(page.locator(".lede")).to_contain_text("Decision 4 of")


def test_a_link_to_a_folded_line_shows_it(world: tuple[str, Run, Trial], page: Page) -> None:
    base, run, _ = world
    page.goto(f"{base}/runs/{run.public_id}/library/?decision=5#f0-R12")
    expect(page.locator("#f0-R12")).to_be_in_viewport()
