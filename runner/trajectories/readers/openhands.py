"""Events of OpenHands: a list of them, an object that has one, or one a line.

Up to version 0 an event names its `action` or `observation`, and the newest of these carry the model's response.
Those of version 1 have a `kind`. Several calls of one response are one step; its tokens count once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runner.base.text import clean, storable, storable_value
from runner.base.types import Observation, Source, Step, Usage
from runner.trajectories.atif_values import content_text
from runner.trajectories.log_records import (
    Record,
    parse_json,
    read_amount,
    read_count,
    read_object,
    read_objects,
    read_text,
)
from runner.trajectories.readers import ReadTrajectory
from runner.trajectories.readers.messages import (
    MessageSteps,
    call_block,
    compaction_mark,
    counts_without_cache,
    result_block,
    text_blocks,
)

_LISTS = frozenset({"history", "trajectory", "events"})
_IDLE = frozenset(
    {"recall", "change_agent_state", "agent_state_changed", "null", "condensation_request", "pause", "resume"}
)
# Fields of an event, and of a call that only the program reads.
_EVENT_KEYS = frozenset(
    "id timestamp source message cause action observation tool_call_metadata llm_metrics timeout".split()
)
_NOT_ARGUMENTS = frozenset(
    "thought final_thought confirmation_state is_confirmed hidden blocking is_static cwd security_risk action_risk "
    "keep_prompt kind".split()
)


def read(result: ReadTrajectory) -> Iterator[Step]:
    result.set_head(agent_name="openhands")
    reading = _Reading(result)
    for event in _iterate_events(result):
        yield from reading.take(event)
    yield from reading.steps.flush()
    result.set_usage(reading.steps.usage, "model responses")


def _iterate_events(result: ReadTrajectory) -> Iterator[Record]:
    with result.open_binary() as stream:
        start = stream.read(4096).lstrip()
    is_event = start.startswith(b"{") and not any(f'"{key}"'.encode() in start for key in (*_LISTS, "instance_id"))
    parts = (
        ((key, value) for key, value in (("", event) for _, event in result.lines()))
        if is_event
        else result.parts(_LISTS)
    )
    for place, (key, value) in enumerate(parts, start=1):
        if key and key not in _LISTS:
            continue
        for event in value if isinstance(value, list) else [value]:  # once: pairs of an action and an observation
            if isinstance(event, Mapping):
                yield event
            else:
                result.problems.add(f"event {place}", "an object", f"found {event!r:.60}")


class _Reading:
    def __init__(self, result: ReadTrajectory) -> None:
        self.result, self.steps = result, MessageSteps()
        self._number = 0
        self._last_call: str | None = None

    def take(self, event: Record) -> Iterator[Step]:
        self._number += 1
        kind = str(event.get("kind") or event.get("action") or event.get("observation"))
        at = read_text(event.get("timestamp"))
        if isinstance(event.get("llm_metrics"), Mapping):
            self._take_metrics(read_object(event["llm_metrics"]))
        if "kind" in event or isinstance(event.get("action"), Mapping) or isinstance(event.get("observation"), Mapping):
            yield from self._take_new(event, kind, at)
        elif "observation" in event:
            yield from self._take_observation(event, kind, at)
        elif "action" in event:
            yield from self._take_action(event, kind, at)
        else:
            self.result.count_event("neither action nor observation")

    def _take_metrics(self, metrics: Record) -> None:
        """Take the program's own totals so far. A cost of 0 is that of a model without a known price."""
        used = read_object(metrics.get("accumulated_token_usage"))
        self.result.reported = Usage(
            read_count(used.get("prompt_tokens")),
            read_count(used.get("cache_read_tokens")),
            read_count(used.get("completion_tokens")),
            read_amount(metrics.get("accumulated_cost")) or None,
        )

    def _notice(self, text: object, at: str | None, *, compaction: bool = False) -> Iterator[Step]:
        yield from self.steps.flush()
        extra = compaction_mark(None) if compaction else None
        yield Step(0, Source.SYSTEM, clean(content_text(text)[0]), timestamp=at, extra=extra)

    def _results(self, call: object, text: object, at: str | None, *, failed: bool) -> Iterator[Step]:
        if call is None and failed:
            yield from self.steps.flush()
            observation = Observation(clean(content_text(text)[0]), is_error=True)
            yield Step(0, Source.SYSTEM, observations=(observation,), timestamp=at)
        else:
            yield from self.steps.user({"content": [result_block(call, text, failed)]}, at)

    # --- up to version 0 ----------------------------------------------------------------------------------------------

    def _take_action(self, event: Record, kind: str, at: str | None) -> Iterator[Step]:
        args = read_object(event.get("args")) or {key: value for key, value in event.items() if key not in _EVENT_KEYS}
        if kind == "system":
            self.result.fill_head(agent_version=read_text(args.get("openhands_version")))
            yield from self._notice(args.get("content"), at)
        elif kind == "condensation":
            yield from self._notice(args.get("summary") or "", at, compaction=True)
        elif kind in _IDLE:
            self.result.count_event(kind)
        elif kind == "message" and (event.get("source", "user" if self._number == 1 else "agent") == "user"):
            yield from self.steps.user({"content": args.get("content")}, at)
        else:
            yield from self._take_answer(event, kind, args, at)

    def _take_answer(self, event: Record, kind: str, args: Record, at: str | None) -> Iterator[Step]:
        about = read_object(event.get("tool_call_metadata"))
        response = read_object(about.get("model_response"))
        messages = [read_object(choice.get("message")) for choice in read_objects(response.get("choices"))]
        thoughts = [message.get("reasoning_content") for message in messages]
        text = args.get("content") if kind == "message" else args.get("final_thought") or args.get("thought")
        call = about.get("tool_call_id") or f"event-{event.get('id', self._number)}"
        calls = [call for message in messages for call in read_objects(message.get("tool_calls"))]
        asked = next((read_object(each.get("function")) for each in calls if each.get("id") == call), {})
        given = parse_json(str(asked.get("arguments"))) if asked else None
        if not isinstance(given, dict):
            kept = ((key, value) for key, value in args.items() if key not in _NOT_ARGUMENTS and value is not None)
            given = {key: storable_value(value) for key, value in kept}
        identifier = read_text(response.get("id")) or f"event-{self._number}"
        blocks = [block for thought in thoughts for block in text_blocks(thought, None)] + text_blocks(None, text)
        if kind != "message":
            self._last_call = storable(str(call))
            blocks.append(call_block(call, about.get("function_name") or kind, given))
        yield from self._answer(identifier, blocks, at, response)

    def _answer(
        self, identifier: str, blocks: list[dict[str, object]], at: str | None, response: Record
    ) -> Iterator[Step]:
        used = read_object(response.get("usage"))
        cached = read_object(used.get("prompt_tokens_details")).get("cached_tokens")
        counts = (
            counts_without_cache(used.get("prompt_tokens"), cached, used.get("completion_tokens")) if used else None
        )
        answer = {"id": identifier, "model": response.get("model"), "content": blocks, "stop_reason": "end"}
        yield from self.steps.assistant(answer | ({"usage": counts} if counts else {}), at)

    def _take_observation(self, event: Record, kind: str, at: str | None) -> Iterator[Step]:
        about, extras = read_object(event.get("tool_call_metadata")), read_object(event.get("extras"))
        if kind == "recall":
            known = read_objects(extras.get("microagent_knowledge"))
            texts = [f"[{each.get('name')}]\n{each.get('content')}" for each in known]
            yield from self._notice("\n\n".join([str(event.get("content") or ""), *texts]), at)
            return
        if kind in _IDLE:
            self.result.count_event(kind)
            return
        call = about.get("tool_call_id") or (f"event-{event['cause']}" if event.get("cause") is not None else None)
        if call is None and "extras" not in event:  # the oldest have no ids
            call = self._last_call
        code = read_object(extras.get("metadata")).get("exit_code", extras.get("exit_code", event.get("exit_code")))
        failed = kind in ("error", "user_rejected") or isinstance(code, int) and code > 0
        yield from self._results(call, event.get("content"), at, failed=failed)

    # --- version 1 ----------------------------------------------------------------------------------------------------

    def _take_new(self, event: Record, kind: str, at: str | None) -> Iterator[Step]:
        if isinstance(event.get("llm_message"), Mapping):
            message = read_object(event["llm_message"])
            extended = event.get("extended_content")
            content = [*_parts(message.get("content")), *_parts(extended)]
            if message.get("role") == "assistant":
                blocks = [*text_blocks(message.get("reasoning_content"), None), *content]
                yield from self._answer(f"event-{self._number}", blocks, at, {})
            else:
                yield from self.steps.user({"content": content}, at)
        elif "system_prompt" in event:
            yield from self._notice([event["system_prompt"]], at)
        elif "tool_call" in event or kind == "ActionEvent":
            yield from self._take_call(event, at)
        elif isinstance(event.get("observation"), Mapping):
            seen = read_object(event["observation"])
            text = next((seen[key] for key in ("content", "output", "message") if seen.get(key)), seen.get("error"))
            code = seen.get("exit_code")
            failed = seen.get("is_error") is True or bool(seen.get("error")) or isinstance(code, int) and code > 0
            yield from self._results(event.get("tool_call_id"), _parts(text), at, failed=failed)
        elif failure := event.get("error") or event.get("rejection_reason") or event.get("detail"):
            yield from self._results(event.get("tool_call_id"), str(failure), at, failed=True)
        elif kind in ("Condensation", "CondensationEvent"):
            yield from self._notice(event.get("summary") or "", at, compaction=True)
        else:
            self.result.count_event(kind)

    def _take_call(self, event: Record, at: str | None) -> Iterator[Step]:
        call, action = read_object(event.get("tool_call")), read_object(event.get("action"))
        asked = read_object(call.get("function")) or call
        given = parse_json(str(asked.get("arguments"))) if asked.get("arguments") else None
        if not isinstance(given, dict):
            given = {key: storable_value(value) for key, value in action.items() if key not in _NOT_ARGUMENTS}
        blocks = [*text_blocks(event.get("reasoning_content"), None), *_parts(event.get("thought"))]
        name = event.get("tool_name") or asked.get("name") or action.get("kind")
        blocks.append(call_block(event.get("tool_call_id") or call.get("id") or f"event-{self._number}", name, given))
        yield from self._answer(read_text(event.get("llm_response_id")) or f"event-{self._number}", blocks, at, {})


def _parts(content: object) -> list[dict[str, object]]:
    """Return content as blocks. An image may have several addresses."""
    found: list[dict[str, object]] = []
    for part in content if isinstance(content, list) else [{"type": "text", "text": content}] if content else []:
        item = read_object(part)
        addresses = item.get("image_urls")
        if isinstance(addresses, list):
            found += [{"type": "image_url", "image_url": {"url": url}} for url in addresses]
        else:
            found.append(dict(item) if item else {"type": "text", "text": str(part)})
    return found
