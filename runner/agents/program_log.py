"""A program's own log, read and kept."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice

from runner.base.types import Source, Step, Trajectory, TrajectoryHead, TrajectoryKind, Usage
from runner.trajectories.readers.reading import ReadTrajectory, read_trajectory

MAX_SOURCE_CHARS = 16 * 1024 * 1024
MAX_PROBLEMS = 20  # kept of one log


@dataclass(frozen=True, slots=True)
class ProgramLog:
    """A program's log after reading."""

    trajectories: tuple[Trajectory, ...]  # the main one first
    facts: Mapping[str, object]  # what the reader found in addition to the steps
    usage: Usage  # of the whole file, sub-agents included
    errors: str = ""  # the end of what the program wrote to its standard error

    @property
    def tells_work(self) -> bool:
        return any(step.source is Source.AGENT for step in self.trajectories[0].steps)


def read_log(content: bytes, instruction: str, head: TrajectoryHead, errors: str = "") -> ProgramLog:
    """Read the trajectories of a log of any known format. What the log does not say about itself is taken from `head`.

    A log that does not begin with the agent's instruction gets it as its first step.
    """
    found = read_trajectory(lambda: io.BytesIO(content))
    steps = tuple(found.steps)
    source = content.decode(errors="replace")[:MAX_SOURCE_CHARS]
    main = Trajectory(_merge_heads(found.head, head), _prepend_instruction(steps, instruction), found.usage, source)
    others = []
    for subagent in found.subagents:
        its_steps = tuple(subagent.steps)
        others.append(Trajectory(_merge_heads(subagent.head, head), its_steps, subagent.usage))
    return ProgramLog((_note_problems(main, found), *others), found.facts, found.usage, errors)


def with_subagents(log: ProgramLog, contents: Sequence[bytes], head: TrajectoryHead) -> ProgramLog:
    """Add sub-agents whose log is a file of its own, in the order given."""
    others: list[Trajectory] = []
    usage = log.usage
    for content in contents:
        name = f"subagent-{len(log.trajectories) + len(others)}"
        found = read_trajectory(lambda content=content: io.BytesIO(content), name=name)  # type: ignore[misc]
        steps = tuple(found.steps)
        if steps:
            its_head = replace(_merge_heads(found.head, head), kind=TrajectoryKind.SUBAGENT, parent="main")
            source = content.decode(errors="replace")[:MAX_SOURCE_CHARS]
            others.append(_note_problems(Trajectory(its_head, steps, found.usage, source), found))
            usage += found.usage
    return replace(log, trajectories=(*log.trajectories, *others), usage=usage)


def _note_problems(trajectory: Trajectory, found: ReadTrajectory) -> Trajectory:
    """Add the problems of the whole log, as an import keeps them: `extra["problems"]`."""
    problems = [asdict(problem) for problem in islice(found.problems, MAX_PROBLEMS)]
    extra = {**(trajectory.head.extra or {}), "problems": problems}
    return replace(trajectory, head=replace(trajectory.head, extra=extra)) if problems else trajectory


def _merge_heads(found: TrajectoryHead, known: TrajectoryHead) -> TrajectoryHead:
    return replace(
        found,
        agent_name=known.agent_name,
        agent_version=found.agent_version or known.agent_version,
        model=found.model or known.model,
    )


def _prepend_instruction(steps: tuple[Step, ...], instruction: str) -> tuple[Step, ...]:
    if any(step.source is Source.USER and step.message.strip() == instruction.strip() for step in steps):
        return steps
    return tuple(replace(step, number=at) for at, step in enumerate((Step(1, Source.USER, instruction), *steps), 1))
