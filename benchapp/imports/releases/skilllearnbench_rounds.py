"""The rounds that SkillLearnBench's runner needed to learn a library, as decisions with a snapshot each.

artifacts/skills/run<N>_<name>/     what round N wrote; earlier rounds stay. Without a prefix: the only round
teacher/round<N>_feedback.txt       what the teacher said after round N failed
teacher/b3_history.json             [{round, outcome, skills}] of failed rounds

The teacher's prompt holds the human skill and is not read. One trial spans all rounds of a library.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchapp.imports.reading.documents import read_json
from benchapp.imports.reading.found_sources import DecisionMoment, FreezeMoment, Moment, TrialMoment
from benchapp.imports.reading.walking import Root
from benchapp.imports.releases.skilllearnbench_release import read_library
from runner.base.text import clean
from runner.base.types import AuthorMode, DecisionStatus, File, Files
from runner.protocols.skilllearnbench import CONDITIONS

MAX_ROUNDS = 100
MAX_FEEDBACK_BYTES = 64 * 1024
_ROUND = re.compile(r"run(\d{1,3})_.")


@dataclass(frozen=True, slots=True)
class Round:
    number: int
    files: Files
    feedback: str = ""  # of the teacher, after the round before it
    outcome: str = ""  # of the round before it


def read_rounds(root: Root, trial: Path) -> list[Round]:
    """Return the rounds of one generation, the earliest first, with what led to each; empty if no skills were kept."""
    outcomes = _outcomes(root, trial / "teacher" / "b3_history.json")
    return [
        Round(number, files, _feedback(root, trial, number - 1), outcomes.get(number - 1, ""))
        for number, files in read_libraries(root, trial)
    ]


def read_libraries(root: Root, trial: Path) -> list[tuple[int, Files]]:
    """Return (round, the library it left), the earliest first."""
    skills = trial / "artifacts" / "skills"
    if not root.is_dir(skills) or skills.parent.is_symlink():
        return []
    groups: dict[int, dict[str, File]] = {}
    for path, file in read_library(root, skills).items():
        match = _ROUND.match(path)
        groups.setdefault(int(match[1]) if match else 0, {})[path] = file
    always = groups.pop(0, {})
    if not groups:
        return [(1, always)] if always else []
    return [(number, {**always, **groups[number]}) for number in sorted(groups)[:MAX_ROUNDS]]


def iterate_moments(
    rounds: list[Round], *, method: str, family: str, learned: str, before: list[str], after: list[str]
) -> Iterator[Moment]:
    """Yield the moments from the empty library to the seal and what followed. `learned`: the trial that made it.
    `before`: other generations of the task, which left nothing. `after`: its evaluations. All by their first id."""
    yield from map(TrialMoment, before)
    for each in rounds:
        yield DecisionMoment(
            family=family,
            mode=_mode(method, first=each is rounds[0]),
            status=DecisionStatus.APPLIED,
            after=each.files,
            summary=_summary(each),
        )
    yield TrialMoment(learned)
    yield FreezeMoment()
    for ident in after:
        yield TrialMoment(ident, given=rounds[-1].files)


def _mode(method: str, *, first: bool) -> AuthorMode:
    condition = CONDITIONS.get(method)
    start = condition.mode_at_start if condition else None
    if first:
        return start or AuthorMode.WRITE
    return AuthorMode.CORRECT if method == "teacher-feedback" else AuthorMode.REFLECT


def _summary(each: Round) -> str:
    failed = f"Round {each.number - 1} ended with {each.outcome}. " if each.outcome else ""
    said = f"The teacher said after it:\n{each.feedback}" if each.feedback else ""
    return f"{failed}{said}".strip() or f"Round {each.number} of the source."


def _feedback(root: Root, trial: Path, number: int) -> str:
    path = trial / "teacher" / f"round{number}_feedback.txt"
    if not root.is_file(path) or path.parent.is_symlink():
        return ""
    content = root.read(path, MAX_FEEDBACK_BYTES)
    return "" if content is None else clean(content.decode("utf-8", "replace")).strip()


def _outcomes(root: Root, path: Path) -> dict[int, str]:
    """Return round -> PASS or FAIL."""
    value = read_json(root, path) if root.is_file(path) else None
    if value is not None and not isinstance(value, list):
        root.report(path, "whole file", "a list of rounds", "something else; it was left out")
        return {}
    rows = [(row.get("round"), row.get("outcome")) for row in value or () if isinstance(row, dict)][:MAX_ROUNDS]
    return {number: str(end) for number, end in rows if isinstance(number, int) and end in ("PASS", "FAIL")}
