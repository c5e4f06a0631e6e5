"""A draft: a brief, files that grow with each step, and the answers so far. Everything else follows from these.

The files of a draft:

    corpus/...                     documents that it is made from; given
    notes/units.json               knowledge units taken from them
    notes/scenarios.json           material for tasks, made from these
    notes/gaps.json                what a reference skill leaves out, and the tasks that show it
    workflow.json                  the workflow that all tasks of the family share; given or drafted
    tasks/<key>/...                a task in Harbor format
    skills/<name>/SKILL.md         the family's reference skill

People may change any of them between two steps. A loop reads the current files and never relies on what it wrote.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from runner.base.types import Files, ModelRequest


class Loop(StrEnum):
    """The papers' ways of making tasks that a draft can follow."""

    EXPANSION = (
        "expansion"  # SkillFlow, figure 2: an architect drafts tasks over one workflow, a critic takes or returns them
    )
    CORPUS = "corpus"  # SkillGenBench, stages 1 to 3: corpus, knowledge units, scenarios, tasks with tests
    INSTANCES = "instances"  # SkillLearnBench: further instances of a task by augmentation
    REFERENCE = "reference"  # SkillEvolBench: a reference skill that leaves declared gaps


@dataclass(frozen=True, slots=True)
class DraftBrief:
    """What a person asks for. It never changes after the draft has begun.

    `family`: the family's slug, the prefix of its tasks' keys. `image`: the base of each task's Dockerfile; "": no
    Dockerfile. `max_revisions`: how often a task that the critic returns is asked for again (SkillFlow: 5).
    """

    loop: Loop
    family: str
    goal: str = ""
    tasks: int = 3
    max_revisions: int = 5
    image: str = ""
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Ask:
    """The next call. `key` names it within its draft, as in "architect/1/2"; an answered key is never asked again."""

    key: str
    role: str  # who is asked: architect, critic, reader, ...
    request: ModelRequest


@dataclass(frozen=True, slots=True)
class Answered:
    """An accepted answer. `accepts`: a critic's decision, else None. `words`: the part that the next role reads."""

    key: str
    accepts: bool | None = None
    words: str = ""


@dataclass(frozen=True, slots=True)
class Taken:
    """The effect of an answer on the files. `summary`: one line for people. `findings`: a line for each omission."""

    files: Files
    summary: str
    accepts: bool | None = None
    words: str = ""
    findings: tuple[str, ...] = ()


class UnusableAnswer(ValueError):
    """An answer that cannot be used. The message says where it is wrong and what was expected."""


@dataclass(frozen=True, slots=True)
class Ended:
    """Nothing is left to ask. `is_whole`: the loop reached its own end; else `reason` says why it ends here."""

    is_whole: bool
    reason: str = ""
