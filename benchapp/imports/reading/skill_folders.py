"""A skill's folder as a library of one skill."""

from __future__ import annotations

from pathlib import Path

from benchapp.imports.reading.walking import Root
from runner.base.text import clean
from runner.base.types import File

MAX_FILE_BYTES = 16 * 1024 * 1024
MAX_SKILL_BYTES = 256 * 1024 * 1024


def read_skill(root: Root, folder: Path, slug: str, *, skip: frozenset[str] = frozenset()) -> dict[str, File]:
    """Return the folder's files under the skill's name. Folders in `skip` are not part of the skill. Empty without a SKILL.md."""
    if not folder.is_relative_to(root.base) or not root.is_file(folder / "SKILL.md"):
        return {}
    files: dict[str, File] = {}
    total = 0
    for entry in root.tree(folder, skip=skip):
        content = root.read(entry.path, MAX_FILE_BYTES)
        if content is None:
            continue
        total += len(content)
        if total > MAX_SKILL_BYTES:
            root.report(folder, "", f"a skill of at most {MAX_SKILL_BYTES:,} bytes", "the rest is left out")
            break
        is_executable = entry.path.stat(follow_symlinks=False).st_mode & 0o100
        files[f"{slug}/{clean(entry.name)[:1000]}"] = File(content, 0o755 if is_executable else 0o644)
    return files
