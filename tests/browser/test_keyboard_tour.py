"""A reader's whole way without a mouse: from the list of experiments to a line of a skill, its probe, and a search."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from benchapp.models import Trial
from runner.base.types import Source, Step, ToolCall
from tests.pages import make_world
from tests.worlds.factories import record_steps

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

RUN = "Self-written, always revised, replicate 1"
_MOST_TABS = 120
TASK = "E1-F1-T2"


@pytest.fixture
def base(live_server: object) -> str:
    make_world()
    for trial in Trial.objects.filter(task__key=TASK, is_done=True):
        call = ToolCall("c", "shell", {"command": f"head {trial.phase}.csv"})
        steps = [Step(1, Source.USER, "Sum."), Step(2, Source.AGENT, tool_calls=(call,))]
        record_steps(trial.counting_attempt(), steps)
    return live_server.url  # type: ignore[attr-defined]


def test_from_the_experiments_to_a_line_and_its_probe_by_keys_alone(base: str, page: Page) -> None:
    keys = page.keyboard
    page.goto(base)
    _open_by_tabbing(page, "starter demo", r"/experiments/")
    _open_by_tabbing(page, "Runs", r"/compare/runs/")
    _open_by_tabbing(page, RUN, r"/runs/[^/]+/$")
    keys.press("g")
    keys.press("t")
    keys.press("ArrowRight")
    _press(page, "Enter", r"/trials/[^/]+/$")
    _press(page, "j", r"#step-")
    _press(page, "b", r"/compare/")
    _press(page, "d", r"row=")
    _press(page, "[", r"/trials/[^/]+/$")
    _press(page, "l", r"/library/")
    _press(page, "g b", r"/library/blame/")
    keys.press("j")
    _press(page, "Enter", r"line=")
    expect(page.get_by_role("heading", name=re.compile("^Line "))).to_be_visible()
    _press(page, "g x", r"/library/probe/")
    _tab_to(page, "Estimate")
    _press(page, "Enter", r"times=")
    keys.press("/")
    keys.type("csv")
    _press(page, "Tab", r"/search/\?q=csv")


def _press(page: Page, key: str, leads_to: str) -> None:
    for stroke in key.split():
        page.keyboard.press(stroke)
    expect(page).to_have_url(re.compile(leads_to))
    page.wait_for_load_state()


def _open_by_tabbing(page: Page, name: str, leads_to: str) -> None:
    _tab_to(page, name)
    _press(page, "Enter", leads_to)


def _tab_to(page: Page, name: str) -> None:
    for _ in range(_MOST_TABS):
        page.keyboard.press("Tab")
        words = page.evaluate(
            "((it) => (it.matches('a, button') ? `${it.innerText} ${it.title}` : ''))(document.activeElement)"
        )
        if re.search(rf"(^| ){re.escape(name)}( |$)", words.strip()):
            return
    pytest.fail(f"Tab does not reach {name!r} in {_MOST_TABS} steps")
