"""Keys: the list under ? has every key of its page, and a key means the same on all pages."""

from __future__ import annotations

import re
from collections import defaultdict
from html import unescape
from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client

from inspector.web.navigation import KEYS, describe_keys
from tests.pages import PAGES, address, make_world

_BOUND = re.compile(r'data-key="([^"{]+)"')
_ROW = re.compile(r"<dt[^>]*>(.*?)</dt>")
_STROKES = re.compile(r'<span class="strokes">(.*?)</span>')
_KBD = re.compile(r"<kbd>([^<]+)</kbd>")
_LINK = re.compile(r"""<a [^>]*?href="{% url "([^"]+)"[^>]*?data-key="([^"]+)\"""")
_IN_SCRIPTS = re.compile(r"""event\.key [!=]== "([^"]+)\"""")
ROOT = Path(settings.BASE_DIR)
ALWAYS_ELSEWHERE = frozenset("[ ] < > u b Enter".split())  # of what, the page says
OF_FIELDS = frozenset("Enter Escape Tab Shift Home End ArrowDown ArrowUp ArrowLeft ArrowRight".split()) | {" "}


@pytest.mark.django_db
def test_every_key_of_every_page_is_told_once(client: Client) -> None:
    make_world()
    secret, doubled = {}, {}
    for name in PAGES:
        page, _, dialog = client.get(address(name)).text.partition('<dialog id="keys"')
        bound = {unescape(key) for key in _BOUND.findall(page)}
        told = [key for row in _ROW.findall(dialog) for key in _read_strokes(row)]
        if missing := sorted(bound - set(told)):
            secret[name] = missing
        if twice := sorted({key for key in told if told.count(key) > 1}):
            doubled[name] = twice
    assert (secret, doubled) == ({}, {})


def _read_strokes(row: str) -> list[str]:
    return [unescape(" ".join(_KBD.findall(strokes))) for strokes in _STROKES.findall(row)]


def test_every_key_of_a_template_or_a_script_is_in_the_map() -> None:
    unknown = defaultdict(set)
    for path in (ROOT / "templates").rglob("*.html"):
        for key in _BOUND.findall(path.read_text()):
            if unescape(key) not in KEYS and not key.isdigit():
                unknown[path.name].add(key)
    for path in (ROOT / "static/js").glob("*.js"):
        for key in set(_IN_SCRIPTS.findall(path.read_text())) - OF_FIELDS:
            if key not in KEYS and key != "g":
                unknown[path.name].add(key)
    assert not unknown


def test_a_key_leads_to_one_kind_of_page() -> None:
    leads = defaultdict(set)
    for path in (ROOT / "templates").rglob("*.html"):
        for page, key in _LINK.findall(path.read_text()):
            leads[unescape(key)].add(page)
    assert len(leads) > 10
    assert not {key: pages for key, pages in leads.items() if len(pages) > 1 and key not in ALWAYS_ELSEWHERE}


def test_no_key_of_a_page_waits_for_the_second_key_of_another() -> None:
    assert "g" not in KEYS  # it begins the keys of other pages


@pytest.mark.parametrize(
    ("keys", "noun", "words"),
    [
        ("j k", "step", "next, previous step"),
        ("j k", "", "next, previous row"),
        ("[ ]", "trial", "trial before, trial after"),
        ("x X", "", "unfold this step, unfold all"),
        ("← → ↑ ↓", "the grid", "walk the grid"),
        ("u", "the run", "up to the run"),
    ],
)
def test_words_of_keys_come_from_the_map(keys: str, noun: str, words: str) -> None:
    assert describe_keys(keys.split(), noun) == words
