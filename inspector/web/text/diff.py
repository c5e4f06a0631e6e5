"""The difference of two texts as values a template can draw: files, blocks, rows, pieces.

Texts come from models and agents, so every cost has a cap: word marks only on short lines of equally long runs, no
colours on big files, folded blocks, and files too big to compare are said to be so. Lines are compared with difflib's
autojunk on: without it 2,000 lines of braces take a minute.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from itertools import accumulate, pairwise, zip_longest
from typing import NamedTuple

from benchapp.record.textual_change import MAX_LINES, compare_lines, is_binary, split_endless_lines
from benchapp.record.visible import visible
from inspector.web.text.folding import LINE_CHARS, LINE_HEAD, LINE_TAIL
from inspector.web.text.highlight import Line, highlight

CONTEXT_LINES = 3
MAX_BYTES = 1024 * 1024  # of one side
MAX_SHOWN_CHARS = 20_000  # of one line
MAX_WORD_CHARS = 500  # no word marks on longer lines: one of 26 KB takes minutes
MAX_WORD_WORK = 2_000_000  # pairs of words per file that may be compared for word marks, about 0.1 s
MIN_WORD_RATIO = 0.4  # below this, marks mean nothing
COLLAPSE_CHANGES = 500  # a file with more changed lines starts folded
NO_NEWLINE = "no newline at the end of the file"
FOLDED = "folded"  # the kind of the piece that a long line folds away

_WORDS = re.compile(r"\w+|\s+|[^\w\s]")
_HEADING = re.compile(r"#{1,6} +(.{1,200})")
_DEFINITION = re.compile(r"\s*(?:(?:async )?def|class|function|func|fn) +[\w$]+.{0,100}")


class LineSign(StrEnum):
    """What a line of a diff is."""

    SAME = "same"
    ADD = "add"
    DEL = "del"


@dataclass(frozen=True, slots=True)
class LinePiece:
    """A part of a line: its colour's kind ("" for none), and whether its words changed."""

    text: str
    kind: str = ""
    is_marked: bool = False


@dataclass(frozen=True, slots=True)
class LineReaders:
    """How later trials that read a line ended, and the number of the decision that wrote it, 0 if none did.
    `is_first`: the first of neighbouring lines with equal numbers, which are shown once."""

    passed: int
    scored: int
    by: int
    is_first: bool


@dataclass(frozen=True, slots=True)
class DiffRow:
    """One line. `old` and `new` are line numbers from 1; None on the side without the line. `readers`: where a page
    knows who read it."""

    sign: LineSign
    old: int | None
    new: int | None
    pieces: tuple[LinePiece, ...]
    note: str = ""
    readers: LineReaders | None = None

    @property
    def mark(self) -> str:
        return {LineSign.ADD: "+", LineSign.DEL: "−", LineSign.SAME: ""}[self.sign]

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)


class RowPair(NamedTuple):
    """A row of the split view; None where a side has no line."""

    left: DiffRow | None
    right: DiffRow | None


@dataclass(frozen=True, slots=True)
class DiffBlock:
    """Consecutive rows. A folded block holds only unchanged lines, further than the context from any change."""

    heading: str
    rows: tuple[DiffRow, ...]
    is_folded: bool = False
    is_frontmatter: bool = False

    @property
    def pairs(self) -> list[RowPair]:
        return list(_pair_rows(self.rows))


@dataclass(frozen=True, slots=True)
class FileDiff:
    """One file between two states. status: A added, M modified, D deleted, R renamed, "" unchanged.

    `note` says why there are no blocks (binary, too big, equal) or what else changed (the name, the mode, line ends).
    """

    path: str
    status: str
    added: int
    removed: int
    blocks: tuple[DiffBlock, ...] = ()
    note: str = ""
    is_collapsed: bool = False


class _Line(NamedTuple):
    text: str
    pieces: tuple[LinePiece, ...]
    note: str = ""


def diff_file(
    path: str, old: bytes | None, new: bytes | None, *, mode_note: str = "", renamed_from: str = ""
) -> FileDiff:
    """Compare one file in two states; None means that it does not exist there.
    Never raises for what the contents are."""
    status = "A" if old is None else "D" if new is None else "M" if old != new or mode_note else ""
    status = "R" if renamed_from else status
    before, after = old or b"", new or b""
    renamed = f"Renamed from {visible(renamed_from)}{', with the same content' * (old == new)}." if renamed_from else ""
    if note := _explain_not_compared(before, after):
        return FileDiff(path, status, 0, 0, note=_join_notes(renamed, note, mode_note))
    rows = _compare_files(before, after, path)
    added = sum(row.sign is LineSign.ADD for row in rows)
    removed = sum(row.sign is LineSign.DEL for row in rows)
    ends = _explain_ends(before, after, rows) if status in ("M", "R") else ""
    return FileDiff(
        path,
        status,
        added,
        removed,
        blocks=tuple(_split_blocks(rows, path)),
        note=_join_notes(renamed, ends, "" if rows else "The file is empty.", mode_note),
        is_collapsed=added + removed > COLLAPSE_CHANGES,
    )


def _explain_ends(before: bytes, after: bytes, rows: Sequence[DiffRow]) -> str:
    """Say how the line ends of otherwise equal lines changed: rows and counts do not show it."""
    old, new = before.split(b"\n"), after.split(b"\n")
    kept = [(old[row.old - 1], new[row.new - 1]) for row in rows if row.old and row.new]
    to_lf = sum(ours.endswith(b"\r") and not theirs.endswith(b"\r") for ours, theirs in kept)
    to_crlf = sum(theirs.endswith(b"\r") and not ours.endswith(b"\r") for ours, theirs in kept)
    counts = (("CRLF became LF", to_lf), ("LF became CRLF", to_crlf))
    changed = ", ".join(f"{words} in {count:,} line{'s' * (count != 1)}" for words, count in counts if count)
    if before and after and before.endswith(b"\n") != after.endswith(b"\n"):
        last = "ends with a newline now" if after.endswith(b"\n") else "no longer ends with a newline"
        changed = f"{changed}; the file {last}" if changed else f"the file {last}"
    if not changed:
        return ""
    is_all = all(row.sign is LineSign.SAME for row in rows)
    return f"Only line ends changed: {changed}." if is_all else f"Line ends changed: {changed}."


def draw_source_rows(path: str, content: bytes) -> tuple[DiffRow, ...]:
    """Return a whole file as unchanged rows, for the source view; none for binary or too big files."""
    if _explain_not_compared(b"", content):
        return ()
    return tuple(
        DiffRow(LineSign.SAME, None, number, line.pieces, line.note)
        for number, line in enumerate(_draw_lines(content, path), 1)
    )


def explain_no_rows(content: bytes) -> str:
    """Say why `draw_source_rows` returned nothing for a file that is not binary."""
    return "Too big to show here." if content else "The file is empty."


def _explain_not_compared(old: bytes, new: bytes) -> str:
    sizes = f"{len(old):,} bytes before, {len(new):,} bytes after"
    if is_binary(old) or is_binary(new):
        return f"Binary file, not shown: {sizes}."
    lines = old.count(b"\n") + new.count(b"\n")
    if max(len(old), len(new)) > MAX_BYTES or lines > MAX_LINES:
        return f"Too big to compare here: {sizes}, {lines:,} lines together (at most {MAX_LINES:,} lines and 1 MiB)."
    return ""


def _join_notes(*notes: str) -> str:
    return " ".join(note for note in notes if note)


# --- lines ------------------------------------------------------------------------------------------------------


def _draw_lines(content: bytes, path: str) -> list[_Line]:
    text = content.decode()
    if not text:
        return []
    ends_well = text.endswith("\n")
    raw = text[:-1].split("\n") if ends_well else text.split("\n")
    shown = [visible(line if len(line) <= LINE_CHARS else line[:LINE_HEAD]) for line in raw]
    colours = highlight("\n".join(shown), path) or [(("", line),) for line in shown]
    lines = [
        _Line(line, tuple(LinePiece(text, kind) for kind, text in (*colour, *_fold_rest(line))))
        for line, colour in zip(raw, colours, strict=True)
    ]
    if not ends_well:
        lines[-1] = lines[-1]._replace(note=NO_NEWLINE)
    return lines


def _fold_rest(line: str) -> Line:
    """Return what follows the beginning of a long line: its middle, which opens on demand as far as a page holds it,
    and its end."""
    if len(line) <= LINE_CHARS:
        return ()
    middle = line[LINE_HEAD:-LINE_TAIL]
    kept = middle[: MAX_SHOWN_CHARS - LINE_HEAD - LINE_TAIL]
    left = len(middle) - len(kept)
    mark = f" [... {left:,} characters more are in the whole file ...] " if left else ""
    return (FOLDED, visible(kept) + mark), ("", visible(line[-LINE_TAIL:]))


def _compare_files(before: bytes, after: bytes, path: str) -> list[DiffRow]:
    codes = compare_lines(split_endless_lines(before), split_endless_lines(after))
    new = _draw_lines(after, path)
    is_only_more = all(tag in ("equal", "insert") for tag, *_ in codes)
    old = [] if is_only_more else _draw_lines(before, path)  # of the old side only what went is drawn
    rows: list[DiffRow] = []
    work_left = MAX_WORD_WORK
    for tag, old_start, old_end, new_start, new_end in codes:
        if tag == "equal":
            for index, line in enumerate(new[new_start:new_end], start=1):
                rows.append(DiffRow(LineSign.SAME, old_start + index, new_start + index, line.pieces, line.note))
            continue
        gone, come = old[old_start:old_end], new[new_start:new_end]
        work = _count_word_work(gone, come)
        if len(gone) == len(come) and work <= work_left:
            work_left -= work
            pairs = [_mark_words(before, after) for before, after in zip(gone, come, strict=True)]
            gone, come = [before for before, _ in pairs], [after for _, after in pairs]
        for index, line in enumerate(gone, start=old_start + 1):
            rows.append(DiffRow(LineSign.DEL, index, None, line.pieces, line.note))
        for index, line in enumerate(come, start=new_start + 1):
            rows.append(DiffRow(LineSign.ADD, None, index, line.pieces, line.note))
    return rows


# --- words ------------------------------------------------------------------------------------------------------


def _count_word_work(gone: Sequence[_Line], come: Sequence[_Line]) -> int:
    """Return how many pairs of words a comparison may look at. Lines too long for marks cost nothing."""
    return sum(
        len(_WORDS.findall(before.text)) * len(_WORDS.findall(after.text))
        for before, after in zip(gone, come, strict=False)
        if max(len(before.text), len(after.text)) <= MAX_WORD_CHARS
    )


def _mark_words(before: _Line, after: _Line) -> tuple[_Line, _Line]:
    """Return both lines with their changed words marked."""
    old, new = ("".join(piece.text for piece in line.pieces) for line in (before, after))
    old_marks, new_marks = _compare_words(old, new)
    return _mark_spans(before, old_marks), _mark_spans(after, new_marks)


_Spans = list[tuple[int, int]]


def _compare_words(old: str, new: str) -> tuple[_Spans, _Spans]:
    """Return the character spans of changed words on both sides; none if the lines are long or too different."""
    if len(old) > MAX_WORD_CHARS or len(new) > MAX_WORD_CHARS:
        return [], []
    old_words, new_words = _WORDS.findall(old), _WORDS.findall(new)
    matcher = SequenceMatcher(None, old_words, new_words)
    if matcher.quick_ratio() < MIN_WORD_RATIO or matcher.ratio() < MIN_WORD_RATIO:
        return [], []
    old_spans: _Spans = []
    new_spans: _Spans = []
    old_at, new_at = ([0, *accumulate(map(len, words))] for words in (old_words, new_words))
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag != "equal":
            old_spans += [(old_at[i1], old_at[i2])] if i2 > i1 else []
            new_spans += [(new_at[j1], new_at[j2])] if j2 > j1 else []
    return _join_spans(old_spans, old), _join_spans(new_spans, new)


def _join_spans(spans: _Spans, text: str) -> _Spans:
    """Join neighbouring spans that only a space separates."""
    joined: _Spans = []
    for start, end in spans:
        if joined and not text[joined[-1][1] : start].strip():
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined


def _mark_spans(line: _Line, spans: _Spans) -> _Line:
    """Return the line with its coloured pieces cut at the borders of the marks."""
    borders = {border for span in spans for border in span}
    pieces, at = [], 0
    for piece in line.pieces:
        stop = at + len(piece.text)
        cuts = sorted({at, stop, *(border for border in borders if at < border < stop)})
        for start, end in pairwise(cuts):
            is_marked = any(first <= start and end <= last for first, last in spans)
            pieces.append(LinePiece(piece.text[start - at : end - at], piece.kind, is_marked))
        at = stop
    return line._replace(pieces=tuple(pieces))


# --- blocks -----------------------------------------------------------------------------------------------------


def _split_blocks(rows: list[DiffRow], path: str) -> Iterator[DiffBlock]:
    """Split rows into frontmatter, changed parts with their context, and folded unchanged parts between them."""
    front = _find_frontmatter_end(rows) if path.endswith("SKILL.md") else 0
    if front:
        is_changed = any(row.sign is not LineSign.SAME for row in rows[:front])
        yield DiffBlock("", tuple(rows[:front]), is_folded=not is_changed, is_frontmatter=True)
    headings = _find_headings(rows, path)
    near = _find_near_changes(rows)
    start, last = front, ""
    for index in range(front + 1, len(rows) + 1):
        if index == len(rows) or near[index] != near[start]:
            # A fold is labelled with the part that it leads to; that part needs no label again.
            heading = headings[start] if near[start] else headings[index - 1]
            yield DiffBlock("" if heading == last else heading, tuple(rows[start:index]), is_folded=not near[start])
            start, last = index, heading


def _find_frontmatter_end(rows: list[DiffRow]) -> int:
    """Return how many rows, deletions among them, belong to the frontmatter of either side; 0 without one. Each
    side's frontmatter runs from a first line `---` to the next such line."""
    ends = []
    for is_other in (LineSign.ADD, LineSign.DEL):
        side = [(index, row.text.rstrip()) for index, row in enumerate(rows) if row.sign is not is_other]
        if side and side[0][1] == "---":
            ends.append(next((index for index, text in side[1:] if text == "---"), -1) + 1)
    return max(ends, default=0)


def _find_near_changes(rows: list[DiffRow]) -> list[bool]:
    """Return, for each row, whether it is a change or within the context of one."""
    near = [False] * len(rows)
    for index, row in enumerate(rows):
        if row.sign is not LineSign.SAME:
            first, last = max(0, index - CONTEXT_LINES), min(len(rows), index + CONTEXT_LINES + 1)
            near[first:last] = [True] * (last - first)
    return near


def _find_headings(rows: list[DiffRow], path: str) -> list[str]:
    """Return, for each row, the Markdown heading or definition it belongs to, itself included."""
    pattern = _HEADING if path.endswith((".md", ".markdown")) else _DEFINITION
    found, current, is_fenced = [], "", False
    for row in rows:
        text = row.text
        if pattern is _HEADING and text.lstrip().startswith(("```", "~~~")):
            is_fenced = not is_fenced
        elif not is_fenced and row.sign is not LineSign.DEL and (match := pattern.match(text)):
            current = (match[1] if pattern is _HEADING else match[0]).strip()
        found.append(current)
    return found


def _pair_rows(rows: Sequence[DiffRow]) -> Iterator[RowPair]:
    """Return rows for the split view: unchanged lines on both sides, runs of deletions next to the additions after
    them."""
    gone: list[DiffRow] = []
    come: list[DiffRow] = []
    for row in rows:
        if row.sign is LineSign.DEL and not come:
            gone.append(row)
        elif row.sign is LineSign.ADD:
            come.append(row)
        else:
            yield from (RowPair(left, right) for left, right in zip_longest(gone, come))
            gone, come = [], []
            if row.sign is LineSign.DEL:
                gone.append(row)
            else:
                yield RowPair(row, row)
    yield from (RowPair(left, right) for left, right in zip_longest(gone, come))
