"""What the agent is told: the task's own text, and below it what the condition adds.

No condition changes the task's text, and nothing here names a skill: finding and choosing one is part of what is
measured. A library condition always adds its section, even while the library is empty, so that two library
conditions differ in what the library holds and in nothing else. Without earlier trials raw-trajectory adds
nothing: its first trial of a family is the treatment of no-skill.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from runner.authoring.prompts import fenced, keep_ends
from runner.trajectories.compaction import VERDICT_NOT_SHOWN
from runner.types import Slot, Task

INSTRUCTION_VERSION = "instruction/1"
MAX_TRACES_CHARS = 256_000  # eight compactions of 8,000 tokens; over it the oldest lose their beginnings

_LIBRARY = """\
## Skill library

Earlier work may have left skills in `{skills}`. Each folder there is one skill: a `SKILL.md` that opens with its
name and a description of when it applies, sometimes with further files that it points to.
Before you start, list the folders and read the `SKILL.md` of every skill that could fit this task. Use what fits,
leave what does not, and trust the task's text where the two disagree. The folder may be empty.
"""
_GROWING = "The folder is a private copy: what you change in it is discarded."
_FROZEN = "The library is frozen: it is for reading only, and what you change in it is discarded."

_TRACES = """\
## Earlier trials of this family

Below are shortened records of earlier attempts at related tasks, oldest first, each with the verdict it was given.
Their files and values belong to those tasks, not to yours: take over what was learned, not the numbers.
"""


@dataclass(frozen=True, slots=True)
class Trace:
    """A compaction of an earlier trial, as shown to the agent. Of a verdict that is not told nothing is said at all."""

    slot: Slot
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
    return f"### Trial {trace.slot} ({outcome}{reward})\n\n{fenced(trace.text)}"
