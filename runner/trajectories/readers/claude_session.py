"""Claude Code's own session log (projects/<folder>/<uuid>.jsonl): a tree of messages, one a line, with times.

Read in the file's order, which is the order of writing. A line whose parent is not the line before it, and that is no
tool result, went back to an earlier point of the conversation: its step says `branched_from`. Lines of sub-agents
(isSidechain) make trajectories of their own. There are no totals: output tokens and cost are unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from runner.trajectories.problems import Problems
from runner.trajectories.readers import ReadTrajectory, Thread
from runner.trajectories.readers.claude_messages import MessageSteps
from runner.trajectories.streams import json_lines
from runner.trajectories.text import clean, storable
from runner.types import Source, Step

MAX_SUBAGENTS = 1_000
_NO_AGENT = "sidechain"  # older logs mark the side chain without naming the agent


def read(result: ReadTrajectory) -> Iterator[Step]:
    """The steps of one thread. A file that holds a sub-agent's lines only is that sub-agent's main thread."""
    messages, tree = MessageSteps(), _Tree(result.problems)
    wanted: str | None = result.thread.key or None
    is_main, others = wanted is None, dict[str, None]()
    result.set_head(agent_name="claude-code")
    with result.open_binary() as stream:
        for line, event in json_lines(stream, result.problems if is_main else Problems()):
            kind, message = event.get("type"), event.get("message")
            if kind not in ("user", "assistant", "system") or not (message or kind == "system"):
                if is_main:
                    result.count("events_without_step", str(kind)[:100])
                continue
            thread = _thread(event)
            wanted = thread if wanted is None else wanted
            if thread != wanted:
                if len(others) < MAX_SUBAGENTS:
                    others.setdefault(thread)
                continue
            if tree.is_repeated(event, line):
                continue
            _take_head(result, event)
            extra = tree.extra(event)
            timestamp = storable(event["timestamp"]) if isinstance(event.get("timestamp"), str) else None
            if kind == "assistant" and isinstance(message, Mapping):
                yield from messages.assistant(message, timestamp, extra)
            elif kind == "user" and isinstance(message, Mapping):
                if event.get("isMeta") is True:
                    extra["synthetic"] = True
                yield from messages.user(message, timestamp, extra, event.get("toolUseResult"))
            else:
                yield from messages.flush()
                text = event.get("content") or event.get("subtype") or ""
                yield Step(0, Source.SYSTEM, clean(str(text)), timestamp=timestamp, extra=extra or None)
    yield from messages.flush()
    result.usage = messages.usage
    result.facts.update(usage_from="messages", messages=messages.messages)
    for index, key in enumerate(others, start=1):
        if is_main:
            result.subagent(f"subagent-{index}", result.head.name, Thread(key=key), agent_id=key)


def _thread(event: Mapping[str, Any]) -> str:
    """The agent a line belongs to; "main" for the conversation itself."""
    if event.get("isSidechain") is not True:
        return "main"
    return storable(str(event.get("agentId") or _NO_AGENT))


def _take_head(result: ReadTrajectory, event: Mapping[str, Any]) -> None:
    message = event.get("message")
    model = message.get("model") if isinstance(message, Mapping) else None
    if result.head.model is None and isinstance(model, str) and model != "<synthetic>":
        result.set_head(model=storable(model))
    if result.head.session_id is None and isinstance(event.get("sessionId"), str):
        result.set_head(session_id=storable(event["sessionId"]))
        if isinstance(event.get("version"), str):
            result.set_head(agent_version=storable(event["version"]))
        if isinstance(event.get("cwd"), str):
            result.add_extra(cwd=storable(event["cwd"]))


class _Tree:
    """Follows uuid and parentUuid along one thread."""

    def __init__(self, problems: Problems) -> None:
        self._problems, self._seen, self._last = problems, set[str](), ""

    def is_repeated(self, event: Mapping[str, Any], line: int) -> bool:
        uuid = event.get("uuid")
        if not isinstance(uuid, str):
            return False
        if uuid in self._seen:
            self._problems.add(f"line {line}", "each uuid once", f"{uuid!r:.60} comes again; the first counts")
            return True
        return False

    def extra(self, event: Mapping[str, Any]) -> dict[str, Any]:
        uuid, parent = event.get("uuid"), event.get("parentUuid")
        is_result = "toolUseResult" in event or "sourceToolAssistantUUID" in event
        branched = isinstance(parent, str) and self._last not in ("", parent) and not is_result
        if isinstance(uuid, str):
            self._seen.add(uuid)
            self._last = uuid
        return {"branched_from": storable(str(parent))} if branched else {}
