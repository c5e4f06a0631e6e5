"""The rules that SkillFlow's patch prompt adds to those for every author (paper, appendix B.2)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from runner.authoring.contract.skill_file import SKILL_FILE, SkillFileError, parse_skill
from runner.authoring.proposal import BrokenRule, Proposal
from runner.base.types import AuthorMode, Files, Patch

FRONTMATTER_KEYS = frozenset({"name", "description"})
_PROCESS_NOTE = re.compile(r"(readme|changelog|installation[-_ ]?guide|quick[-_ ]?reference)", re.IGNORECASE)


def broken_evolution_rules(proposal: Proposal) -> Iterator[BrokenRule]:
    """Check only files that the patch changes, as everywhere in the contract."""
    if proposal.occasion.mode is not AuthorMode.EVOLVE:
        return
    for path, text in proposal.upserts.items():
        if not proposal.has_changed(path):
            continue
        name = path.rpartition("/")[2]
        if name == SKILL_FILE:
            yield from _frontmatter(path, text)
        elif _PROCESS_NOTE.fullmatch(name.partition(".")[0]):
            yield BrokenRule(
                "process-note", path, "tells of the library itself, expected what an agent needs for its task"
            )
        if not text.strip():
            yield BrokenRule("empty-file", path, "empty, expected content or no file")


def _frontmatter(path: str, text: str) -> Iterator[BrokenRule]:
    try:
        keys = parse_skill(text).frontmatter.keys()
    except SkillFileError:
        return  # another rule reports this
    more = sorted(keys - FRONTMATTER_KEYS)
    if more:
        names = ", ".join(repr(key[:40]) for key in more[:5])
        yield BrokenRule("frontmatter-two-keys", path, f"also has {names}, expected name and description only")


def with_folders(patch: Patch, library: Files) -> Patch:
    """As released: a deleted path that is a folder means every file below it. Other paths stay unchanged."""
    deletes: list[str] = []
    for path in patch.delete_paths:
        below = [file for file in library if path.strip("/") and file.startswith(path.rstrip("/") + "/")]
        deletes += below or [path]
    return replace(patch, delete_paths=tuple(dict.fromkeys(deletes)))
