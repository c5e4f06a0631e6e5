"""How one text became another, line by line: the runs that differ, and their share of a library. Match the lines and
the files of an earlier state with those of a later one. Pure.

Lines: the longest common subsequence, computed with whole rows of the table as bits of one integer (Crochemore et al.
2001), so that two files of a thousand lines take about a millisecond. Among several, take the one found backward from
both ends that drops, whenever that loses nothing, the new line before the old one: a repeated line keeps its author at
its first place.

Files: within one decision a removed and an added path are one moved file when their contents are equal, or else alike
enough. Pairs are taken best first, each path once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher

from runner.base.digests import digest_bytes
from runner.base.types import Files

ALIKE = 0.5  # bytes in common lines over the bytes of the longer file; git's default for renames
# old lines x new lines of one comparison: 12 MB of bits; beyond it the rest counts as rewritten
MAX_CELLS = 100_000_000
MAX_PAIRS = 2_500  # removed x added paths of one decision; beyond it only equal contents are followed


def split_bare_lines(content: bytes) -> list[bytes]:
    """Return lines without line feeds: a last line that gains one stays the same line. Empty content has none."""
    return content.removesuffix(b"\n").split(b"\n") if content else []


def match_lines(old: Sequence[bytes], new: Sequence[bytes]) -> list[int | None]:
    """Return for each new line the place of the equal old line; None where it is new."""
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    found: list[int | None] = [*range(start), *[None] * (len(new) - start)]
    if (len(old) - start) * (len(new) - start) <= MAX_CELLS:
        for old_place, new_place in _find_common(old[start:], new[start:]):
            found[start + new_place] = start + old_place
    return found


def _find_common(old: Sequence[bytes], new: Sequence[bytes]) -> list[tuple[int, int]]:
    """Return (old place, new place) of the common lines, from the last to the first."""
    rows = _compute_rises(old, new)
    pairs = []
    row, column = len(old), len(new)
    while row and column:
        if not rows[row] >> (column - 1) & 1:
            column -= 1
        elif rows[row - 1] >> (column - 1) & 1:
            row -= 1
        else:
            row, column = row - 1, column - 1
            pairs.append((row, column))
    return pairs


def _compute_rises(old: Sequence[bytes], new: Sequence[bytes]) -> list[int]:
    """Compute row i, bit j: is the longest common subsequence of old[:i] and new[:j + 1] longer than with new[:j]?"""
    places: dict[bytes, int] = {}
    for place, line in enumerate(new):
        places[line] = places.get(line, 0) | 1 << place
    everything = (1 << len(new)) - 1
    level = everything  # a zero bit is a rise
    rows = [0]
    for line in old:
        common = level & places.get(line, 0)
        level = (level + common | level - common) & everything
        rows.append(level ^ everything)
    return rows


@dataclass(frozen=True, slots=True)
class Move:
    """`alike`: 1.0 for equal contents, else the share of common bytes."""

    old: str
    new: str
    alike: float


def match_files(before: Mapping[str, str], after: Mapping[str, str], contents: Mapping[str, bytes]) -> dict[str, Move]:
    """Return new path -> its move. `before`, `after`: path -> digest; `contents` of what `find_undecided` names."""
    gone, come = _list_exchanged(before, after)
    pairs = [
        (_measure_likeness(before[old], after[new], contents), old, new)
        for old in gone
        for new in come
        if before[old] == after[new] or len(gone) * len(come) <= MAX_PAIRS
    ]
    taken: set[tuple[str, str]] = set()
    found = {}
    for alike, old, new in sorted(pairs, key=lambda pair: (-pair[0], *_compare_names(*pair[1:]), pair[1], pair[2])):
        if alike >= ALIKE and ("old", old) not in taken and ("new", new) not in taken:
            taken |= {("old", old), ("new", new)}
            found[new] = Move(old, new, alike)
    return found


def find_undecided(before: Mapping[str, str], after: Mapping[str, str]) -> set[str]:
    """Return the digests whose contents `match_files` must read: none unless one path was removed and another added."""
    gone, come = _list_exchanged(before, after)
    if not gone or not come or len(gone) * len(come) > MAX_PAIRS:
        return set()
    return {*(before[path] for path in gone), *(after[path] for path in come)}


def _list_exchanged(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[list[str], list[str]]:
    return sorted(before.keys() - after.keys()), sorted(after.keys() - before.keys())


def _measure_likeness(old: str, new: str, contents: Mapping[str, bytes]) -> float:
    if old == new:
        return 1.0
    first, second = (contents.get(digest, b"") for digest in (old, new))
    longer = max(len(first), len(second))
    if min(len(first), len(second)) < ALIKE * longer or not longer:
        return 0.0
    return count_common_bytes(split_bare_lines(first), split_bare_lines(second)) / max(
        _count_bytes(split_bare_lines(first)), _count_bytes(split_bare_lines(second))
    )


def count_common_bytes(old: Iterable[bytes], new: Iterable[bytes]) -> int:
    """Count the bytes of the lines that both sides have, in any order; each with one byte for its end."""
    both = Counter(old) & Counter(new)
    return sum(count * (len(line) + 1) for line, count in both.items())


def _count_bytes(lines: Sequence[bytes]) -> int:
    return sum(len(line) + 1 for line in lines)


def _compare_names(old: str, new: str) -> tuple[bool, bool]:
    """Rank among equals: the same path inside another skill first, then the same file name."""
    return old.partition("/")[2] != new.partition("/")[2], old.rpartition("/")[2] != new.rpartition("/")[2]


MAX_LINES = 12_000  # both sides together; beyond this a page compares no files, and a file is one hunk

Opcode = tuple[str, int, int, int, int]  # tag, start and end on the old side, start and end on the new side


@dataclass(frozen=True, slots=True)
class ChangeCounts:
    """Counts for the row of a decision. `files_changed`: added, removed, changed in content or mode."""

    lines_added: int = 0
    lines_removed: int = 0
    files_changed: int = 0

    def fields(self) -> dict[str, int]:
        return asdict(self)


def measure_change(before: Files, after: Files) -> ChangeCounts:
    """Count what `after` adds and removes, file by file. A renamed file is one changed file."""
    old_digests, new_digests = (
        {path: digest_bytes(file.content) for path, file in side.items()} for side in (before, after)
    )
    contents = {digest_bytes(file.content): file.content for side in (before, after) for file in side.values()}
    moves = match_files(old_digests, new_digests, contents)
    renamed = {move.old for move in moves.values()}
    added = removed = changed = 0
    for path in sorted((before.keys() | after.keys()) - renamed):
        old, new = before.get(moves[path].old if path in moves else path), after.get(path)
        if old == new and path not in moves:
            continue
        changed += 1
        come, gone = count_changed_lines(old.content if old else b"", new.content if new else b"")
        added, removed = added + come, removed + gone
    return ChangeCounts(added, removed, changed)


def count_changed_lines(before: bytes, after: bytes) -> tuple[int, int]:
    """Count (added, removed) lines, for every page and row. Line ends do not count, and a binary file has no lines."""
    if is_binary(before) or is_binary(after):
        return 0, 0
    runs = find_changed_runs(split_endless_lines(before), split_endless_lines(after))
    return sum(end - start for *_, start, end in runs), sum(end - start for _, start, end, *_ in runs)


def split_endless_lines(content: bytes) -> list[bytes]:
    """Return the lines without their ends, CRLF or LF."""
    return [line.removesuffix(b"\r") for line in split_bare_lines(content)]


def compare_lines(old: Sequence[Hashable], new: Sequence[Hashable]) -> Sequence[Opcode]:
    """Return all runs of both sides in order, including equal ones (tag "equal")."""
    return SequenceMatcher(None, old, new).get_opcodes()


def find_changed_runs(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[Opcode]:
    return [code for code in compare_lines(old, new) if code[0] != "equal"]


def split_lines(content: bytes) -> list[bytes]:
    """Return lines with their ends; only a line feed ends one."""
    *ended, rest = content.split(b"\n")
    return [line + b"\n" for line in ended] + ([rest] if rest else [])


def has_nul(content: bytes) -> bool:
    """Would git call it binary? True for a NUL among its first 8,000 bytes."""
    return b"\0" in content[:8_000]


def is_binary(content: bytes) -> bool:
    """Is it not UTF-8, or binary to git?"""
    if has_nul(content):
        return True
    try:
        content.decode()
    except UnicodeDecodeError:
        return True
    return False
