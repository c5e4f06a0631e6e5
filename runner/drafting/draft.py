"""A draft: a brief, files that grow with each step, and the answers so far. Everything else follows from these three.

The files of a draft:

    corpus/...                     documents that it is made from; given
    notes/units.json               knowledge units taken from them
    notes/scenarios.json           what tasks may be made of these
    notes/gaps.json                what a reference skill leaves out, and the tasks that show it
    workflow.json                  the workflow that all tasks of the family share; given or drafted
    tasks/<key>/...                a task in Harbor format
    skills/<name>/SKILL.md         the family's reference skill

People may change any of them between two steps: a loop asks by what the files say now, never by what it once wrote.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from runner.base.types import Files, ModelRequest


class Loop(StrEnum):
    """Which of the papers' ways of making tasks a draft goes."""

    EXPANSION = (
        "expansion"  # SkillFlow, figure 2: an architect drafts tasks over one workflow, a critic takes or returns them
    )
    CORPUS = "corpus"  # SkillGenBench, stages 1 to 3: corpus, knowledge units, scenarios, tasks with tests
    INSTANCES = "instances"  # SkillLearnBench: further instances of a task by augmentation
    REFERENCE = "reference"  # SkillEvolBench: a reference skill that leaves declared gaps


@dataclass(frozen=True, slots=True)
class DraftBrief:
    """What a person asks for. It never changes once the draft has begun.

    `family`: slug of the family, the prefix of its tasks' keys. `image`: what each task's Dockerfile begins with; "": the tasks
    bring no Dockerfile. `max_revisions`: how often an answer that the critic returns is asked for again (SkillFlow: 5).
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
    """The next call. `key` names it within its draft, as in "architect/1/2"; a key that was answered is never asked again."""

    key: str
    role: str  # who is asked: architect, critic, reader, ...
    request: ModelRequest


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer that was taken. `accepts`: what a critic said; None for all others. `words`: what the next one is told of it."""

    key: str
    accepts: bool | None = None
    words: str = ""


@dataclass(frozen=True, slots=True)
class Taken:
    """What an answer makes of the files. `summary`: one line for people. `findings`: what was left out of it, a line each."""

    files: Files
    summary: str
    accepts: bool | None = None
    words: str = ""
    findings: tuple[str, ...] = ()


class UnusableAnswer(ValueError):
    """An answer that nothing can be made of. The message says where it is wrong and what was expected."""


@dataclass(frozen=True, slots=True)
class Ended:
    """Nothing is left to ask. `is_whole`: the loop came to its own end; else `reason` says why it ends here."""

    is_whole: bool
    reason: str = ""
