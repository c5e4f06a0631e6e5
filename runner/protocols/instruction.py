"""What the agent is told: the task's own text, and below it what the condition adds.

No condition changes the task's text, and nothing here names a skill: which names and descriptions an agent sees is its
harness's doing, and choosing one is part of what is measured. A library condition always adds its section, even while the library is empty, so that two library
conditions differ in what the library holds and in nothing else. Without earlier trials raw-trajectory adds
nothing: its first trial of a family is the treatment of no-skill.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from runner.authoring.author_prompts import fence_text, keep_ends
from runner.base.types import Task, TrialSlot
from runner.trajectories.compaction import VERDICT_NOT_SHOWN

INSTRUCTION_VERSION = "instruction/2"
MAX_TRACES_CHARS = 256_000  # eight compactions of 8,000 tokens; over it the oldest lose their beginnings

_LIBRARY = """\
## Skill library

Earlier work may have left skills in `{skills}`. Each folder there is one skill: a `SKILL.md` that starts with its name and a
description of when it applies, and sometimes further files that it refers to.
Before you start, look through the skills and read the `SKILL.md` of every one that could fit this task. Use what fits and
ignore the rest. Where a skill and the task's text disagree, follow the task. The folder may be empty.
"""
_GROWING = "Your copy of it is private: changes you make there are discarded."
_FROZEN = "The library is frozen: you can read it, and changes you make there are discarded."

_TRACES = """\
## Earlier trials of this family

Below are shortened records of earlier attempts at related tasks, oldest first, each with its verdict. Their files and values
belong to those tasks, not to yours: reuse what was learned, not the numbers.
"""


@dataclass(frozen=True, slots=True)
class Trace:
    """A compaction of an earlier trial, as shown to the agent. A hidden verdict is not even mentioned."""

    slot: TrialSlot
    success: bool | None
    reward: float | None
    text: str
    told: bool = True


def build_instruction(
    task: Task, *, library: bool, frozen: bool, traces: Sequence[Trace] = (), skills: str = "../skills"
) -> str:
    """`skills` is where a command finds the library, from the working directory or absolute."""
    parts = [task.instruction]
    if library:
        parts.append(_LIBRARY.format(skills=skills) + (_FROZEN if frozen else _GROWING))
    if traces:
        kept = keep_ends([trace.text for trace in traces], MAX_TRACES_CHARS)
        shown = (replace(trace, text=text) for trace, text in zip(traces, kept, strict=True))
        parts.append("\n\n".join([_TRACES.rstrip(), *map(_render, shown)]))
    return task.instruction if len(parts) == 1 else "\n\n".join(part.rstrip() for part in parts) + "\n"


def _render(trace: Trace) -> str:
    outcome = {True: "passed", False: "failed", None: "no verdict"}[trace.success] if trace.told else VERDICT_NOT_SHOWN
    reward = "" if trace.reward is None or not trace.told else f", reward {trace.reward:.2f}"
    return f"### Trial {trace.slot} ({outcome}{reward})\n\n{fence_text(trace.text)}"
