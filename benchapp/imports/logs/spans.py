"""A conversation from spans of model calls and tool calls. Each span repeats the messages before it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import orjson

from benchapp.imports.reading.found_trials import dump_json
from runner.base.types import JsonValue, Verdict

Message = dict[str, JsonValue]
PASSED, FAILED = frozenset({"pass", "passed", "correct", "true"}), frozenset({"fail", "failed", "incorrect", "false"})


@dataclass
class Conversation:
    """Chat messages, each once, in the order of the spans that are added."""

    messages: list[Message] = field(default_factory=list)
    _given: Counter[tuple[str, ...]] = field(default_factory=Counter)
    _waiting: dict[str, str] = field(default_factory=dict)  # names of calls without a result, by id
    _last: Message | None = None  # answer

    def add_call(
        self,
        inputs: Iterable[Message],
        outputs: Sequence[Message],
        *,
        model: str,
        usage: Mapping[str, JsonValue],
        at: str,
    ) -> None:
        """Add a model's call: what is new in its input, then its answer, which is empty where no content was
        recorded."""
        seen = Counter[tuple[str, ...]]()
        for message in inputs:
            key = _key(message)
            seen[key] += 1
            if seen[key] > self._given[key]:
                self._add({**message, "timestamp": at})
        empty: Message = {"content": ""}
        for place, message in enumerate(outputs or [empty]):
            counted: Message = {"usage": dict(usage)} if usage and place == 0 else {}
            self._add({**message, "role": "assistant", "model": model or None, "timestamp": at, **counted})

    def add_tool(self, name: str, call: str, given: JsonValue, result: JsonValue, *, failed: bool, at: str) -> None:
        """Add the run of a tool. A call that no answer asked for is one of the last answer."""
        ident = (
            call if call in self._waiting else next((i for i, n in self._waiting.items() if n == name and not call), "")
        )
        if not ident and not self._given["tool", call]:
            ident = call or f"call-{len(self.messages)}-{len(self._waiting)}"
            if self._last is None:
                self._add({"role": "assistant", "content": "", "timestamp": at})
            self._calls_of_last().append({"id": ident, "name": name, "arguments": given})
            self._waiting[ident] = name
        if ident and result is not None:
            answer: Message = {"role": "tool", "tool_call_id": ident, "content": as_text(result)}
            self._add({**answer, "is_error": failed, "timestamp": at})

    def _calls_of_last(self) -> list[JsonValue]:
        """Return the list of the last answer's calls, to add one."""
        last = self._last if self._last is not None else {}
        if not isinstance(found := last.get("tool_calls"), list):
            found = last["tool_calls"] = []
        return found

    def add_error(self, text: str, at: str) -> None:
        self.messages.append({"role": "system", "content": text, "timestamp": at})

    def title(self) -> str:
        asked = (str(message.get("content") or "") for message in self.messages if message.get("role") == "user")
        return next((text.strip().partition("\n")[0][:120] for text in asked if text.strip()), "")

    def _add(self, message: Message) -> None:
        self._given[_key(message)] += 1
        self.messages.append(message)
        if message.get("role") == "assistant":
            self._last = message
            self._waiting |= {str(call["id"]): str(_name(call)) for call in _calls(message) if call.get("id")}
        elif message.get("role") == "tool":
            self._waiting.pop(str(message.get("tool_call_id")), None)


def _calls(message: Message) -> list[dict[str, JsonValue]]:
    calls = message.get("tool_calls")
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def _name(call: Mapping[str, JsonValue]) -> JsonValue:
    function = call.get("function")
    return (function if isinstance(function, dict) else call).get("name")


def _key(message: Message) -> tuple[str, ...]:
    """Return what a message and its repetition in a later input have in common."""
    role = str(message.get("role"))
    if role == "tool" and message.get("tool_call_id"):
        return role, str(message["tool_call_id"])
    calls = [str(call.get("id") or _name(call)) for call in _calls(message)]
    return role, as_text(message.get("content")).strip() if not calls else "", *calls


def as_text(value: JsonValue) -> str:
    return value if isinstance(value, str) else "" if value is None else dump_json(value).decode()


def parse(value: JsonValue) -> JsonValue:
    """Return the JSON in a text that begins like an object or a list, else the value itself."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            found: JsonValue = orjson.loads(value)
        except orjson.JSONDecodeError:
            return value
        return found
    return value


def judge(scores: Iterable[tuple[str, float | None, str, str]]) -> Verdict | None:
    """Return the verdict of evaluations (name, value, label, explanation). Only labels decide whether it passed."""
    found = list(scores)
    if not found:
        return None
    labels = {label.lower() for _, _, label, _ in found if label}
    success = False if labels & FAILED else True if labels and labels <= PASSED else None
    told = [f"{name}: {label or value}. {why}".strip() for name, value, label, why in found]
    values = {name: value for name, value, _, _ in found if value is not None}
    reward = next(iter(values.values())) if len(values) == 1 else None
    return Verdict("evaluation", success, reward, rewards=values, output="\n".join(told)[:10_000])
