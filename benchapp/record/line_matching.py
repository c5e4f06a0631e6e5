"""Match the lines, and the files, of an earlier state with those of a later one. Pure.

Lines: the longest common subsequence, computed with whole rows of the table as bits of one integer (Crochemore et al.
2001), so that two files of a thousand lines take about a millisecond. Among several, take the one found backward from
both ends that drops, whenever that loses nothing, the new line before the old one: a repeated line keeps its author at
its first place.

Files: within one decision a removed and an added path are one moved file when their contents are equal, or else alike
enough. Pairs are taken best first, each path once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

ALIKE = 0.5  # bytes in common lines over the bytes of the longer file; git's default for renames
MAX_CELLS = (
    100_000_000  # old lines x new lines of one comparison: 12 MB of bits; beyond it the rest counts as rewritten
)
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
