"""Nobody changes what the scripted model replies without raising its version."""

from __future__ import annotations

from pathlib import Path

import demo
from demo.scripted import VERSION
from runner.base.digests import digest_json
from tools.prose import read_prose

OF_VERSION = ("4", "b6a9fba7d811236ac7f9b97c2e839dd073ade50d1164db8994400031dbeac087")


def test_the_version_is_that_of_the_code() -> None:
    folder = Path(demo.__file__).parent
    found = digest_json({str(path.relative_to(folder)): _read_code(path) for path in folder.rglob("*.py")})
    assert (VERSION, found) == OF_VERSION, (
        "The scripted model's code changed. If any reply may differ now, raise VERSION in demo/scripted.py, so "
        f"that older runs are not taken for comparable. Then set OF_VERSION here to {(VERSION, found)!r}."
    )


def _read_code(path: Path) -> str:
    """Return the file without comments and docstrings, which no reply depends on."""
    code = path.read_text()
    for _, prose in read_prose(code):
        code = code.replace(prose, "", 1)
    return code
