"""How one text became another, line by line: the runs that differ, and their share of a library."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher

from benchapp.record.line_matching import match_files, split_bare_lines
from runner.base.digests import digest_bytes
from runner.base.types import Files

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
