"""A draft's next question, and an answer's changes to its files. Each loop is a module of its own, without state.

A draft continues from its brief, its current files and the accepted answers. So it can be left and resumed at any step,
and people may change files in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Protocol

from runner.authoring.contract.contract import slug_problem
from runner.base.errors import SetupError
from runner.base.types import Files
from runner.drafting import corpus_loop, expansion, further_instances, reference_skills
from runner.drafting.draft import Answered, Ask, DraftBrief, Ended, Loop, Taken
from runner.drafting.drafted_answers import collision_problem, path_problem
from runner.drafting.family_tasks import check_names, name_tasks, suite_files
from runner.drafting.family_tasks import list_tasks_in as tasks_in

__all__ = [
    "brief_from_plain",
    "brief_to_plain",
    "check_start",
    "name_tasks",
    "next_ask",
    "suite_files",
    "take_answer",
    "tasks_in",
]

MAX_FAMILY_CHARS = 40
MAX_GOAL_CHARS = 20_000
MAX_IMAGE_CHARS = 200
MAX_TASKS = 20
MAX_REVISIONS = 20
_WHOLE = {"tasks": (1, MAX_TASKS), "max_revisions": (0, MAX_REVISIONS), "seed": (0, 2**31 - 1)}
_TEXTS = {"family": MAX_FAMILY_CHARS, "goal": MAX_GOAL_CHARS, "image": MAX_IMAGE_CHARS}


class LoopModule(Protocol):
    """The attributes of a module in `LOOPS`. `answered`: accepted answers, by key."""

    def check(self, brief: DraftBrief, files: Files) -> None: ...

    def next_ask(self, brief: DraftBrief, files: Files, answered: Mapping[str, Answered]) -> Ask | Ended: ...

    def take_answer(self, brief: DraftBrief, files: Files, key: str, text: str) -> Taken: ...


LOOPS: Mapping[Loop, LoopModule] = {
    Loop.EXPANSION: expansion,
    Loop.CORPUS: corpus_loop,
    Loop.INSTANCES: further_instances,
    Loop.REFERENCE: reference_skills,
}


def check_start(brief: DraftBrief, files: Files) -> None:
    """Raise SetupError if these files lack something the loop needs. `name_tasks` renames given tasks to fit."""
    for path in files:
        if problem := path_problem(path):
            raise SetupError(f"{path[:100]!r}: {problem} (expected a path such as corpus/rules.md)")
    if problem := collision_problem(files):
        raise SetupError(problem)
    check_names(brief, files)
    LOOPS[brief.loop].check(brief, files)


def next_ask(brief: DraftBrief, files: Files, answered: Sequence[Answered]) -> Ask | Ended:
    """The next call, by the current files, or why there is none."""
    return LOOPS[brief.loop].next_ask(brief, files, {each.key: each for each in answered})


def take_answer(brief: DraftBrief, files: Files, key: str, text: str) -> Taken:
    """Apply the answer to the ask `key` to the files. UnusableAnswer says where it is wrong and what was expected."""
    return LOOPS[brief.loop].take_answer(brief, files, key, text)


# --- briefs -----------------------------------------------------------------------------------------------------------


def brief_to_plain(brief: DraftBrief) -> dict[str, str | int]:
    """Convert to the form in JSON and files."""
    return {each.name: getattr(brief, each.name) for each in fields(brief)} | {"loop": brief.loop.value}


def brief_from_plain(value: Mapping[str, object]) -> DraftBrief:
    """Read a brief as people write it; fields with a default may be left out. SetupError names the wrong field."""
    known = {each.name: each for each in fields(DraftBrief)}
    for name in value:
        if name not in known:
            raise SetupError(f"{str(name)[:100]}: nobody knows this field (expected {', '.join(known)})")
    given = {name: value.get(name, each.default) for name, each in known.items()}
    if missing := [name for name, found in given.items() if found is MISSING]:
        raise SetupError(f"{missing[0]}: missing (expected {_expect(missing[0])})")
    texts = {name: _read_text(name, given[name], most) for name, most in _TEXTS.items()}
    numbers = {name: _read_whole(name, given[name], *bounds) for name, bounds in _WHOLE.items()}
    return DraftBrief(
        _read_loop(given["loop"]),
        _read_family(texts["family"]),
        texts["goal"],
        numbers["tasks"],
        numbers["max_revisions"],
        _read_image(texts["image"]),
        numbers["seed"],
    )


def _expect(name: str) -> str:
    return f"one of {', '.join(Loop)}" if name == "loop" else "a name such as fee-tables"


def _read_loop(value: object) -> Loop:
    found = next((each for each in Loop if each == value), None)
    if found is None:
        raise SetupError(f"loop: {str(value)[:100]!r} (expected {_expect('loop')})")
    return found


def _read_text(name: str, value: object, most: int) -> str:
    if isinstance(value, str) and len(value) <= most and all(each.isprintable() or each in "\r\n\t" for each in value):
        return value.strip()
    raise SetupError(f"{name}: {str(value)[:100]!r} (expected a text of at most {most:,} characters)")


def _read_whole(name: str, value: object, least: int, most: int) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
        return value
    raise SetupError(f"{name}: {str(value)[:100]!r} (expected a whole number from {least:,} to {most:,})")


def _read_family(value: str) -> str:
    if problem := slug_problem(value):
        raise SetupError(f"family: {value!r}: {problem} (expected lower-case letters, digits and single hyphens)")
    return value


def _read_image(value: str) -> str:
    if any(each.isspace() for each in value):
        raise SetupError(f"image: {value!r} (expected the name of an image, such as python:3.12-slim)")
    return value
