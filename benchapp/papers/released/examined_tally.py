"""Findings in the libraries of one method, counted, and how much of them is in the human skills of their tasks.

The release's own contamination: generated skills that copy the reference, and paths such as /root/.claude/skills/<human
skill>/... that an author can only have seen inside the container (github.com/cxcscmu/SkillLearnBench).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from benchapp.analysis.diagnoses.diagnosis import Diagnosis, diagnose
from benchapp.analysis.diagnoses.hits import LocatedHit, Sources, Spoken
from benchapp.analysis.diagnoses.library_contract_rules import CONTRACT
from benchapp.papers.released.release import Release, ReleasedLibrary
from runner.authoring.contract.skill_file import SKILL_FILE
from runner.authoring.pattern import PATTERNS, has_code
from runner.authoring.word_overlap import leaks, overlap

LINT = frozenset(rule.id for rule in CONTRACT)


COPIED = 0.5  # more than this share of its runs of eight words


@dataclass(frozen=True, slots=True)
class Meter:
    """One SKILL.md. `share`: the part of its runs of eight words that is in a human skill of the task; None without.

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
    """Measure each skill, without words of the task's instruction where that is known."""
    texts, sources = library.texts(), list(human.texts().values())
    known = [library.instruction] if library.instruction else []
    names = {path.partition("/")[0] for path in human.files}
    for skill in library.skills:
        text = texts.get(f"{skill}/{SKILL_FILE}", "")
        found = overlap(text, sources, ignoring=known)
        cites = tuple(dict.fromkeys(match.group() for match in _compile_places(names).finditer(text)))
        yield Meter(f"{library.name}/{skill}", found.share, found.longest, leaks(found), cites)


def _compile_places(names: set[str]) -> re.Pattern[str]:
    """Match an absolute path with a folder of skills and, in it, one of these."""
    either = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    return re.compile(rf"(?<![\w.~/-])~?/(?:[\w.-]{{1,80}}/){{0,8}}skills?/(?:{either})(?![\w-])")


@dataclass(frozen=True, slots=True)
class Examined:
    """A library, the rules' findings, and meters that compare its skills with human ones (none without those)."""

    library: ReleasedLibrary
    diagnosis: Diagnosis
    meters: tuple[Meter, ...]


def examine(library: ReleasedLibrary, release: Release) -> Examined:
    """Examine a library. Rules that need a trial (constants, verifiers, hidden checks) find nothing: there is none."""
    human = None if library.is_human else release.human(library.task)
    references = [Spoken(text, f"the human skill's {path}") for path, text in human.texts().items()] if human else []
    public = (library.instruction,) if library.instruction else ()
    sources = Sources(omitted=library.omitted, public_texts=public, references=tuple(references))
    return Examined(library, diagnose(library.files, sources), tuple(measure_leaks(library, human)) if human else ())


@dataclass
class Tally:
    """The libraries of one method, or of one model's part of it, with what was found in them added up."""

    name: str
    examined: list[Examined]

    @property
    def libraries(self) -> int:
        return len(self.examined)

    @cached_property
    def models(self) -> frozenset[str]:
        return frozenset(each.library.model for each in self.examined) - {""}

    @cached_property
    def tasks(self) -> frozenset[str]:
        return frozenset(each.library.task for each in self.examined)

    @cached_property
    def skills(self) -> int:
        return sum(len(each.diagnosis.skills) for each in self.examined)

    @cached_property
    def patterns(self) -> dict[str, int]:
        found = Counter(facts.pattern for each in self.examined for facts in each.diagnosis.skills)
        return {pattern: found[pattern] for pattern in PATTERNS}

    @cached_property
    def found(self) -> list[tuple[str, LocatedHit]]:
        """Return (library's name, finding)."""
        return [(each.library.name, found) for each in self.examined for found in each.diagnosis.found]

    @cached_property
    def left_out(self) -> int:
        """Return the number of findings beyond those that are kept of one rule in one library."""
        return sum(sum(each.diagnosis.left_out.values()) for each in self.examined)

    @cached_property
    def meters(self) -> list[Meter]:
        return [meter for each in self.examined for meter in each.meters]

    def places(self, found: Iterable[tuple[str, LocatedHit]]) -> int:
        """Count the skills that have these findings."""
        return len({(name, each.hit.path.partition("/")[0]) for name, each in found})

    def count_code_elsewhere(self) -> int:
        """Count skills of pattern B with their code outside scripts/."""
        return sum(
            not any(path.startswith("scripts/") for path in _list_code(each.library, facts.skill))
            for each in self.examined
            for facts in each.diagnosis.skills
            if facts.pattern == "B"
        )

    def count_copied_with_code(self) -> int:
        """Count skills of pattern B that are copies of a human skill."""
        copied = {meter.path for meter in self.meters if meter.is_copied}
        return sum(
            facts.pattern == "B" and f"{each.library.name}/{facts.skill}" in copied
            for each in self.examined
            for facts in each.diagnosis.skills
        )


def _list_code(library: ReleasedLibrary, skill: str) -> list[str]:
    prefix = f"{skill}/"
    paths = (
        path.removeprefix(prefix).lower() for path in (*library.files, *library.omitted) if path.startswith(prefix)
    )
    return [path for path in paths if has_code(path)]
