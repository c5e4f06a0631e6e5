"""Nobody changes what the scripted model replies without raising its version."""

from __future__ import annotations

from pathlib import Path

from runner import models
from runner.digests import digest_bytes, digest_json
from runner.models.scripted import VERSION

OF_VERSION = ("4", "111438fb42012a7ffedd765ad4b9fd3955e1e17c7048ec14d34b2699c0c823c6")


def test_the_version_is_that_of_the_files() -> None:
    folder = Path(models.__file__).parent
    files = [*folder.glob("scripted*.py"), folder / "skill_text.py", *folder.glob("playbooks/*.py")]
    found = digest_json({str(path.relative_to(folder)): digest_bytes(path.read_bytes()) for path in files})
    assert (VERSION, found) == OF_VERSION, (
        "The scripted model's files changed. If any reply may differ now, raise VERSION in runner/models/scripted.py, so "
        f"that older runs are not taken for comparable. Then set OF_VERSION here to {(VERSION, found)!r}."
    )
