"""How one text became another, line by line: the runs that differ, and how much of a library they make up."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher

from runner.base.types import File, Files

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
    """Counts what `after` has that `before` had not, file by file. A file that is no UTF-8 text counts no lines."""
    added = removed = changed = 0
    for path in sorted(before.keys() | after.keys()):
        if before.get(path) == after.get(path):
            continue
        changed += 1
        for _, old_start, old_end, new_start, new_end in find_changed_runs(
            _text(before.get(path)), _text(after.get(path))
        ):
            added, removed = added + new_end - new_start, removed + old_end - old_start
    return ChangeCounts(added, removed, changed)


def compare_lines(old: Sequence[Hashable], new: Sequence[Hashable]) -> Sequence[Opcode]:
    """All runs of both sides, in order, equal ones among them (tag "equal")."""
    return SequenceMatcher(None, old, new).get_opcodes()


def find_changed_runs(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[Opcode]:
    return [code for code in compare_lines(old, new) if code[0] != "equal"]


def split_lines(content: bytes) -> list[bytes]:
    """Lines with their ends; only a line feed ends one."""
    *ended, rest = content.split(b"\n")
    return [line + b"\n" for line in ended] + ([rest] if rest else [])


def has_nul(content: bytes) -> bool:
    """Whether git would call it binary: a NUL among its first 8,000 bytes."""
    return b"\0" in content[:8_000]


def _text(file: File | None) -> list[str]:
    if file is None:
        return []
    try:
        return file.content.decode().splitlines()
    except UnicodeDecodeError:
        return []
