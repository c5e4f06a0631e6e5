"""Claude Code's own session log (projects/<folder>/<uuid>.jsonl): a tree of messages, one a line, with times.

Read in the file's order, which is the order of writing. A line whose parent is not the previous line, and that is not a
tool result, returns to an earlier point of the conversation: its step has the mark `branched_from`. Sub-agents make
trajectories of their own. Their lines are marked `isSidechain`, in this file or one of their own, or are inside
`progress` lines of type agent_progress. There are no totals: tokens are those of the messages, cost is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runner.base.text import clean, storable
from runner.base.types import JsonValue, Source, Step
from runner.trajectories.atif_values import content_text
from runner.trajectories.images import select_images
from runner.trajectories.log_records import Record, read_object, read_objects, read_text
from runner.trajectories.problems import Problems
from runner.trajectories.readers import ReadTrajectory
from runner.trajectories.readers.claude_code.claude_messages import (
    NO_MODEL,
    CompactionMarks,
    MessageSteps,
    compaction_mark,
    small_facts,
)
from runner.trajectories.readers.claude_code.claude_subagents import Subagents

_NO_AGENT = "sidechain"  # older logs mark the side chain without naming the agent
_READ = ("user", "assistant", "system", "attachment")
_ENVELOPE = frozenset(
    "parentUuid logicalParentUuid isSidechain userType entrypoint cwd sessionId version gitBranch slug type uuid "
    "timestamp content attachment agentId isMeta level".split()
)
_ATTACHED_TEXTS = ("prompt", "content", "text", "stdout")  # the text's field in each kind of attachment
MAX_ERROR_DEPTH = 6
MAX_ERROR_CHARS = 2_000


def read(result: ReadTrajectory) -> Iterator[Step]:
    """Yield the steps of one thread. A file with only a sub-agent's lines is that sub-agent's main thread."""
    session, marks = _ClaudeSession(result), CompactionMarks()
    result.set_head(agent_name="claude-code")
    for step in _read_steps(result, session):
        yield from marks.pass_on(step)
        if step.source is Source.AGENT and step.usage is not None:
            yield from marks.set_tokens_after(step.usage.input_tokens)
    yield from marks.flush()
    result.usage, result.turns = session.messages.usage, session.messages.messages
    result.facts.update(usage_from="messages", messages=session.messages.messages)
    if session.is_main:
        session.agents.add_to(result, thread="agent_id")


def _read_steps(result: ReadTrajectory, session: _ClaudeSession) -> Iterator[Step]:
    for line, raw in result.lines(None if session.is_main else Problems()):
        for event, call in _lines_in(raw):
            yield from session.add(event, line, call)
    yield from session.messages.flush()


def _lines_in(event: Record) -> Iterator[tuple[Record, str]]:
    """(the line, ""). For a sub-agent's progress line, its messages instead, with the call that started it."""
    data = read_object(event.get("data"))
    if event.get("type") != "progress" or data.get("type") != "agent_progress":
        yield event, ""
        return
    inside = data.get("message")
    messages = [inside] if isinstance(inside, Mapping) else read_objects(data.get("normalizedMessages"))
    call = storable(str(event.get("parentToolUseID") or ""))
    outer = {key: event[key] for key in ("sessionId", "version", "cwd", "timestamp") if key in event}
    side = {"isSidechain": True, "agentId": data.get("agentId") or call}
    for message in messages:
        yield {**outer, **message, **side}, call


class _ClaudeSession:
    """One thread of the file, and what is seen of the others."""

    def __init__(self, result: ReadTrajectory) -> None:
        self.result = result
        self.messages, self.agents = MessageSteps(), Subagents()
        self.is_main = result.thread.key == ""
        self._tree = _MessageTree(result.problems)
        self._wanted = None if self.is_main else result.thread.key

    def add(self, event: Record, line: int, call: str) -> Iterator[Step]:
        kind, message = event.get("type"), event.get("message")
        if kind not in _READ or (kind in ("user", "assistant") and not message):
            self._pass_by(event, str(kind))
            return
        thread = _thread(event)
        if self._wanted is None:
            self._wanted = thread if thread and not call and _is_side_only(self.result) else ""
        if self.is_main:
            self.agents.see(event, "" if thread == self._wanted else thread or "main", call)
        if thread != self._wanted:
            yield from self._answer(event)
        elif not self._tree.is_repeated(event, line, reports=not call):
            if self.messages.copied and line > self.result.copied_lines:
                yield from self.messages.flush()
                self.result.set_head(session_id=None, model=None)  # they belonged to the copied session
            self.messages.copied = line <= self.result.copied_lines
            yield from self._steps(event, str(kind), message)

    def _pass_by(self, event: Record, kind: str) -> None:
        """Count a line without a step."""
        self._tree.pass_by(event)
        if self.is_main:
            data = event.get("data")
            self.result.count_event(kind, data.get("type") if isinstance(data, Mapping) else event.get("subtype"))

    def _steps(self, event: Record, kind: str, message: object) -> Iterator[Step]:
        _take_head(self.result, event)
        extra = self._tree.extra(event)
        timestamp = read_text(event.get("timestamp"))
        if kind == "assistant" and isinstance(message, Mapping):
            is_error = event.get("isApiErrorMessage") is True
            yield from self.messages.assistant(message, timestamp, extra, is_error=is_error)
        elif kind == "user" and isinstance(message, Mapping):
            is_summary = event.get("isCompactSummary") is True
            extra |= {"compact_summary": True} if is_summary else {}
            extra |= {"synthetic": True} if is_summary or event.get("isMeta") is True else {}
            yield from self.messages.user(message, timestamp, extra, event.get("toolUseResult"))
        elif kind == "attachment":
            yield from self.messages.aside(_attachment(event, timestamp, extra))
        else:
            yield from self.messages.aside(_notice(event, timestamp, extra))

    def _answer(self, event: Record) -> Iterator[Step]:
        """A sub-agent's last message, if its own lines lack it: progress lines hold calls and results only. It is in
        the result of the call that started the sub-agent, with the usage of its model call."""
        result = read_object(event.get("toolUseResult"))
        if "agentId" not in result or result["agentId"] != self._wanted or not self.messages.awaits_message:
            return
        content = result.get("content")
        if isinstance(content, list) and content:
            message = {"model": self.result.head.model, "content": content, "stop_reason": "end_turn"}
            yield from self.messages.assistant(
                {**message, "usage": result.get("usage")}, read_text(event.get("timestamp"))
            )


def _thread(event: Record) -> str:
    """Return the agent of a line, "" for the conversation itself."""
    if event.get("isSidechain") is not True:
        return ""
    return storable(str(event.get("agentId") or _NO_AGENT))


def _is_side_only(result: ReadTrajectory) -> bool:
    """Has the file no line of the conversation itself? Some begin with a sub-agent that only warms a cache."""
    lines = (event for _, event in result.lines(Problems()) if event.get("type") in ("user", "assistant"))
    return all(event.get("isSidechain") is True for event in lines)


def _notice(event: Record, timestamp: str | None, extra: Record) -> Step:
    """A notice of the program itself: its text, else its kind with its error."""
    subtype, error = str(event.get("subtype") or ""), _error_text(event.get("error"))
    text = str(event.get("content") or "") or f"{subtype}: {error}".strip(": ")
    facts = small_facts({key: value for key, value in event.items() if key not in _ENVELOPE}, text)
    if subtype == "compact_boundary":
        told = read_object(event.get("compactMetadata"))
        facts |= compaction_mark(told.get("preTokens"), told.get("trigger"))
    return Step(0, Source.SYSTEM, clean(text), timestamp=timestamp, extra={**extra, **facts} or None)


def _error_text(error: object, depth: int = 0) -> str:
    """The message of an error that wraps others; the innermost is the clearest."""
    if not isinstance(error, Mapping) or depth > MAX_ERROR_DEPTH:
        return str(error or "")[:MAX_ERROR_CHARS]
    inner = error.get("error") or error.get("cause")
    innermost = _error_text(inner, depth + 1) if isinstance(inner, Mapping) else ""
    return innermost or str(error.get("message") or error.get("code") or "")[:MAX_ERROR_CHARS]


def _attachment(event: Record, timestamp: str | None, extra: Record) -> Step:
    """What the program added to the messages. A command that waited while the agent worked is the user's."""
    raw = event.get("attachment")
    attached = raw if isinstance(raw, Mapping) else {"content": raw}
    source = Source.USER if attached.get("type") == "queued_command" else Source.SYSTEM
    key = next((key for key in _ATTACHED_TEXTS if attached.get(key)), "")
    text, parts = content_text(attached[key]) if key else ("", None)
    facts = small_facts({name: value for name, value in attached.items() if name not in ("type", key)}, text)
    kind = storable(str(attached.get("type") or "unknown"))
    extra = {**extra, "attachment": kind, **facts, **select_images(parts)}
    return Step(0, source, clean(text or f"[{kind}]"), timestamp=timestamp, extra=extra)


def _take_head(result: ReadTrajectory, event: Record) -> None:
    model = read_text(read_object(event.get("message")).get("model"))
    session_id = read_text(event.get("sessionId"))
    result.fill_head(model=None if model == NO_MODEL else model)
    if result.head.session_id is None and session_id is not None:
        result.set_head(session_id=session_id)
        if (version := read_text(event.get("version"))) is not None:
            result.set_head(agent_version=version)
        if isinstance(event.get("cwd"), str):
            result.add_extra(cwd=event["cwd"])
        if event.get("isSidechain") is True and isinstance(event.get("agentId"), str):
            result.add_extra(agent_id=event["agentId"])


class _MessageTree:
    """Follows uuid and parentUuid along one thread."""

    def __init__(self, problems: Problems) -> None:
        self._problems, self._seen, self._last = problems, set[str](), ""
        self._between: set[str] = set()  # lines without a step that follow the last one

    def is_repeated(self, event: Record, line: int, *, reports: bool) -> bool:
        uuid = event.get("uuid")
        if not isinstance(uuid, str) or uuid not in self._seen:
            return False
        if reports:
            self._problems.add(f"line {line}", "each uuid once", f"{uuid!r:.60} comes again; the first counts")
        return True

    def pass_by(self, event: Record) -> None:
        uuid, parent = event.get("uuid"), event.get("parentUuid")
        if isinstance(uuid, str) and isinstance(parent, str) and (parent == self._last or parent in self._between):
            self._between.add(uuid)

    def extra(self, event: Record) -> dict[str, JsonValue]:
        uuid, parent = event.get("uuid"), event.get("parentUuid")
        is_result = "toolUseResult" in event or "sourceToolAssistantUUID" in event
        follows = not isinstance(parent, str) or self._last in ("", parent) or parent in self._between
        if isinstance(uuid, str):
            self._seen.add(uuid)
            self._last = uuid
            self._between.clear()
        return {} if follows or is_result else {"branched_from": storable(str(parent))}
