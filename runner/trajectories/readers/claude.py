"""Claude Code's logs: its session files and its stream.

A session (projects/<folder>/<uuid>.jsonl) is a tree of messages, one a line, with times. It is read in the file's
order, which is the order of writing. A line whose parent is not the previous line, and that is not a tool result,
returns to an earlier point of the conversation: its step has the mark `branched_from`. Sub-agents make trajectories
of their own. Their lines are marked `isSidechain`, in this file or one of their own, or are inside `progress` lines
of type agent_progress. There are no totals: tokens are those of the messages, cost is unknown.

A stream (`--output-format stream-json`) is one event a line, with no prompt and hardly any times. Cost and tokens come
from the `result` events. With several of them, modelUsage and total_cost_usd are running totals of one process (the
last counts; a lower total began a new process and is added), num_turns and usage are not (they are summed).
Sub-agents share the file; their events carry parent_tool_use_id, and the totals include them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from runner.base.text import clean, storable
from runner.base.types import JsonValue, Source, Step, Usage
from runner.trajectories.atif_values import content_text
from runner.trajectories.images import select_images
from runner.trajectories.log_records import (
    Record,
    pick_fields,
    read_amount,
    read_count,
    read_list,
    read_object,
    read_objects,
    read_text,
    read_usage_parts,
)
from runner.trajectories.problems import Problems
from runner.trajectories.readers import ReadTrajectory, Thread
from runner.trajectories.readers.messages import (
    INPUT_KEYS,
    NO_MODEL,
    CompactionMarks,
    MessageSteps,
    compaction_mark,
    small_facts,
)

# --- sub-agents -------------------------------------------------------------------------------------------------------


MAX_SUBAGENTS = 1_000
STARTING = ("Task", "Agent")  # the tool's name, before and since 2.1


class Subagents:
    """Feed it every line of the file; then it adds the sub-agents to the trajectory."""

    def __init__(self) -> None:
        self._calls: dict[str, tuple[str, dict[str, str]]] = {}  # call id -> its thread, and its description
        self._started: dict[str, str] = {}  # thread -> id of the call that started it, "" while unknown
        self._answered: dict[str, str] = {}  # thread -> id of the call whose result names it
        self._beyond = 0

    def see(self, event: Record, thread: str, call: str = "") -> None:
        """Read a line of `thread`, "" for the conversation itself. `call` started the thread, if the line names it."""
        if thread in self._started or thread and len(self._started) < MAX_SUBAGENTS:
            self._started[thread] = self._started.get(thread) or call
        elif thread:
            self._beyond += 1
        for block in read_objects(read_object(event.get("message")).get("content")):
            kind, agent = block.get("type"), read_text(read_object(event.get("toolUseResult")).get("agentId"))
            if kind == "tool_use" and block.get("name") in STARTING:
                given = read_object(block.get("input"))
                about = {key: storable(str(given[key])) for key in ("subagent_type", "description") if key in given}
                self._calls[str(block.get("id"))] = (thread, about)
            elif kind == "tool_result" and agent is not None:
                self._answered[agent] = str(block.get("tool_use_id"))

    def add_to(self, result: ReadTrajectory, **named: str) -> None:
        """Add the sub-agents. `named`: names in the head's extra for a thread's key, next to its call's id."""
        names = {key: f"subagent-{index}" for index, key in enumerate(self._started, start=1)}
        for key, name in names.items():
            call = self._started[key] or self._answered.get(key, "")
            above, about = self._calls.get(call, ("", {}))
            found = {"tool_call_id": storable(call)} if call else {}
            found |= dict.fromkeys(named.values(), key)
            result.subagent(name, names.get(above, result.head.name), Thread(key=key), **found, **about)
        calls = self._answered | {key: call for key, call in self._started.items() if call}
        if named and calls:  # also of sub-agents whose lines are in a file of their own
            result.facts["subagent_calls"] = {storable(key): storable(call) for key, call in calls.items()}
        if self._beyond:
            result.problems.add(
                "whole file", f"at most {MAX_SUBAGENTS:,} sub-agents", f"left out: {self._beyond:,} lines of others"
            )


# --- sessions ---------------------------------------------------------------------------------------------------------


_NO_AGENT = "sidechain"  # older logs mark the side chain without naming the agent
_READ = ("user", "assistant", "system", "attachment")
_ENVELOPE = frozenset(
    "parentUuid logicalParentUuid isSidechain userType entrypoint cwd sessionId version gitBranch slug type uuid "
    "timestamp content attachment agentId isMeta level".split()
)
_ATTACHED_TEXTS = ("prompt", "content", "text", "stdout")  # the text's field in each kind of attachment
MAX_ERROR_DEPTH = 6
MAX_ERROR_CHARS = 2_000


def read_session(result: ReadTrajectory) -> Iterator[Step]:
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
        _take_session_head(self.result, event)
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
            yield from self.messages.note(_attachment(event, timestamp, extra))
        else:
            yield from self.messages.note(_notice(event, timestamp, extra))

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
        metadata = read_object(event.get("compactMetadata"))
        facts |= compaction_mark(metadata.get("preTokens"), metadata.get("trigger"))
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


def _take_session_head(result: ReadTrajectory, event: Record) -> None:
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


# --- streams ----------------------------------------------------------------------------------------------------------


_CLAUDE_EVENT = "an event of Claude Code's stream"
# Notices of the program itself, and its dialogue with a controlling program.
WITHOUT_STEP = frozenset(
    "system stream_event rate_limit_event tool_progress tool_use_summary auth_status prompt_suggestion keep_alive"
    " control_request control_response control_cancel_request".split()
)


_CLAUDE_OUTCOME = (
    "subtype",
    "is_error",
    "duration_ms",
    "duration_api_ms",
    "num_turns",
    "stop_reason",
    "total_cost_usd",
)
_MODEL_KEYS = ("inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")


def read_stream(
    result: ReadTrajectory, agent_name: str = "claude-code", translate: Callable[[Record], Record] = lambda event: event
) -> Iterator[Step]:
    """Yield the steps of one thread: the main one, or the sub-agent that the call `thread.key` started. `translate`
    converts events of another program with this format to Claude Code's terms."""
    messages, totals, subagents = MessageSteps(), _ClaudeTotals(), Subagents()
    is_main, is_over = result.thread.key == "", False
    result.set_head(agent_name=agent_name)
    for line, raw in result.lines(None if is_main else Problems()):
        event = translate(raw)
        kind, message, thread = event.get("type"), event.get("message"), str(event.get("parent_tool_use_id") or "")
        is_over = kind == "result" or is_over and kind != "assistant"
        totals.has_any |= kind == "result"
        if is_main:
            subagents.see(event, thread, thread)
        if thread != result.thread.key:
            continue
        timestamp = _text_or_none(event.get("timestamp"))
        if kind == "assistant" and isinstance(message, Mapping):
            result.fill_head(model=read_text(message.get("model")))
            yield from messages.assistant(message, timestamp)
        elif kind == "user" and isinstance(message, Mapping):
            extra = {"synthetic": True} if event.get("isSynthetic") is True else {}
            yield from messages.user(message, timestamp, extra, event.get("tool_use_result"))
        elif kind == "result":
            yield from messages.flush()
            yield from totals.add(event)
        elif kind == "system" and event.get("subtype") == "init":
            _take_init(result, event)
        else:
            if is_main and str(kind) not in WITHOUT_STEP:
                result.problems.add(f"line {line}", _CLAUDE_EVENT, f"found type {str(kind)[:60]!r}")
            result.count_event(kind, event.get("subtype"))
    yield from messages.flush()
    if is_main:
        _finish(result, messages, totals, is_over)
        subagents.add_to(result)
    elif not totals.has_any:
        result.usage = messages.usage


def _finish(result: ReadTrajectory, messages: MessageSteps, totals: _ClaudeTotals, is_over: bool) -> None:
    """Set the usage. A stream without a result event at its end was cut off, and its totals are a lower bound.
    Without any result, input is counted from the messages, output is a lower bound and the cost unknown."""
    if totals.results:
        result.reported, result.turns = totals.usage(), totals.turns
        result.usage = totals.usage() if is_over else totals.usage().in_part()
        result.facts["results"] = totals.results
    else:
        result.usage = messages.usage
    if not is_over:
        result.facts["cut_off"] = True
    result.facts["usage_from"] = "result events" if totals.results else "messages"
    result.facts["messages"] = messages.messages


def _take_init(result: ReadTrajectory, event: Record) -> None:
    session = _text_or_none(event.get("session_id"))
    sessions = result.facts.setdefault("session_ids", [])
    if session and session not in sessions:
        sessions.append(session)
    if result.head.session_id is not None:
        return
    result.set_head(
        session_id=session,
        model=_text_or_none(event.get("model")),
        agent_version=_text_or_none(event.get("claude_code_version")),
        skills_listed=tuple(storable(name) for name in read_list(event.get("skills")) if isinstance(name, str)),
    )
    result.add_extra(**{key: event[key] for key in ("cwd", "permissionMode", "tools") if key in event})


class _ClaudeTotals:
    """The result events of a stream."""

    def __init__(self) -> None:
        self.has_any = False  # in any thread
        self.results: list[dict[str, JsonValue]] = []
        self.turns: int | None = None
        self._models: list[Usage] = []  # per process, running
        self._usage = Usage()

    def add(self, event: Record) -> Iterator[Step]:
        self.results.append(pick_fields(event, _CLAUDE_OUTCOME))
        turns = read_count(event.get("num_turns"))
        if turns is not None:
            self.turns = (self.turns or 0) + turns
        self._usage += read_usage_parts(event.get("usage"), INPUT_KEYS, "output_tokens")
        models = read_objects(list(read_object(event.get("modelUsage")).values()))
        total = sum((read_usage_parts(model, _MODEL_KEYS, "outputTokens") for model in models), Usage())
        cost = read_amount(event.get("total_cost_usd"))
        running = Usage(total.input_tokens, total.cached_tokens, total.output_tokens, cost)
        if self._models and not _fell(self._models[-1], running):
            self._models[-1] = running
        else:
            self._models.append(running)
        if event.get("is_error") is True or event.get("subtype") not in (None, "success"):
            text = _text_or_none(event.get("result")) or "no text"
            yield Step(0, Source.SYSTEM, clean(f"Ended with {event.get('subtype')}: {text}"), extra={"result": True})

    def usage(self) -> Usage:
        """From modelUsage, which counts helper models and sub-agents, or from the plain usage if that is missing."""
        total = sum(self._models, Usage())
        return replace(self._usage, cost_usd=total.cost_usd) if total.input_tokens is None else total


def _fell(before: Usage, after: Usage) -> bool:
    pairs = ((before.cost_usd, after.cost_usd), (before.input_tokens, after.input_tokens))
    return any(old is not None and new is not None and new < old for old, new in pairs)


def _text_or_none(value: object) -> str | None:
    return read_text(value) or None
