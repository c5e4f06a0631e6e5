"""How much a library changed, in files and lines, for the rows of decisions."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from difflib import SequenceMatcher

from runner.types import File, Files


@dataclass(frozen=True, slots=True)
class Change:
    lines_added: int = 0
    lines_removed: int = 0
    files_changed: int = 0  # added, removed, changed in content or mode

    def fields(self) -> dict[str, int]:
        return asdict(self)


def measure_change(before: Files, after: Files) -> Change:
    """Counts what `after` has that `before` had not, file by file. A file that is no UTF-8 text counts no lines."""
    added = removed = changed = 0
    for path in sorted(before.keys() | after.keys()):
        old, new = before.get(path), after.get(path)
        if old == new:
            continue
        changed += 1
        plus, minus = _lines(_text(old), _text(new))
        added, removed = added + plus, removed + minus
    return Change(added, removed, changed)


def _lines(old: list[str], new: list[str]) -> tuple[int, int]:
    added = removed = 0
    for tag, old_start, old_end, new_start, new_end in SequenceMatcher(None, old, new).get_opcodes():
        if tag != "equal":
            added, removed = added + new_end - new_start, removed + old_end - old_start
    return added, removed


def _text(file: File | None) -> list[str]:
    if file is None:
        return []
    try:
        return file.content.decode().splitlines()
    except UnicodeDecodeError:
        return []
