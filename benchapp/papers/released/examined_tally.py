"""What was found in the libraries of one method, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from benchapp.analysis.diagnoses.diagnosis import Diagnosis, diagnose
from benchapp.analysis.diagnoses.hits import LocatedHit, Sources, Spoken
from benchapp.analysis.diagnoses.library_contract_rules import CONTRACT
from benchapp.papers.released.leak_meter import Meter, measure_leaks
from benchapp.papers.released.release import Release, ReleasedLibrary
from runner.authoring.pattern import PATTERNS, has_code

LINT = frozenset(rule.id for rule in CONTRACT)


@dataclass(frozen=True, slots=True)
class Examined:
    """A library, what the rules find in it, and its skills held against the human ones. No meters: human, or none there."""

    library: ReleasedLibrary
    diagnosis: Diagnosis
    meters: tuple[Meter, ...]


def examine(library: ReleasedLibrary, release: Release) -> Examined:
    """No trial is at hand, so the rules that need one (constants, verifiers, hidden checks) have nothing to say."""
    human = None if library.is_human else release.human(library.task)
    references = [Spoken(text, f"the human skill's {path}") for path, text in human.texts().items()] if human else []
    public = (library.instruction,) if library.instruction else ()
    sources = Sources(omitted=library.omitted, public_texts=public, references=tuple(references))
    return Examined(library, diagnose(library.files, sources), tuple(measure_leaks(library, human)) if human else ())


@dataclass
class Tally:
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
        """(library's name, finding)."""
        return [(each.library.name, found) for each in self.examined for found in each.diagnosis.found]

    @cached_property
    def left_out(self) -> int:
        """Findings beyond those that are kept of one rule in one library."""
        return sum(sum(each.diagnosis.left_out.values()) for each in self.examined)

    @cached_property
    def meters(self) -> list[Meter]:
        return [meter for each in self.examined for meter in each.meters]

    def places(self, found: Iterable[tuple[str, LocatedHit]]) -> int:
        """Skills that these findings are in."""
        return len({(name, each.hit.path.partition("/")[0]) for name, each in found})

    def code_elsewhere(self) -> int:
        """Skills of pattern B whose code lies outside a folder scripts/."""
        return sum(
            not any(path.startswith("scripts/") for path in _list_code(each.library, facts.skill))
            for each in self.examined
            for facts in each.diagnosis.skills
            if facts.pattern == "B"
        )

    def copied_with_code(self) -> int:
        """Skills of pattern B that are copies of a human skill."""
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
