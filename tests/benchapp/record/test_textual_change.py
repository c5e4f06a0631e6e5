from __future__ import annotations

import pytest

from benchapp.record.textual_change import Change, measure_change
from runner.base.types import File, Files

SKILL = {"tidy/SKILL.md": File(b"one\ntwo\nthree\n")}


@pytest.mark.parametrize(
    ("after", "change"),
    [
        (SKILL, Change(0, 0, 0)),
        ({"tidy/SKILL.md": File(b"one\n2\nthree\nfour\n")}, Change(2, 1, 1)),
        ({**SKILL, "tidy/references/more.md": File(b"a\nb")}, Change(2, 0, 1)),
        ({}, Change(0, 3, 1)),
        ({"tidy/SKILL.md": File(b"one\ntwo\nthree\n", 0o755)}, Change(0, 0, 1)),
        ({**SKILL, "tidy/assets/logo": File(b"\xff\xfe\n")}, Change(0, 0, 1)),
    ],
    ids=["nothing", "edited", "added", "removed", "mode only", "no text"],
)
def test_it_counts_lines_and_files(after: Files, change: Change) -> None:
    assert measure_change(SKILL, after) == change
