"""The arguments of `litellm.completion` for one request: parameters, and messages as the provider wants them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from runner.base.types import JsonValue, ModelRequest
from runner.models.litellm.litellm_errors import NO_REASONING
from runner.models.litellm.litellm_parameters import LiteLLMTarget, choose_parameters
from runner.models.wire.carried import REASONING, thinks_first
from runner.models.wire.context_overflow import Overflow


@dataclass(frozen=True, slots=True)
class Sending:
    """A request, ready to be sent."""

    arguments: dict[str, Any]
    not_sent: tuple[str, ...]  # parameters left out, each with its reason
    ours: tuple[str, ...]  # names of the runner's own parameters, which may be left out
    options: tuple[str, ...]  # names of the preset's options that are sent

    def lower_answer(self, overflow: Overflow) -> str:
        """Lower the limit on output tokens so that prompt and answer fit. Return a note, or "" if that is of no use."""
        for name in ("max_tokens", "max_completion_tokens"):
            asked, room = self.arguments.get(name), overflow.room
            if isinstance(asked, int) and room is not None and room < asked:
                self.arguments[name] = room
                return (
                    f"The limit on output tokens was lowered from {asked:,} to {room:,}: prompt ({overflow.prompt:,} tokens)"
                    f" and answer must fit the context window of {overflow.window:,} tokens."
                )
        return ""


def prepare(
    target: LiteLLMTarget, request: ModelRequest, options: Mapping[str, object], refused: Mapping[str, str]
) -> Sending:
    """`refused`: name -> the provider's words, of earlier refusals. Target, address and timeouts are not included."""
    chosen = choose_parameters(target, request, options, refused)
    if chosen.thinks_by_budget and not thinks_first(request.messages):
        chosen.values.pop("thinking", None)
        chosen.values.pop("reasoning_effort", None)
        chosen.left_out.append("thinking: that of an earlier turn was not kept, and cannot be gone on with")
    messages = messages_for(target, request, refused)
    tools = {"tools": deepcopy([dict(tool) for tool in request.tools])} if request.tools else {}  # litellm changes them
    return Sending(
        arguments={**chosen.values, "messages": messages, **tools},
        not_sent=tuple(chosen.left_out),
        ours=tuple(_ours(chosen.asked, chosen.values, messages)),
        options=tuple(name for name in chosen.values if name in options and name not in chosen.asked),
    )


def _ours(asked: Collection[str], values: Mapping[str, JsonValue], messages: list[dict[str, JsonValue]]) -> list[str]:
    named = ("temperature", "seed", "response_format", "max_tokens")
    marks = [name for name in (CACHE_MARK, REASONING) if any(name in message for message in messages)]
    bridged = [name for name in ("include", "store") if name in values]
    bare = any(message.get("tool_calls") and REASONING not in message for message in messages)
    found = [*(name for name in named if name in asked and name in values), *bridged, *marks]
    return [*found, NO_REASONING] if bare else found


CACHE_MARK = "cache_control"
# They refuse unsigned reasoning in messages, each in its own words: Groq's are "property 'reasoning_content' is
# unsupported". Google and Anthropic accept signed reasoning.
TAKE_NO_REASONING = frozenset({"groq", "cerebras", "mistral", "gemini", "vertex_ai", "anthropic", "bedrock", "azure"})


def messages_for(target: LiteLLMTarget, request: ModelRequest, refused: Collection[str]) -> list[dict[str, JsonValue]]:
    messages = deepcopy([dict(message) for message in request.messages])  # litellm changes them
    for message in messages:
        if not _takes_reasoning(target, message, refused):
            message.pop(REASONING, None)
        elif NO_REASONING in refused:
            message.setdefault(REASONING, " ")  # the minimum that they accept, by the source of litellm 1.106.2
    if request.tools and target.is_claude and CACHE_MARK not in refused:
        for place in find_cache_places(messages):
            messages[place][CACHE_MARK] = {"type": "ephemeral"}
    return messages


def _takes_reasoning(target: LiteLLMTarget, message: Mapping[str, JsonValue], refused: Collection[str]) -> bool:
    """Only for a turn that called tools, where Kimi and DeepSeek demand it. DeepSeek refuses it in any other.

    Azure hosts Kimi too: a provider that has demanded reasoning gets it, against the usual rule.
    """
    is_usual = target.provider not in TAKE_NO_REASONING or NO_REASONING in refused
    return bool(message.get("tool_calls")) and is_usual and REASONING not in refused


def find_cache_places(messages: Sequence[Mapping[str, JsonValue]]) -> list[int]:
    """Cache marks for Anthropic: after the system message, where the last request ended, and at the end.

    Only conversations with tools use them, as each turn reads what the one before wrote. Anthropic caches the tools
    with the system message, and accepts four marks.
    """
    system = [0] if messages and messages[0].get("role") == "system" else []
    answered = [place for place, message in enumerate(messages) if message.get("role") == "assistant"]
    before = [answered[-1] - 1] if answered else []
    return sorted({*system, *(place for place in before if place >= 0), len(messages) - 1})
