"""Sessions of opencode: what `opencode export` writes (messages with parts), and events of `opencode run --format
json`.

A call of the model ends with a part `step-finish` and its tokens. Input excludes what came from the cache, and output
excludes reasoning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from runner.base.text import storable
from runner.base.types import Observation, Source, Step, Usage
from runner.trajectories.log_records import (
    Record,
    read_amount,
    read_count,
    read_number,
    read_object,
    read_objects,
    read_seconds,
    read_text,
)
from runner.trajectories.readers import ReadTrajectory
from runner.trajectories.readers.messages import MessageSteps, call_block, compaction_mark, result_block

NAME = "opencode"
_TEXTS = {"text": "text", "reasoning": "thinking"}


def read_export(result: ReadTrajectory) -> Iterator[Step]:
    result.set_head(agent_name=NAME)
    reading = _Reading(result)
    for key, value in result.parts(frozenset({"messages"})):
        if key == "info" and isinstance(value, Mapping):
            result.fill_head(agent_version=read_text(value.get("version")), session_id=read_text(value.get("id")))
        elif key == "messages" and isinstance(value, Mapping):
            yield from reading.take(read_object(value.get("info")), read_objects(value.get("parts")))
        elif key == "messages":
            result.problems.add("messages", "an object with info and parts", f"found {value!r:.60}")
    yield from reading.end()


def read_stream(result: ReadTrajectory) -> Iterator[Step]:
    result.set_head(agent_name=NAME)
    reading, parts, finished = _Reading(result), list[Record](), False
    for number, event in result.lines():
        part = read_object(event.get("part"))
        result.fill_head(session_id=read_text(event.get("sessionID")))
        if event.get("type") == "error":
            yield from reading.take({"role": "assistant", "error": event.get("error")}, [])
        elif part:
            parts.append(part)
            if finished := part.get("type") == "step-finish":
                yield from reading.take({"role": "assistant", "time": {"created": event.get("timestamp")}}, parts)
                parts = []
        else:
            result.report_event(number, event.get("type"), "an event with a part")
    if parts:
        yield from reading.take({"role": "assistant"}, parts)
    if not finished:
        result.note_cut_off()
    yield from reading.end()


class _Reading:
    def __init__(self, result: ReadTrajectory) -> None:
        self._result, self._steps = result, MessageSteps()
        self._cost, self._calls = 0.0, 0

    def end(self) -> Iterator[Step]:
        yield from self._steps.flush()
        self._result.set_usage(self._steps.usage, "calls of the model")
        if self._cost:  # 0 is that of a subscription, or of a model without a known price
            self._result.reported = Usage(cost_usd=self._cost)

    def take(self, info: Record, parts: Iterable[Record]) -> Iterator[Step]:
        milliseconds = read_number(read_object(info.get("time")).get("created"))
        at = None if milliseconds is None else read_seconds(milliseconds / 1000)
        if info.get("role") == "user":
            yield from self._take_user(parts, at)
            return
        waiting = list[Record]()
        is_counted = False
        for part in parts:
            waiting.append(part)
            if part.get("type") == "step-finish":
                is_counted = True
                yield from self._take_call(info, waiting, part, at)
                waiting = []
        if any(part.get("type") in (*_TEXTS, "tool") for part in waiting):
            yield from self._take_call(info, waiting, {} if is_counted else info, at)
        error = read_object(info.get("error"))
        if error:
            message = read_object(error.get("data")).get("message") or error.get("message") or ""
            yield from self._steps.flush()
            results = (Observation(storable(f"{error.get('name')}: {message}"), is_error=True),)
            yield Step(0, Source.SYSTEM, observations=results, timestamp=at, extra={"api_error": True})

    def _take_user(self, parts: Iterable[Record], at: str | None) -> Iterator[Step]:
        content = list[dict[str, object]]()
        for part in parts:
            kind = part.get("type")
            if kind == "text":
                content.append({"type": "text", "text": part.get("text")})
            elif kind == "file" and str(part.get("mime")).startswith("image/"):
                content.append({"type": "image_url", "image_url": {"url": part.get("url")}})
            elif kind == "file":
                content.append({"type": "text", "text": f"[file {part.get('filename') or part.get('mime')}]"})
            elif kind == "compaction":
                yield from self._steps.flush()
                yield Step(
                    0, Source.SYSTEM, timestamp=at, extra=compaction_mark(None, "auto" if part.get("auto") else None)
                )
            else:
                self._result.count_event(kind)
        if content:
            yield from self._steps.user({"content": content}, at)

    def _take_call(self, info: Record, parts: Iterable[Record], finish: Record, at: str | None) -> Iterator[Step]:
        blocks, results = list[dict[str, object]](), list[dict[str, object]]()
        self._calls += 1
        for place, part in enumerate(parts, start=1):
            kind, state = str(part.get("type")), read_object(part.get("state"))
            if kind in _TEXTS:
                blocks.append({"type": _TEXTS[kind], _TEXTS[kind]: part.get("text") or ""})
            elif kind == "tool":
                call = part.get("callID") or f"call-{self._calls}-{place}"
                blocks.append(call_block(call, part.get("tool"), state.get("input")))
                if state.get("status") in ("completed", "error"):
                    failed = state["status"] == "error"
                    results.append(result_block(call, state.get("error" if failed else "output") or "", failed))
            else:
                self._result.count_event(kind)
        tokens, cache = read_object(finish.get("tokens")), read_object(read_object(finish.get("tokens")).get("cache"))
        self._cost += read_amount(finish.get("cost")) or 0.0
        answer: dict[str, object] = {
            "id": f"call-{self._calls}",
            "model": info.get("modelID"),
            "content": blocks,
            "stop_reason": "end",
        }
        if tokens:
            made, thought = read_count(tokens.get("output")), read_count(tokens.get("reasoning")) or 0
            answer["usage"] = {
                "input_tokens": tokens.get("input"),
                "cache_read_input_tokens": cache.get("read"),
                "cache_creation_input_tokens": cache.get("write"),
                "output_tokens": None if made is None else made + thought,
            }
        yield from self._steps.assistant(answer, at)
        yield from self._steps.user({"content": results}, at)
