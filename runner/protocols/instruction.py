"""The instruction of an agent: the task's own text, and below it the additions of the condition and the notice.

No condition changes the task's text, and nothing here names a skill. The harness decides which names and descriptions
an agent sees, and choosing one is part of the measurement. A notice about the library is the same for an empty library,
so that two library conditions differ only in the library's content. Without earlier trials raw-trajectory adds nothing:
its first trial of a family is the treatment of no-skill.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from runner.authoring.author_prompts import fence_text, keep_ends
from runner.base.types import Task, TrialSlot
from runner.trajectories.compaction import VERDICT_NOT_SHOWN, ShownVerdict

INSTRUCTION_VERSION = "instruction/2"
MAX_TRACES_CHARS = 256_000  # eight compactions of 8,000 tokens; beyond it the oldest lose their beginnings

# The agent's notice about its library or its earlier trials: nothing, that of SkillEvolBench's released code (in our
# words), or our own section. Records from before this was a choice have "ours".
Notice = Literal["none", "released", "ours"]

_LIBRARY = """\
## Skill library

Earlier work may have left skills in `{skills}`. Each folder there is one skill: a `SKILL.md` that starts with its name and a
description of when it applies, and sometimes further files that it refers to.
Before you start, look through the skills and read the `SKILL.md` of every one that could fit this task. Use what fits and
ignore the rest. Where a skill and the task's text disagree, follow the task. The folder may be empty.
"""  # noqa: E501
_GROWING = "Your copy of it is private: changes you make there are discarded."
_FROZEN = "The library is frozen: you can read it, and changes you make there are discarded."

# After skillevolbench/prompting/prompt_builder.py of the released code; docs/reference/protocols.md has its digests.
_RELEASED = """\
## Skill library

{opening}A skill library is in `{skills}`. Your program may list it from a folder of its own as well.
Before you write any code for this task you must do the following:

1. List the folders of the library.
2. Open the `SKILL.md` in each folder and look at the `description` in its first lines.
3. Wherever a description {fits} this task, read that `SKILL.md` to its end and follow its workflow and its warnings.
   Use files in `scripts/`, `references/` and `assets/` as it says.
4. Solve the task from scratch only if {exception}. Then name the skills you looked at, and say briefly why
   none of them applies.

{closing}
"""
_RELEASED_GROWING = {
    "opening": "",
    "fits": "could fit",
    "exception": "the library is empty or no description has to do with it",
    "closing": "To work out again what a skill already explains wastes what the library has collected. Your use of "
    "skills will be\nreviewed.",
}
_RELEASED_FROZEN = {
    "opening": "This task is part of an evaluation. ",
    "fits": "fits",
    "exception": "no description has to do with it",
    "closing": "Do not create, change or remove any skill during this task.",
}
_RELEASED_TRACES = """\
This task is part of an evaluation. The earlier trials above are your reference: study them, find out which decisions worked,
and take that approach. Do not solve the task from scratch where an earlier trial suggests a way.
"""  # noqa: E501

_TRACES = """\
## Earlier trials of this family

Below are shortened records of earlier attempts at related tasks, oldest first, each with its verdict. Their files and values
belong to those tasks, not to yours: reuse what was learned, not the numbers.
"""  # noqa: E501


@dataclass(frozen=True, slots=True)
class Trace:
    """A compaction of an earlier trial, as shown to the agent. A hidden verdict is not even mentioned."""

    slot: TrialSlot
    shown: ShownVerdict
    text: str


def build_instruction(
    task: Task,
    *,
    library: bool,
    frozen: bool,
    traces: Sequence[Trace] = (),
    skills: str = "../skills",
    notice: Notice = "ours",
) -> str:
    """`skills`: the library's path for commands, absolute or from the working directory."""
    parts = [task.instruction]
    if library and notice == "ours":
        parts.append(_LIBRARY.format(skills=skills) + (_FROZEN if frozen else _GROWING))
    if library and notice == "released":
        parts.append(_RELEASED.format(skills=skills, **(_RELEASED_FROZEN if frozen else _RELEASED_GROWING)))
    if traces:
        kept = keep_ends([trace.text for trace in traces], MAX_TRACES_CHARS)
        shown = (replace(trace, text=text) for trace, text in zip(traces, kept, strict=True))
        parts.append("\n\n".join([_TRACES.rstrip(), *map(_render, shown)]))
        if frozen and notice == "released":
            parts.append(_RELEASED_TRACES)
    return task.instruction if len(parts) == 1 else "\n\n".join(part.rstrip() for part in parts) + "\n"


def _render(trace: Trace) -> str:
    verdict = trace.shown.verdict
    outcome = {True: "passed", False: "failed", None: "no verdict"}[verdict.success if verdict else None]
    if verdict and verdict.reward is not None:
        outcome += f", reward {verdict.reward:.2f}"
    if trace.shown.is_hidden:
        outcome = VERDICT_NOT_SHOWN
    return f"### Trial {trace.slot} ({outcome})\n\n{fence_text(trace.text)}"
