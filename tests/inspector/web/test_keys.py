"""The list under ? tells the keys of the page it is on: none that does nothing is promised twice, none is kept secret."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from tests.pages import PAGES, address, make_world

pytestmark = pytest.mark.django_db

_BOUND = re.compile(r'data-key="([^"]+)"')
_TOLD = re.compile(r"<kbd>([^<]+)</kbd>")


def test_every_key_of_every_page_is_told_and_has_one_meaning(client: Client) -> None:
    make_world()
    secret, doubled = {}, {}
    for name in PAGES:
        page, _, dialog = client.get(address(name)).text.partition('<dialog id="keys"')
        bound = _BOUND.findall(page)
        head, _, own = page.partition("</header>")
        if shadowed := set(_BOUND.findall(head)).intersection(_BOUND.findall(own)):
            doubled[name] = sorted(shadowed)  # the first in the document is clicked: the page's own never is
        told = _TOLD.findall(dialog.partition("</dialog>")[0])
        if missing := sorted(set(bound) - set(told)):
            secret[name] = missing
        rows = re.findall(r"<dt>(.*?)</dt>", dialog.partition("</dialog>")[0])
        keys = [key for row in rows for key in _TOLD.findall(row)]
        if twice := sorted({key for key in keys if keys.count(key) > 1}):
            doubled[name] = twice
    assert (secret, doubled) == ({}, {})
