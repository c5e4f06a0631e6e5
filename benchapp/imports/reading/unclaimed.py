"""Files that end like a log and that no format takes: told in one line for each kind, however many there are."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from benchapp.imports.reading.walking import FolderEntry, Root
from runner.base.text import storable
from runner.trajectories.readers.reading import sniff

ARCHIVES = frozenset({".gz", ".zst", ".xz", ".bz2", ".zip", ".tar", ".tgz", ".7z"})
NAMED = 5  # files that a line names
_MEANINGS = {
    "plain-text": "in no known format",
    "chat-messages": "of messages alone, which tell neither program nor session",
    "empty": "without content",
    "git-lfs-pointer": "that are Git LFS pointers: their content was not downloaded",
    "archive": "to be unpacked first",
}


@dataclass(slots=True)
class _Kind:
    """Files that look the same and end alike. `folder`: the one that all of them lie below."""

    folder: str
    first: list[Path] = field(default_factory=list)
    count: int = 0


def report_unclaimed(root: Root, entries: Iterable[FolderEntry]) -> None:
    report_kinds(root, entries, expected="logs in a known format", where="which does not stand alone here")


def report_kinds(root: Root, entries: Iterable[FolderEntry], *, expected: str, where: str) -> None:
    """`where`: why those in a known format are not read."""
    kinds: dict[tuple[str, str], _Kind] = {}
    for entry in entries:
        suffix, folder = entry.path.suffix.lower(), str(entry.path.parent)
        kind = kinds.setdefault(("archive" if suffix in ARCHIVES else _format(root, entry), suffix), _Kind(folder))
        kind.folder = os.path.commonpath([kind.folder, folder])
        kind.count += 1
        if len(kind.first) < NAMED:
            kind.first.append(entry.path)
    for (source_format, suffix), kind in kinds.items():
        meaning = _MEANINGS.get(source_format, f"in the format {source_format}, {where}")
        names = ", ".join(storable(str(path.relative_to(kind.folder))) for path in kind.first)
        more = f" and {kind.count - len(kind.first):,} more" if kind.count > len(kind.first) else ""
        told = f"{kind.count:,} {'file' if kind.count == 1 else 'files'} {meaning}; not read: {names}{more}"
        root.report(Path(kind.folder), f"*{suffix}", expected, told)


def _format(root: Root, entry: FolderEntry) -> str:
    try:
        with root.open(entry.path) as stream:
            return sniff(stream)
    except OSError:  # reported where it was tried first
        return "plain-text"
