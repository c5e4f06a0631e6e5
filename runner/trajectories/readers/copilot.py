"""GitHub Copilot's command line: events, one a line.

It writes them to ~/.copilot/session-state/ID/events.jsonl, and prints them with
`--output-format json`; Copilot's transcripts in VS Code have the same form. Shapes: github/copilot-sdk,
nodejs/src/generated/session-events.ts, and a printed run in adityapuppala1/Ai-Agents-Space. An answer is whole in
`assistant.message`; what is streamed before it has a mark `ephemeral`. An answer names its output tokens; the event
of the end has the totals of each model, where input includes what the cache gave. Events of a sub-agent have its
`agentId`.
"""

from __future__ import annotations

from collections.abc import Iterator

from runner.base.text import clean, storable
from runner.base.types import Observation, Source, Step, Usage
from runner.trajectories.log_records import (
    Record,
    parse_json,
    pick_fields,
    read_object,
    read_objects,
    read_text,
    read_usage,
)
from runner.trajectories.problems import Problems
from runner.trajectories.readers import ReadTrajectory, Thread
from runner.trajectories.readers.messages import MessageSteps, call_block, compaction_mark, result_block, text_blocks

MAX_SUBAGENTS = 1_000
# Beginnings of the kinds of events. Kinds that give no step are counted.
FAMILIES = frozenset(
    "session user assistant model tool tools skill subagent hook system permission user_input elicitation sampling mcp "
    "external_tool command commands auto_mode_switch capabilities exit_plan_mode pending_messages todos plan "
    "custom_agents extensions canvas binary abort result".split()
)
_OUTCOME = ("shutdownType", "errorReason", "totalPremiumRequests", "totalApiDurationMs", "exitCode")
_COUNTS = ("inputTokens", "cacheReadTokens", "outputTokens")


def read_session(result: ReadTrajectory) -> Iterator[Step]:
    """Yield the steps of one thread: the conversation, or the sub-agent `thread.key`."""
    session = _Session(result)
    result.set_head(agent_name="copilot-cli")
    for line, event in result.lines(None if session.is_main else Problems()):
        data = read_object(event.get("data"))
        thread = str(event.get("agentId") or data.get("parentToolCallId") or "")
        if session.is_main and thread:
            session.see(thread, str(event.get("type")), data)
        if thread == result.thread.key:
            yield from session.take(line, event, data)
    yield from session.steps.flush()
    session.finish()


class _Session:
    def __init__(self, result: ReadTrajectory) -> None:
        self.result, self.steps, self.is_main = result, MessageSteps(), result.thread.key == ""
        self._calls: set[str] = set()
        self._agents: dict[str, dict[str, str]] = {}
        self._beyond, self._is_open = 0, False  # did answers follow the last totals?

    def see(self, thread: str, kind: str, data: Record) -> None:
        """Note a sub-agent by an event of its own."""
        if thread in self._agents or len(self._agents) < MAX_SUBAGENTS:
            about = self._agents.setdefault(thread, {})
            if kind == "subagent.started":
                named = (("tool_call_id", "toolCallId"), ("subagent_type", "agentName"))
                about |= {name: text for name, key in named if (text := read_text(data.get(key)))}
        else:
            self._beyond += 1

    def finish(self) -> None:
        if self.is_main:
            for number, (key, about) in enumerate(self._agents.items(), start=1):
                self.result.subagent(f"subagent-{number}", self.result.head.name, Thread(key=key), **about)
            if self._beyond:
                expected, found = (
                    f"at most {MAX_SUBAGENTS:,} sub-agents",
                    f"left out: {self._beyond:,} events of others",
                )
                self.result.problems.add("whole file", expected, found)
        if self.result.usage == Usage():
            self.result.set_usage(self.steps.usage, "messages")
        elif self._is_open:
            self.result.usage = self.result.usage.in_part()

    def take(self, line: int, event: Record, data: Record) -> Iterator[Step]:
        kind, at = str(event.get("type")), read_text(event.get("timestamp"))
        match kind:
            case "session.start" | "session.resume" | "session.model_change" | "session.skills_loaded":
                self._take_head(data)
            case "user.message":
                source = read_text(data.get("source"))
                extra = {"origin": source} if source not in (None, "user") else None
                yield from self.steps.user({"content": data.get("content")}, at, extra)
            case "system.message" | "system.notification":
                yield from self._notice(data.get("content"), at)
            case "assistant.message":
                yield from self._take_answer(data, at)
            case "tool.execution_start" | "tool.user_requested":
                if str(data.get("toolCallId")) not in self._calls:  # an answer names its calls already
                    call = self._call(data, data.get("toolName"))
                    yield from self.steps.assistant({"content": [call], "model": data.get("model")}, at)
            case "tool.execution_complete":
                yield from self._take_result(data, at)
            case "session.compaction_complete" if data.get("success") is not False:
                mark = compaction_mark(data.get("preCompactionTokens"))
                yield from self._notice(data.get("summaryContent") or "", at, mark)
            case "session.error" | "abort":
                yield from self.steps.flush()
                text = data.get("message") or f"Stopped: {data.get('reason')}"
                found = Observation(clean(str(text)), is_error=True)
                yield Step(0, Source.SYSTEM, observations=(found,), timestamp=at, extra={"api_error": True})
            case "session.shutdown":
                self._is_open = False
                models = read_object(data.get("modelMetrics"))
                counted = [read_usage(model.get("usage"), *_COUNTS) for model in map(read_object, models.values())]
                self.result.add_result(pick_fields(data, _OUTCOME), sum(counted, Usage()) if counted else None)
            case "result":  # the end of what is printed
                self.result.fill_head(session_id=read_text(event.get("sessionId")))
                self.result.add_result(pick_fields(event, _OUTCOME), None)
            case _ if kind.partition(".")[0] in FAMILIES:
                self.result.count_event(kind)
            case _:
                self.result.report_event(line, kind, "an event of Copilot")

    def _take_head(self, data: Record) -> None:
        self.result.fill_head(
            session_id=read_text(data.get("sessionId")),
            model=read_text(data.get("selectedModel")) or read_text(data.get("newModel")),
            agent_version=read_text(data.get("copilotVersion")),
        )
        if cwd := read_text(read_object(data.get("context")).get("cwd")):
            self.result.add_extra(cwd=cwd)
        listed = [skill for skill in read_objects(data.get("skills")) if skill.get("enabled") is True]
        if listed:
            self.result.set_head(skills_listed=tuple(storable(str(skill.get("name"))) for skill in listed))

    def _notice(self, text: object, at: str | None, extra: Record | None = None) -> Iterator[Step]:
        yield from self.steps.flush()
        yield Step(0, Source.SYSTEM, clean(str(text or "")), timestamp=at, extra=dict(extra) if extra else None)

    def _call(self, asked: Record, name: object) -> dict[str, object]:
        given = asked.get("arguments")
        self._calls.add(str(asked.get("toolCallId")))
        return call_block(asked.get("toolCallId"), name, parse_json(given) if isinstance(given, str) else given)

    def _take_answer(self, data: Record, at: str | None) -> Iterator[Step]:
        blocks = text_blocks(data.get("reasoningText"), data.get("content"))
        blocks += [self._call(asked, asked.get("name")) for asked in read_objects(data.get("toolRequests"))]
        answer = {"id": data.get("messageId"), "model": data.get("model"), "content": blocks, "stop_reason": "end"}
        if data.get("outputTokens") is not None:
            answer["usage"] = {"output_tokens": data["outputTokens"]}
        self._is_open = True
        self.result.fill_head(model=read_text(data.get("model")))
        yield from self.steps.assistant(answer, at)

    def _take_result(self, data: Record, at: str | None) -> Iterator[Step]:
        failed = data.get("success") is False
        text = read_object(data.get("error" if failed else "result")).get("message" if failed else "content")
        call = data.get("toolCallId")
        if text is None and not failed:  # VS Code may leave it out
            self.result.count_event("tool.execution_complete", "without a result")
        else:
            yield from self.steps.user({"content": [result_block(call, text or "failed", failed)]}, at)
