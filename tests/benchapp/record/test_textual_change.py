from __future__ import annotations

import pytest

from benchapp.record.textual_change import ChangeCounts, measure_change
from runner.base.types import File, Files

SKILL = {"tidy/SKILL.md": File(b"one\ntwo\nthree\n")}


@pytest.mark.parametrize(
    ("after", "change"),
    [
        (SKILL, ChangeCounts(0, 0, 0)),
        ({"tidy/SKILL.md": File(b"one\n2\nthree\nfour\n")}, ChangeCounts(2, 1, 1)),
        ({**SKILL, "tidy/references/more.md": File(b"a\nb")}, ChangeCounts(2, 0, 1)),
        ({}, ChangeCounts(0, 3, 1)),
        ({"tidy/SKILL.md": File(b"one\ntwo\nthree\n", 0o755)}, ChangeCounts(0, 0, 1)),
        ({**SKILL, "tidy/assets/logo": File(b"\xff\xfe\n")}, ChangeCounts(0, 0, 1)),
    ],
    ids=["nothing", "edited", "added", "removed", "mode only", "no text"],
)
def test_it_counts_lines_and_files(after: Files, change: ChangeCounts) -> None:
    assert measure_change(SKILL, after) == change
