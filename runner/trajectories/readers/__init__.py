"""The readers, a module for each family of formats. READERS finds them by
`runner.trajectories.readers.reading.sniff`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, BinaryIO

from runner.base.text import storable, storable_value
from runner.base.types import JsonValue, Step, Trajectory, TrajectoryHead, TrajectoryKind, Usage
from runner.trajectories.problems import Problems
from runner.trajectories.readers.line_streams import cap_stream, json_lines, walk

Opener = Callable[[], BinaryIO]
Reader = Callable[["ReadTrajectory"], Iterator[Step]]

MAX_EXTRA_KEYS = 100
MAX_EVENT_KINDS = 100
ATIF = "atif"
UNKNOWN_PROGRAM = "unknown-program"
PLAIN_TEXT = "plain-text"  # its steps are paragraphs, neither model turns nor calls

READERS: dict[str, str] = {
    ATIF: "atif:read_atif",
    "terminus-episodes": "atif:read_terminus",
    "claude-stream-json": "claude:read_stream",
    "claude-session": "claude:read_session",
    "cursor-stream-json": "cursor:read_stream",
    "cursor-transcript": "cursor:read_transcript",
    "copilot-session": "copilot:read_session",
    "copilot-chat": "copilot_chat:read_chat",
    "codex-jsonl": "codex:read_events",
    "codex-rollout": "codex:read_rollout",
    "gemini-native": "gemini:read_native",
    "gemini-session": "gemini:read_session",
    "gemini-stream-json": "gemini:read_stream",
    "qwen-session": "gemini:read_qwen_session",
    "qwen-stream-json": "gemini:read_qwen_stream",
    "kimi-wire": "kimi:read",
    "acp-jsonl": "acp:read",
    "inspect-sample": "chat:read_inspect",
    "mini-swe-agent": "chat:read_mini",
    "swe-agent": "chat:read_swe",
    "openhands": "openhands:read",
    "pi": "pi:read",
    "opencode-export": "opencode:read_export",
    "opencode-stream": "opencode:read_stream",
    "chat-messages": "chat:read_chat",
    PLAIN_TEXT: "plain_text:read_text",
    "git-lfs-pointer": "plain_text:read_absent",
    "empty": "plain_text:read_absent",
}
# The recognition features of each format in `sniff`, in words.
EVIDENCE = {
    ATIF: "its schema_version, or its agent and steps",
    "claude-session": "lines with sessionId and uuid",
    "claude-stream-json": "events of type system, assistant, user and result",
    "cursor-stream-json": "events of type tool_call with a call_id",
    "cursor-transcript": "lines with only a role and a message",
    "copilot-session": "events with data, an id and a parentId",
    "copilot-chat": "its requests and responderUsername",
    "codex-rollout": "lines with a type and a payload",
    "codex-jsonl": "events of type thread, turn and item",
    "gemini-session": "its sessionId and projectHash",
    "gemini-native": "its messages with sessionId and projectHash",
    "gemini-stream-json": "an init event with session_id and model",
    "qwen-session": "lines with sessionId and message parts",
    "qwen-stream-json": "an init event with qwen_code_version",
    "kimi-wire": "its protocol_version, or messages with a payload",
    "inspect-sample": "a sample's id, epoch and input",
    "mini-swe-agent": "its info and messages, or marks of its shell",
    "swe-agent": "its trajectory or history of actions",
    "openhands": "events that name an action, an observation or a kind",
    "pi": "its session's id and folder, or messages with a parentId and a stopReason",
    "opencode-export": "its info, and messages with parts of a sessionID",
    "opencode-stream": "events with a sessionID and a part",
    "terminus-episodes": "prompts with episodes",
    "acp-jsonl": "updates of the Agent Client Protocol",
    "chat-messages": "messages with roles",
}
# Logs that are recognised but not readable here: better named than mistaken for another program's.
UNREAD = {
    "factory-droid": "a session of Factory Droid",
    UNKNOWN_PROGRAM: "a session of an unknown program",
    "telemetry": "telemetry (OpenTelemetry records of Qwen Code or Gemini CLI)",
    "vscode-chat-log": "a log of changes of a chat in VS Code (use Chat: Export Chat)",
    "cursor-text": "a transcript of Cursor as text, which its versions before the .jsonl files wrote",
    "aider-history": "a chat history of aider in Markdown",
    "markdown-history": "a history of an agent in Markdown",
}
READERS |= dict.fromkeys(UNREAD, "plain_text:read_absent")


@dataclass(frozen=True, slots=True)
class Thread:
    """Which part of a file to read: a sub-agent's events, or a trajectory inside another one."""

    key: str = ""
    inside: tuple[tuple[str, int], ...] = ()


class ReadTrajectory:
    """A trajectory being read. Iterate `steps` once; everything else is complete only after the last step.

    steps     numbered 1..n without gaps, independent of the numbers in the source head      as far as known before the
    first step; complete after the last problems  what was wrong with the source usage     recomputed: every model call
    once. Unknown for a sub-agent whose tokens its parent's total includes reported  the source's own totals, to show
    next to `usage` turns     model turns, if the source counts them facts     JSON values worth keeping: what the
    format holds beyond ATIF, and what was left out of the steps subagents further trajectories of the same file; each
    reads the file again when iterated copied_lines: number of lines at the beginning copied from another session. Their
    steps are marked, and count in no total.
    """

    def __init__(
        self,
        open_binary: Opener,
        *,
        name: str,
        source_format: str,
        reader: Reader,
        thread: Thread | None = None,
        copied_lines: int = 0,
    ) -> None:
        self._open, self.reader, self.thread = open_binary, reader, thread or Thread()
        self.copied_lines = copied_lines
        kind = TrajectoryKind.SUBAGENT if thread else TrajectoryKind.MAIN
        self.head = TrajectoryHead(kind=kind, name=name, source_format=source_format)
        self.problems = Problems()
        self.usage = Usage()
        self.reported: Usage | None = None
        self.turns: int | None = None
        self.facts: dict[str, Any] = {}
        self.subagents: list[ReadTrajectory] = []
        self.steps: Iterator[Step] = self._number_steps()
        if thread is None:  # so that the head is filled before anyone reads it; sub-agents would hold their file open
            first = next(self.steps, None)
            self.steps = iter(()) if first is None else chain((first,), self.steps)

    def open_binary(self) -> BinaryIO:
        """Open the file at its beginning, for the reader."""
        return cap_stream(self._open(), self.problems)

    def lines(self, problems: Problems | None = None) -> Iterator[tuple[int, dict[str, object]]]:
        """`json_lines` of the file. `problems`: where to report instead of the trajectory's own."""
        with self.open_binary() as stream:
            yield from json_lines(stream, self.problems if problems is None else problems)

    def parts(
        self,
        streamed: frozenset[str] = frozenset(),
        nested: frozenset[str] = frozenset(),
        problems: Problems | None = None,
    ) -> Iterator[tuple[str, object]]:
        """`walk` of the file, or of the trajectory in it that the thread names. `problems` as for `lines`."""
        reported = self.problems if problems is None else problems
        with self.open_binary() as stream:
            yield from walk(stream, reported, streamed=streamed, nested=nested, inside=self.thread.inside)

    def _number_steps(self) -> Iterator[Step]:
        number = 0
        for number, step in enumerate(self.reader(self), start=1):
            yield step if step.number == number else replace(step, number=number)
        is_main = self.head.kind is TrajectoryKind.MAIN
        if not number and is_main and not len(self.problems) and self.head.source_format != "empty":
            message = f"no step in a file that looks like {self.head.source_format}"
            self.problems.add("whole file", "a trajectory with at least one step", message)

    def set_head(self, **values: Any) -> None:
        self.head = replace(self.head, **values)

    def fill_head(self, **values: str | None) -> None:
        """Set values that the head does not have yet."""
        for name, value in values.items():
            if value is not None and getattr(self.head, name) is None:
                self.set_head(**{name: value})

    def add_extra(self, **values: object) -> None:
        known = self.head.extra or {}
        if len(known.keys() | values.keys()) > MAX_EXTRA_KEYS:
            self.problems.add(
                "whole file", f"at most {MAX_EXTRA_KEYS} keys next to the known ones", f"left out: {', '.join(values)}"
            )
        else:
            self.set_head(extra={**known, **storable_value(values)})

    def count_event(self, kind: object, detail: object = None) -> None:
        """Count an event that gives no step."""
        key = storable((f"{kind}/{detail}" if detail else str(kind))[:100])
        counts = self.facts.setdefault("events_without_step", {})
        if key in counts or len(counts) < MAX_EVENT_KINDS:
            counts[key] = counts.get(key, 0) + 1

    def report_event(self, line: int, kind: object, expected: str) -> None:
        """Report and count an event of a kind that the format does not have."""
        self.problems.add(f"line {line}", expected, f"found type {str(kind)[:60]!r}")
        self.count_event(kind)

    def set_usage(self, usage: Usage, source: str) -> None:
        """`source`: what the tokens are counted from, kept as a fact if there are any."""
        self.usage = usage
        self.facts["usage_from"] = source if usage != Usage() else "nothing"

    def add_result(self, outcome: dict[str, JsonValue], usage: Usage | None) -> None:
        """Add the outcome of one process that a stream ends with, and the tokens it counted."""
        self.facts.setdefault("results", []).append(outcome)
        if usage is not None:
            self.facts["usage_from"] = "result events"
            self.usage += usage
            self.reported = self.usage

    def note_cut_off(self) -> None:
        if "results" not in self.facts:
            self.facts["cut_off"] = True

    def subagent(self, name: str, parent: str, thread: Thread, **values: JsonValue) -> ReadTrajectory:
        """Add another trajectory of the same file, read by the same reader."""
        found = ReadTrajectory(
            self._open,
            name=name,
            source_format=self.head.source_format,
            reader=self.reader,
            thread=thread,
            copied_lines=self.copied_lines,
        )
        found.set_head(parent=parent, agent_name=self.head.agent_name, agent_version=self.head.agent_version)
        if values:
            found.add_extra(**values)
        self.subagents.append(found)
        return found

    def load(self) -> Trajectory:
        """Read it all into memory, for tests and short trajectories."""
        steps = tuple(self.steps)  # first: head and usage are complete after the last step
        return Trajectory(self.head, steps, self.usage)


def reader(source_format: str) -> Reader:
    """Return the `read` function for that format."""
    module, _, name = READERS[source_format].partition(":")
    found: Reader = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    return found
