from __future__ import annotations

import pytest

from benchapp.record.textual_change import ChangeCounts, measure_change
from inspector.web.text.diff import diff_file
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
        ({**SKILL, "tidy/assets/logo": File(b"\0text\n")}, ChangeCounts(0, 0, 1)),
        ({"tidy/SKILL.md": File(b"one\r\ntwo\r\nthree")}, ChangeCounts(0, 0, 1)),
        ({"neat/SKILL.md": File(b"one\ntwo\nthree\n")}, ChangeCounts(0, 0, 1)),
        ({"neat/SKILL.md": File(b"one\ntwo\nfour\n")}, ChangeCounts(1, 1, 1)),
        ({"neat/SKILL.md": File(b"quite another text\n")}, ChangeCounts(1, 3, 2)),
    ],
    ids=[
        *("nothing", "edited", "added", "removed", "mode only", "no text", "a NUL", "line ends only"),
        *("renamed", "renamed and edited", "exchanged"),
    ],
)
def test_it_counts_lines_and_files(after: Files, change: ChangeCounts) -> None:
    assert measure_change(SKILL, after) == change


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"a\nb\n", b"a\nc\nd\n"),
        (b"a\r\nb\r\nc\r\n", b"a\nb\nX\n"),
        (b"a", b"a\n"),
        (b"a\x0cb\n", b"a\x0cc\n"),
        (b"a\xe2\x80\xa8b\n", b"a\nb\n"),
        (b"\0\n", b"\0\n1\n"),
        (b"", b"\n"),
        (b"x\n" * 300, b"x\n" * 200 + b"y\n" * 90),
    ],
)
def test_a_page_and_a_row_count_the_same_lines(old: bytes, new: bytes) -> None:
    diff = diff_file("a.txt", old, new)
    counts = measure_change({"a.txt": File(old)}, {"a.txt": File(new)})
    assert (diff.added, diff.removed) == (counts.lines_added, counts.lines_removed)
