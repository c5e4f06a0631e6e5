"""Share: one menu on every page with a finding, whose every link answers, and whose two lines name what they read."""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import urlsplit

import pytest
from django.test import Client

from tests.pages import address, make_world

pytestmark = pytest.mark.django_db

# name of the address -> what its menu has besides the link, the twin and the lines for a notebook
RESULTS = ("Save comparison", "Download the report", "Trials", "Values", "Differences", "Table for a paper")
MENUS = {
    "experiment": (*RESULTS, "Chart"),
    **{
        f"compare-{name}": RESULTS
        for name in ("where", "cost", "libraries", "lines", "failures", "replay", "certainty", "runs", "trials")
    },
    "trial": ("Evidence capsule", "Whole trajectory"),
    "library": ("Evidence capsule",),
    "compare-pair": (),
    "comparison": ("Download the report", "Differences", "Trials"),
}
_MENU = re.compile(r'<details class="menu share">.*?</details>', re.DOTALL)


def test_every_page_with_a_finding_has_one_menu_and_its_links_answer(client: Client) -> None:
    make_world()
    answered = set()  # pages share links
    for name, entries in MENUS.items():
        (menu,) = _MENU.findall(client.get(address(name)).text)
        for entry in ("Copy link", "This page", "import pandas", *entries):
            assert entry in menu, (name, entry)
        links = [unescape(link) for link in re.findall(r'href="([^"]+)"', menu)]
        read = re.search(r'read_(?:csv|json)\("http://testserver([^"]+)"', unescape(menu))
        assert read, name
        for link in {*links, read[1]}:
            asked = re.sub(r"(?<=[?&])(?:as_of|seen)=[^&]*", "", link)
            if asked in answered:
                continue
            answered.add(asked)
            assert client.get(link.removeprefix("http://testserver")).status_code == 200, (name, link)


@pytest.mark.parametrize("name", ["experiment", "compare-where", "compare-trials"])
def test_the_link_is_pinned_where_numbers_are(client: Client, name: str) -> None:
    make_world()
    page = client.get(address(name)).text
    link = unescape(re.search(r'href="([^"]+)" data-copies', page)[1])  # type: ignore[index]
    assert "as_of=" in urlsplit(link).query
    assert client.get(link).status_code == 200


def test_the_trials_of_a_mark_are_shared_as_narrowed_as_they_are_listed(client: Client) -> None:
    make_world()
    (menu,) = _MENU.findall(client.get("/compare/trials/?condition=selfgen-always&outcome=failed").text)
    assert 'trials.csv?condition=selfgen-always&amp;outcome=failed"' in menu
    assert re.search(r'href="[^"]*as_of=[^"]*outcome=failed" data-copies', menu)


def test_a_link_cannot_leave_the_lines_for_a_notebook(client: Client) -> None:
    make_world()
    (menu,) = _MENU.findall(
        client.get("/compare/where/", {"condition": '"><b>\n', "agent_model": '")\nimport os'}).text
    )
    assert "<b>" not in menu
    code = unescape(re.search(r"<pre[^>]*>(.*?)</pre>", menu, re.DOTALL)[1])  # type: ignore[index]
    assert len(code.splitlines()) == 2
