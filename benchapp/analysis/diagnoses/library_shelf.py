"""A library as rules read it: texts by path, skills parsed once, places turned into lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from benchapp.record.textual_change import has_nul
from runner.authoring.contract.skill_file import SKILL_FILE, SkillFile, SkillFileError, parse_skill
from runner.base.types import Files

MAX_TEXT = 400_000  # characters of one file that rules read; longer ones are cut and reported
MAX_FILES = 2_000


def read_text(content: bytes) -> str:
    """Return the text that rules read and count offsets in."""
    return content[: 4 * MAX_TEXT].decode("utf-8", "replace").replace("\r\n", "\n")[:MAX_TEXT]


@dataclass(frozen=True)
class ShelfText:
    """One file's text; a path begins with the skill's folder."""

    path: str
    text: str

    def line(self, place: int) -> int:
        """Return the line, from 1, of the character."""
        return self.text.count("\n", 0, place) + 1

    def line_span(self, line: int) -> tuple[int, int]:
        """Return the span of that line, or of the last one for a number beyond it."""
        lines = self.text.split("\n")
        start = sum(len(each) + 1 for each in lines[: min(line, len(lines)) - 1])
        end = self.text.find("\n", start)
        return start, len(self.text) if end < 0 else end

    @property
    def skill(self) -> str:
        return self.path.partition("/")[0]

    @property
    def inner(self) -> str:
        """Return the path below the skill's folder."""
        return self.path.partition("/")[2]

    @property
    def is_skill_file(self) -> bool:
        return self.inner == SKILL_FILE


@dataclass(frozen=True)
class Shelf:
    """`omitted`: files that belong to the library but were not imported with it. They cannot be read or searched."""

    files: Files
    omitted: frozenset[str] = frozenset()

    @cached_property
    def texts(self) -> Mapping[str, ShelfText]:
        """Return every text file by path."""
        found = {}
        for path, file in list(self.files.items())[:MAX_FILES]:
            if not has_nul(file.content):
                found[path] = ShelfText(path, read_text(file.content))
        return found

    @cached_property
    def skills(self) -> tuple[str, ...]:
        """Return the folders with a SKILL.md."""
        return tuple(sorted({text.skill for text in self.texts.values() if text.is_skill_file}))

    def of(self, skill: str) -> Iterator[ShelfText]:
        return (text for text in self.texts.values() if text.skill == skill)

    def head(self, skill: str) -> ShelfText:
        return self.texts[f"{skill}/{SKILL_FILE}"]

    @cached_property
    def parsed(self) -> Mapping[str, SkillFile]:
        """Return the skills whose SKILL.md parses; the others break a rule of their own."""
        found = {}
        for skill in self.skills:
            try:
                found[skill] = parse_skill(self.head(skill).text)
            except SkillFileError:
                continue
        return found
