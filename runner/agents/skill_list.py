"""Tier 1 of a skill library: the names and descriptions in an agent's context before it opens any skill.

Source: agentskills.io, as SkillEvolBench quotes it (appendix C.3): the metadata is always in the agent's context, the
body is loaded when the metadata matches. Claude Code, Codex and similar agents list the skills they find by themselves.
"""

from __future__ import annotations

from collections.abc import Mapping

from runner.authoring.contract.contract_rules import MAX_DESCRIPTION_CHARS
from runner.authoring.contract.skill_file import SKILL_FILE, SkillFileError, parse_skill
from runner.base.types import Files

MAX_LISTED_SKILLS = 200
MAX_LIST_CHARS = 24_000  # of all descriptions together; beyond it each is cut to an equal share
NO_DESCRIPTION = "(no description)"


def read_descriptions(library: Files) -> dict[str, str]:
    """Slug -> the description in its SKILL.md, "" if it is unreadable."""
    found: dict[str, str] = {}
    for path, file in library.items():
        slug, _, rest = path.partition("/")
        if rest == SKILL_FILE:
            found[slug] = _description(file.content)
    return found


def list_skills(slugs: tuple[str, ...], descriptions: Mapping[str, str]) -> str:
    """One line per skill. A name or a description with line breaks is put on one line."""
    listed = slugs[:MAX_LISTED_SKILLS]
    room = min(MAX_DESCRIPTION_CHARS, MAX_LIST_CHARS // max(len(listed), 1))
    lines = [f"- {_one_line(slug, 100)}: {_one_line(descriptions.get(slug, ''), room)}" for slug in listed]
    more = len(slugs) - len(listed)
    return "\n".join([*lines, *([f"[... {more:,} more skills, not listed here ...]"] if more > 0 else [])])


def _description(content: bytes) -> str:
    try:
        return parse_skill(content.decode("utf-8")).text("description") or ""
    except (SkillFileError, UnicodeDecodeError):
        return ""


def _one_line(text: str, room: int) -> str:
    line = "".join(each if each.isprintable() else "\ufffd" for each in " ".join(text.split()))
    if len(line) > room:
        line = f"{line[:room].rstrip()} [... {len(line) - room:,} characters left out ...]"
    return line or NO_DESCRIPTION
