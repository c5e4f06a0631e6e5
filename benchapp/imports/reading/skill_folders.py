"""Folders of skills as libraries: bounded, with the modes of their files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchapp.imports.reading.walking import FolderEntry, Root
from runner.base.text import clean
from runner.base.types import File

MAX_FILE_BYTES = 16 * 1024 * 1024
MAX_LIBRARY_BYTES = 256 * 1024 * 1024


def read_files(root: Root, folder: Path, *, skip: frozenset[str] = frozenset()) -> Iterator[tuple[FolderEntry, File]]:
    """Yield the files below a folder. What does not fit into MAX_LIBRARY_BYTES is reported and left out."""
    total = 0
    for entry in root.tree(folder, skip=skip):
        content = root.read(entry.path, MAX_FILE_BYTES)
        if content is None:
            continue
        total += len(content)
        if total > MAX_LIBRARY_BYTES:
            root.report(folder, "", f"a library of at most {MAX_LIBRARY_BYTES:,} bytes", "the rest is left out")
            return
        is_executable = entry.path.stat(follow_symlinks=False).st_mode & 0o100
        yield entry, File(content, 0o755 if is_executable else 0o644)


def read_skill(root: Root, folder: Path, slug: str, *, skip: frozenset[str] = frozenset()) -> dict[str, File]:
    """Return the folder's files under the skill's name. Folders in `skip` are not part of the skill. Empty without a SKILL.md."""
    if not folder.is_relative_to(root.base) or not root.is_file(folder / "SKILL.md"):
        return {}
    return {f"{slug}/{clean(entry.name)[:1000]}": file for entry, file in read_files(root, folder, skip=skip)}
