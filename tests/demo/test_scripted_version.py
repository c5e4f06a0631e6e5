"""Nobody changes what the scripted model replies without raising its version."""

from __future__ import annotations

from pathlib import Path

import demo
from demo.scripted import VERSION
from runner.base.digests import digest_bytes, digest_json

OF_VERSION = ("4", "11eded8d611167d2c3061d7f9837c734adf75f6bd5f9fb4053e8b104ef18f826")


def test_the_version_is_that_of_the_files() -> None:
    folder = Path(demo.__file__).parent
    files = folder.rglob("*.py")
    found = digest_json({str(path.relative_to(folder)): digest_bytes(path.read_bytes()) for path in files})
    assert (VERSION, found) == OF_VERSION, (
        "The scripted model's files changed. If any reply may differ now, raise VERSION in demo/scripted.py, so "
        f"that older runs are not taken for comparable. Then set OF_VERSION here to {(VERSION, found)!r}."
    )
