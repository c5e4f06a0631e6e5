"""How much of a generated skill stands in the human skills of its task, and whether it names their place on disk.

The release's own contamination: generated skills that are copies of the reference, and paths such as
/root/.claude/skills/<human skill>/... that an author can only have seen inside the container (github.com/cxcscmu/SkillLearnBench).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from benchapp.papers.released.release import ReleasedLibrary
from runner.authoring.contract.skill_file import SKILL_FILE
from runner.authoring.word_overlap import leaks, overlap

COPIED = 0.5  # more than this share of its runs of eight words


@dataclass(frozen=True, slots=True)
class Meter:
    """Of one SKILL.md. `share` of its runs of eight words stand in a text of the task's human skills; None: it has none.

    shares: more than chance gives (runner.authoring.word_overlap). cites: absolute paths into a human skill's folder.
    """

    path: str
    share: float | None
    longest: int
    shares: bool
    cites: tuple[str, ...]

    @property
    def is_copied(self) -> bool:
        return self.share is not None and self.share > COPIED


def measure_leaks(library: ReleasedLibrary, human: ReleasedLibrary) -> Iterator[Meter]:
    """One for each skill; words of the task's instruction are left out where it is known."""
    texts, sources = library.texts(), list(human.texts().values())
    known = [library.instruction] if library.instruction else []
    names = {path.partition("/")[0] for path in human.files}
    for skill in library.skills:
        text = texts.get(f"{skill}/{SKILL_FILE}", "")
        found = overlap(text, sources, ignoring=known)
        cites = tuple(dict.fromkeys(match.group() for match in _compile_places(names).finditer(text)))
        yield Meter(f"{library.name}/{skill}", found.share, found.longest, leaks(found), cites)


def _compile_places(names: set[str]) -> re.Pattern[str]:
    """An absolute path with a folder of skills and, in it, one of these."""
    either = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    return re.compile(rf"(?<![\w.~/-])~?/(?:[\w.-]{{1,80}}/){{0,8}}skills?/(?:{either})(?![\w-])")
