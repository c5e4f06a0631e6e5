"""Nobody changes what the scripted model replies without raising its version."""

from __future__ import annotations

from pathlib import Path

from demo.scripted import VERSION
from runner import models
from runner.base.digests import digest_bytes, digest_json

OF_VERSION = ("4", "9ee0b13d69567d553c6efe25b7c1442c2c4c0630f6445ed3b6848df574e8c113")


def test_the_version_is_that_of_the_files() -> None:
    folder = Path(models.__file__).parent
    files = [*folder.glob("scripted*.py"), folder / "skill_text.py", *folder.glob("playbooks/*.py")]
    found = digest_json({str(path.relative_to(folder)): digest_bytes(path.read_bytes()) for path in files})
    assert (VERSION, found) == OF_VERSION, (
        "The scripted model's files changed. If any reply may differ now, raise VERSION in demo/scripted.py, so "
        f"that older runs are not taken for comparable. Then set OF_VERSION here to {(VERSION, found)!r}."
    )
