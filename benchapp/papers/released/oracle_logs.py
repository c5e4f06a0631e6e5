"""Read the oracles' logs of a release: skills used, tool calls counted in two ways, tokens.

Claude Code's stream-json has one content block a line. Upstream's evaluator (github.com/cxcscmu/SkillLearnBench) keeps
only the last line of each message, and so loses its thinking, text and earlier calls. Here every block counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import BinaryIO

from benchapp.imports.reading.walking import FolderEntry
from benchapp.imports.releases.skilllearnbench_release import TaskInstance
from benchapp.papers.released.release import Release
from runner.base.types import Source, Step, UseKind
from runner.trajectories.problems import Problems
from runner.trajectories.readers.line_streams import json_lines
from runner.trajectories.readers.reading import ReadTrajectory, read_trajectory
from runner.trajectories.readers.skill_use import step_uses

MAX_MESSAGES = 1_000_000  # of one log


@dataclass(frozen=True, slots=True)
class OracleLog:
    """One log with its sub-agents. `used`: skill -> kinds of use. `mounted`: the task's human skills, None where the
    folder has none. calls: one per block. calls_of_last_lines: as upstream counts, None in other formats. Tokens are
    unknown in a log without totals; input includes cached ones."""

    task: str
    instance: str
    messages: int
    calls: int
    calls_of_last_lines: int | None
    used: Mapping[str, tuple[str, ...]]
    mounted: tuple[str, ...] | None
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None

    @property
    def use(self) -> float | None:
        """Return the share of the mounted skills that were used (section 3.2), 0 to 1."""
        if not self.mounted:
            return None
        return sum(skill in self.used for skill in self.mounted) / len(self.mounted)


def read_logs(release: Release) -> Iterator[OracleLog]:
    """Read one log for each instance that has one. Unreadable parts of a log go to the release's problems."""
    for instance in release.instances:
        if instance.log:
            human = release.human(instance.family)
            yield _read_log(instance, instance.log, human.skills if human else None)


def _read_log(instance: TaskInstance, log: FolderEntry, mounted: tuple[str, ...] | None) -> OracleLog:
    read = read_trajectory(lambda: instance.root.open(log.path))
    messages = calls = 0
    used: dict[str, dict[str, None]] = {}
    for step in _iterate_agent_steps(read):
        messages += 1
        calls += len(step.tool_calls)
        for use in step_uses(step, mounted=mounted):
            if use.kind is not UseKind.MOUNTED:
                used.setdefault(use.skill, {}).setdefault(use.kind.value)
    for problem in read.problems:
        instance.root.report(log.path, problem.place, problem.expected, problem.message)
    last_lines = None
    if read.head.source_format == "claude-stream-json":
        with instance.root.open(log.path) as stream:
            last_lines = calls_of_last_lines(stream)
    return OracleLog(
        instance.family,
        instance.name,
        messages,
        calls,
        last_lines,
        {skill: tuple(kinds) for skill, kinds in sorted(used.items())},
        mounted,
        read.usage.input_tokens,
        read.usage.output_tokens,
        read.usage.cost_usd,
    )


def _iterate_agent_steps(read: ReadTrajectory) -> Iterator[Step]:
    """Return steps of the main thread, then of the sub-agents, which are known only after it."""
    main = (step for step in read.steps)
    others = (step for sub in read.subagents for step in sub.steps)
    return (step for step in chain(main, others) if step.source is Source.AGENT and not step.is_copied_context)


def calls_of_last_lines(stream: BinaryIO) -> int:
    """Count tool calls when each message id keeps only its last line."""
    last: dict[str, int] = {}
    for number, event in json_lines(stream, Problems()):
        message = event.get("message")
        if event.get("type") != "assistant" or not isinstance(message, Mapping) or len(last) >= MAX_MESSAGES:
            continue
        content = message.get("content")
        blocks = content if isinstance(content, list) else []
        calls = sum(isinstance(block, Mapping) and block.get("type") == "tool_use" for block in blocks)
        last[str(message.get("id") or f"line {number}")] = calls
    return sum(last.values())
