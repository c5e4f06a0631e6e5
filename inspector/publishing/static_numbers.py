"""The numbers of a chart as files: their addresses lead to files of the site, and they hold no time of day."""

from __future__ import annotations

import re
from urllib.parse import urljoin

import orjson

from inspector.publishing.static_page import Find

TIMED = ("pin", "as_of", "permalink", "next")  # how the installation finds these numbers again
LINKS = ("customdata", "url")  # of a point, of a row


def make_static_json(content: bytes, address: str, find: Find) -> bytes:
    """The twin of a chart: a point that led to a page outside the site leads nowhere."""

    def settle(value: object, *, leads: bool = False) -> object:
        if isinstance(value, dict):
            return {key: settle(each, leads=leads or key in LINKS) for key, each in value.items()}
        if isinstance(value, list):
            return [settle(each, leads=leads) for each in value]
        if leads and isinstance(value, str):
            return find(urljoin(address, value)) or ""
        return value

    read = {key: value for key, value in orjson.loads(content).items() if key not in TIMED}
    return orjson.dumps(settle(read))


def make_static_csv(text: str, address: str, find: Find) -> str:
    origin = re.escape(urljoin(address, "/"))
    return re.sub(origin + r'[^\s,"]*', lambda found: find(found.group()) or "", text)
