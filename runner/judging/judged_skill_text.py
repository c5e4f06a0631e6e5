"""Skills as a judge reads them: SKILL.md first, then the text files of the folders that a skill may have.

The choice of files follows the SkillLearnBench release, which shows a judge SKILL.md and the texts below scripts/,
references/ and assets/. Other files of a skill are named with their size.
"""

from __future__ import annotations

from collections.abc import Mapping

from runner.base.text import cut
from runner.base.types import File, Files

SHOWN_FOLDERS = ("scripts", "references", "assets")
MAX_FILE_CHARS = 60_000
MAX_SKILL_CHARS = 200_000


def skills_of(files: Files) -> dict[str, dict[str, File]]:
    """slug -> the files of each folder that has a SKILL.md, by their path in it."""
    found: dict[str, dict[str, File]] = {}
    for path in sorted(files):
        slug, _, rest = path.partition("/")
        if f"{slug}/SKILL.md" in files:
            found.setdefault(slug, {})[rest] = files[path]
    return found


def skill_text(slug: str, files: Mapping[str, File]) -> str:
    """Render one skill. The text is capped per file and as a whole, with a note where it is cut."""
    order = sorted(files, key=lambda path: (path != "SKILL.md", path))
    return cut("\n\n".join(_file_text(f"{slug}/{path}", path, files[path]) for path in order), MAX_SKILL_CHARS)


def library_text(files: Files) -> str:
    """Every skill, in order of names."""
    return "\n\n".join(skill_text(slug, found) for slug, found in skills_of(files).items())


def _file_text(name: str, path: str, file: File) -> str:
    shown = path == "SKILL.md" or path.split("/", 1)[0] in SHOWN_FOLDERS
    text = _decode(file.content) if shown else None
    if text is None:
        return f"=== {name} ({len(file.content):,} bytes, not shown) ==="
    return f"=== {name} ===\n{cut(text, MAX_FILE_CHARS)}"


def _decode(content: bytes) -> str | None:
    """Decode a text. None for any other content."""
    if b"\0" in content:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None
