"""Long texts folded inside: first and last lines and lines with an error stay, the rest opens on demand.

Pure: text in, parts out. Together the parts are the whole text, so nothing is dropped and every offset stays right.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple

from benchapp.record.visible import visible

WHOLE_LINES, WHOLE_CHARS = 24, 4_000  # a text of no more is shown whole
DECIDING_LINES = 80  # of what decided a check: the cause may be anywhere in it
LINES = 8, 5  # the first and the last
ERROR_LINES = 3, 12  # of an error: what went wrong is at the end
ERRORS_SHOWN = 4  # lines inside the fold, the first and the last of them
LEAST_LINES, LEAST_CHARS = 12, 800  # folding less does not help
LINE_CHARS, LINE_HEAD, LINE_TAIL = 1_200, 700, 300  # a longer line is folded in its middle
AROUND = 2  # lines on either side of a value that a check names

BLANK_RUN = r"(?:[ \t\r]*\n){3,}"  # lines; a terminal's empty screen has dozens
_ROW = re.compile(rf"{BLANK_RUN}|[^\n]*\n|[^\n]+")
_ERROR = re.compile(
    r"Traceback \(|(?:[Ee]rror|ERROR|Exception|[Ff]atal|FATAL|panic)(?:\[\w+\])?:|\bFAILED\b|[Cc]ommand not found"
    r"|No such file|[Pp]ermission denied"
)
# A part of every error. To look for these takes a hundredth of the time, and most texts have none.
_ERROR_PARTS = (
    *("Traceback", "rror", "RROR", "xception", "atal", "ATAL", "panic", "FAILED"),
    *("ommand not found", "No such file", "ermission denied"),
)


@dataclass(frozen=True, slots=True)
class FoldedPart:
    """A stretch of a field, from `start` to `end` in characters of its canonical text. `lines`: of a fold the first and
    the last line and how many the text has, None inside one line. `raw` is empty where the text is not at hand."""

    start: int
    end: int
    raw: str
    is_fold: bool = False
    lines: tuple[int, int, int] | None = None

    @property
    def text(self) -> str:
        return visible(self.raw)

    @property
    def words(self) -> str:
        """Say what opening the fold shows."""
        characters = self.end - self.start
        if self.lines is None:
            return f"Show {characters:,} more characters"
        first, last, total = self.lines
        return f"Show {last - first + 1:,} more lines ({first:,}–{last:,} of {total:,}, {characters:,} characters)"


class _Row(NamedTuple):
    """A line, or a run of blank ones, which takes one line on the page."""

    start: int
    end: int
    first: int  # line number from 1
    lines: int

    @property
    def last(self) -> int:
        return self.first + self.lines - 1

    @property
    def size(self) -> int:
        return self.end - self.start if self.lines == 1 else 0


def fold(
    text: str,
    *,
    length: int,
    offset: int = 0,
    is_result: bool = False,
    is_error: bool = False,
    places: Sequence[int] = (),
    tail: str = "",
    whole: int = WHOLE_LINES,
) -> tuple[FoldedPart, ...]:
    """Split a field into parts from `offset` on. `text` may end before `length`: of huge fields only a beginning is
    loaded, and their end as `tail`. Only results are searched for error lines: prompts and skills mention errors
    without having any. `places`: characters of `text` that stay visible, with the lines around them. `whole`: lines
    of a text that is not folded."""
    rows = list(_split_rows(text))
    missing = length - offset - len(text)
    if missing <= 0 and len(rows) <= whole and sum(row.size for row in rows) <= WHOLE_CHARS:
        return (FoldedPart(offset, length, text),) if text else ()
    starts = [row.start for row in rows]
    near = {bisect_right(starts, place) - 1 + step for place in places for step in range(-AROUND, AROUND + 1)}
    if missing > 0:
        return _fold_cut(rows, text, tail, offset, length, max([*near, (ERROR_LINES if is_error else LINES)[0] - 1]))
    errors = _find_errors(text, rows) if is_result else []
    shown = _choose_shown(rows, ERROR_LINES if is_error else LINES, errors, near)
    return _shift(_build_parts(text, rows, shown), offset)


def _fold_cut(
    rows: Sequence[_Row], text: str, tail: str, offset: int, length: int, last: int
) -> tuple[FoldedPart, ...]:
    """Return the beginning and end of a text that is not loaded whole, with one fold between them.
    `last`: of the rows shown first."""
    head = rows[: last + 1]
    ending = list(_split_rows(tail))[1:][-ERROR_LINES[1] :]  # its first line is but the end of one
    at = head[-1].end if head else 0
    start = ending[0].start if ending else len(tail)
    return (
        *_shift(_cut_lines(text, head) if head else (), offset),
        FoldedPart(offset + at, length - len(tail) + start, "", is_fold=True),
        *_shift(_cut_lines(tail, ending) if ending else (), length - len(tail)),
    )


def _shift(parts: Iterable[FoldedPart], by: int) -> tuple[FoldedPart, ...]:
    return tuple(replace(part, start=part.start + by, end=part.end + by) for part in parts)


def _split_rows(text: str) -> Iterator[_Row]:
    line = 1
    for match in _ROW.finditer(text):
        count = text.count("\n", match.start(), match.end()) or 1
        yield _Row(match.start(), match.end(), line, count)
        line += count


def _find_errors(text: str, rows: Sequence[_Row]) -> list[int]:
    if not any(part in text for part in _ERROR_PARTS):
        return []
    starts = [row.start for row in rows]
    return sorted({bisect_right(starts, match.start()) - 1 for match in _ERROR.finditer(text)})


def _choose_shown(
    rows: Sequence[_Row], ends: tuple[int, int], errors: Sequence[int], near: Set[int] = frozenset()
) -> list[bool]:
    """Choose the rows that stay: the first, the last, some with errors, those in `near`, and small gaps between
    them."""
    head, tail = ends[0], len(rows) - ends[1]
    inside = [index for index in errors if head <= index < tail]
    named = {*inside[: ERRORS_SHOWN // 2], *inside[-ERRORS_SHOWN // 2 :], *near}
    shown = [index < head or index >= tail or index in named for index in range(len(rows))]
    for is_shown, group in groupby(range(len(rows)), key=shown.copy().__getitem__):
        indexes = list(group)
        if not is_shown and len(indexes) < LEAST_LINES and sum(rows[index].size for index in indexes) < LEAST_CHARS:
            shown[indexes[0] : indexes[-1] + 1] = [True] * len(indexes)
    return shown


def _build_parts(text: str, rows: Sequence[_Row], shown: Sequence[bool]) -> Iterator[FoldedPart]:
    for is_shown, group in groupby(zip(rows, shown, strict=True), key=lambda each: each[1]):
        found = [row for row, _ in group]
        start, end = found[0].start, found[-1].end
        if is_shown:
            yield from _cut_lines(text, found)
        else:
            lines = (found[0].first, found[-1].last, rows[-1].last)
            yield FoldedPart(start, end, text[start:end], is_fold=True, lines=lines)


def _cut_lines(text: str, rows: Sequence[_Row]) -> Iterator[FoldedPart]:
    """Return neighbouring rows as one part, broken where a long line is folded in its middle."""
    at = rows[0].start
    for row in rows:
        if row.size > LINE_CHARS:
            start, end = row.start + LINE_HEAD, row.end - LINE_TAIL
            yield FoldedPart(at, start, text[at:start])
            yield FoldedPart(start, end, text[start:end], is_fold=True)
            at = end
    yield FoldedPart(at, rows[-1].end, text[at : rows[-1].end])
