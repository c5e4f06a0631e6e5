"""inspector.web.text.diff: rows, words, blocks, and what hostile or enormous files may cost."""

from __future__ import annotations

import random
import re
import time

import pytest

from benchapp.record.textual_change import is_binary
from inspector.templatetags.line_tags import pieces
from inspector.web.text.diff import FOLDED, MAX_SHOWN_CHARS, NO_NEWLINE, LineSign, diff_file, draw_source_rows
from tests.cases import every

SKILL = "---\nname: sums\ndescription: Sum columns with empty cells.\n---\n\n# Sums\n\n1. Count.\n2. Fill with 0.\n3. Sum.\n"  # noqa: E501


def signs(diff):
    return "".join({"same": " ", "add": "+", "del": "-"}[row.sign] for block in diff.blocks for row in block.rows)


def marked(diff, sign):
    return [
        piece.text
        for block in diff.blocks
        for row in block.rows
        if row.sign is sign
        for piece in row.pieces
        if piece.is_marked
    ]


def sides(diff):
    """Both texts, put together again from the rows."""
    rows = [row for block in diff.blocks for row in block.rows]
    old = [row for row in rows if row.sign is not LineSign.ADD]
    new = [row for row in rows if row.sign is not LineSign.DEL]
    return "\n".join(row.text for row in old), "\n".join(row.text for row in new)


def test_it_numbers_both_sides_and_keeps_every_line():
    new = SKILL.replace("Fill with 0", "Leave empty cells out")
    diff = diff_file("sums/SKILL.md", SKILL.encode(), new.encode())
    assert (diff.status, diff.added, diff.removed) == ("M", 1, 1)
    assert sides(diff) == (SKILL.rstrip("\n"), new.rstrip("\n"))
    changed = [row for block in diff.blocks for row in block.rows if row.sign is not LineSign.SAME]
    assert [(row.old, row.new, row.mark) for row in changed] == [(9, None, "−"), (None, 9, "+")]


@every(*range(20))
def test_it_rebuilds_random_texts_from_its_rows(seed):
    dice = random.Random(seed)
    words = ["alpha", "beta", "", "---", "# Head", "```", "  x = 1"]
    old, new = ("\n".join(dice.choices(words, k=dice.randint(1, 60))) + "\n" for _ in range(2))
    assert sides(diff_file("s/SKILL.md", old.encode(), new.encode())) == (old[:-1], new[:-1])


@every("---\nname: a\n---\n", "---\nname: a\n---", "---\nname: a\n---\n\n")
def test_a_skill_that_is_only_frontmatter_has_its_lines(front):
    diff = diff_file("s/SKILL.md", front.encode(), b"new\n")
    assert sides(diff) == (front.removesuffix("\n"), "new")


def test_it_marks_the_words_that_changed():
    diff = diff_file("a.txt", b"replace missing cells with 0 now\n", b"replace missing cells with NA now\n")
    assert marked(diff, LineSign.DEL) == ["0"]
    assert marked(diff, LineSign.ADD) == ["NA"]


@every(
    pytest.param("one two three four\n", "completely other words\n", id="too-unlike"),
    pytest.param("same start a\n", "same start b\nsame start c\n", id="unequal-runs"),
    pytest.param("word " * 101 + "x\n", "word " * 101 + "y\n", id="over-500-characters"),
)
def test_it_marks_no_words_where_marks_would_mislead_or_cost(old, new):
    diff = diff_file("a.txt", old.encode(), new.encode())
    assert diff.added
    assert marked(diff, LineSign.DEL) == marked(diff, LineSign.ADD) == []


def test_it_shows_the_frontmatter_as_a_block_of_its_own():
    new = SKILL.replace("empty cells.", "missing cells.\nlicense: MIT")
    front, *rest = diff_file("sums/SKILL.md", SKILL.encode(), new.encode()).blocks
    assert front.is_frontmatter
    assert not front.is_folded
    assert [row.text for row in front.rows][-1] == "---"
    assert sum(row.text == "---" for row in front.rows) == 2
    assert not any(block.is_frontmatter for block in rest)


def test_it_folds_an_unchanged_frontmatter_and_unchanged_parts_under_their_heading():
    body = "".join(f"line {number}\n" for number in range(40))
    old = SKILL + "## Workflow\n" + body
    diff = diff_file("sums/SKILL.md", old.encode(), (old + "end\n").encode())
    assert [(block.is_frontmatter, block.is_folded) for block in diff.blocks] == [
        (True, True),
        (False, True),
        (False, False),
    ]
    assert [block.heading for block in diff.blocks] == ["", "Workflow", ""]  # the fold says where it leads
    assert signs(diff).endswith("   +")


def test_it_does_not_take_a_comment_in_a_code_fence_for_a_heading():
    text = "# Real\n```\n# not a heading\n```\n" + "x\n" * 9
    blocks = diff_file("a.md", text.encode(), (text + "y\n").encode()).blocks
    assert [block.heading for block in blocks] == ["Real", ""]  # the fold above says it already


@every((None, b"a\n", "A"), (b"a\n", None, "D"), (b"a\n", b"a\n", ""))
def test_it_tells_added_deleted_and_unchanged(old, new, status):
    assert diff_file("a.txt", old, new).status == status


def test_it_tells_a_missing_newline_at_the_end():
    diff = diff_file("a.txt", b"a\n", b"a")
    assert (diff.added, diff.removed) == (0, 0), "how a line ends is no part of it"
    assert [row.note for row in diff.blocks[0].rows] == [NO_NEWLINE]
    assert diff.note == "Only line ends changed: the file no longer ends with a newline."


@every(
    (b"a\r\nb\r\n", b"a\nb\n", "Only line ends changed: CRLF became LF in 2 lines."),
    (b"a\nb\n", b"a\r\nb\n", "Only line ends changed: LF became CRLF in 1 line."),
    (b"a\r\nb\r\nc\r\n", b"a\nX\nc\n", "Line ends changed: CRLF became LF in 2 lines."),
    (
        b"a\r\nb\n",
        b"a\nb\r\n",
        "Only line ends changed: CRLF became LF in 1 line, LF became CRLF in 1 line.",
    ),
    (
        b"a\r\nb",
        b"a\nb\n",
        "Only line ends changed: CRLF became LF in 1 line; the file ends with a newline now.",
    ),
    (b"a\n", b"b\n", ""),
    (None, b"a\r\n", ""),
)
def test_it_says_how_line_ends_changed(old, new, note):
    assert diff_file("a.txt", old, new).note == note


def test_a_renamed_file_says_what_it_was_called():
    diff = diff_file("new/SKILL.md", b"a\n", b"a\n", renamed_from="old\u202e/SKILL.md")
    assert diff.status == "R"
    assert diff.note == "Renamed from old⟨U+202E⟩/SKILL.md, with the same content."
    edited = diff_file("new/SKILL.md", b"a\nb\n", b"a\nc\n", renamed_from="old/SKILL.md")
    assert (edited.status, edited.added, edited.removed, edited.note) == ("R", 1, 1, "Renamed from old/SKILL.md.")


def test_a_long_line_is_folded_and_its_rest_is_bounded():
    line = "head " + "x" * 200_000 + " tail"
    row = draw_source_rows("a.txt", f"short\n{line}\n".encode())[1]
    first, folded, last = row.pieces
    assert first.text.startswith("head")
    assert len(first.text) < 1_000
    assert folded.kind == FOLDED
    assert "are in the whole file" in folded.text
    assert last.text.endswith(" tail")
    assert len(row.text) <= MAX_SHOWN_CHARS + 100
    assert '<details class="rest"><summary>' in pieces(row)
    coloured = draw_source_rows("run.py", f"import os\nx = '{'y' * 30_000}'\n".encode())
    assert coloured[0].pieces[0].kind == "k", "one long line does not take the colours of the others"


def test_words_from_right_to_left_do_not_turn_the_operators_of_code_around():
    (row,) = draw_source_rows("run.sh", 'echo "مرحبا بكم" > ملف.txt\n'.encode())
    html = re.sub(r"</?span[^>]*>", "", pieces(row))
    assert html == "echo &quot;<bdi>مرحبا بكم</bdi>&quot; &gt; <bdi>ملف</bdi>.txt"


def test_it_says_that_binary_files_are_binary():
    diff = diff_file("a.png", b"\x89PNG\0\1", b"\x89PNG\0\2")
    assert diff.status == "M"
    assert diff.blocks == ()
    assert "Binary" in diff.note
    assert "6 bytes" in diff.note
    assert is_binary(b"\xff\xfe")
    assert not is_binary("grün".encode())


def test_it_makes_hidden_characters_visible():
    row = draw_source_rows("a.txt", "ok\u202egnp.exe\x1b[31mred\u200b\r\n".encode())[0]
    assert row.text == "ok⟨U+202E⟩gnp.exered⟨U+200B⟩↵"


def test_it_collapses_a_file_with_more_than_500_changed_lines():
    big = "".join(f"{number}\n" for number in range(501)).encode()
    assert diff_file("a.txt", None, big).is_collapsed
    assert not diff_file("a.txt", None, b"a\n" * 500).is_collapsed


def test_it_pairs_deletions_with_additions_for_the_split_view():
    diff = diff_file("a.txt", b"a\nb\nc\nd\n", b"a\nx\ny\nz\nd\n")
    pairs = [(pair.left and pair.left.text, pair.right and pair.right.text) for pair in diff.blocks[0].pairs]
    assert pairs == [("a", "a"), ("b", "x"), ("c", "y"), (None, "z"), ("d", "d")]


DICE = random.Random(1)
HARD = {
    "braces": ("\n".join(DICE.choices("{}", k=2000)), "\n".join(DICE.choices("{}", k=2000))),
    "few-lines-often": tuple("\n".join(DICE.choices([str(n) for n in range(100)], k=5999)) for _ in range(2)),
    "one-line-of-a-megabyte": ("x " * 500_000, "y " * 500_000),
    "brackets": ("[" * 20_000 + "\n", "(" * 20_000 + "\n"),
}
HARD["long-similar-lines"] = ("\n".join(["a b " * 120] * 400), "\n".join("b a " * 120 + str(n) for n in range(400)))


@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("path", ["a/SKILL.md", "a/scripts/run.py"])
def test_it_answers_quickly_whatever_the_file(name, path):
    old, new = HARD[name]
    started = time.process_time()
    diff = diff_file(path, old.encode(), new.encode())
    assert time.process_time() - started < 4
    assert all(len(row.text) < MAX_SHOWN_CHARS + 100 for block in diff.blocks for row in block.rows)


def test_it_refuses_to_compare_what_is_too_big_and_says_so():
    diff = diff_file("a.txt", b"a\n" * 7000, b"b\n" * 7000)
    assert diff.blocks == ()
    assert "14,000 lines" in diff.note


def test_it_colours_by_file_name_and_keeps_the_text():
    rows = draw_source_rows("run.py", b'def f():\n    """Doc\n    more"""\n    return 1  # why\n')
    assert [row.text for row in rows] == ["def f():", '    """Doc', '    more"""', "    return 1  # why"]
    assert ("k", "def") in [(piece.kind, piece.text) for piece in rows[0].pieces]
    assert rows[2].pieces[-1].kind == "s"
    assert [piece.kind for piece in draw_source_rows("unknown.zzz", b"def f():\n")[0].pieces] == [""]
