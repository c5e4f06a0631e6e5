"""What `litellm.completion` is called with for one request."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from runner.base.types import JsonValue, ModelRequest
from runner.models.litellm.litellm_history import CACHE_MARK, messages_for
from runner.models.litellm.litellm_parameters import LiteLLMTarget, choose_parameters
from runner.models.litellm.litellm_refusals import NO_REASONING, find_refused_parameter
from runner.models.wire.carried import REASONING, thinks_first
from runner.models.wire.context_overflow import Overflow


@dataclass(frozen=True, slots=True)
class Sending:
    arguments: dict[str, Any]
    not_sent: tuple[str, ...]  # what was asked for and left out, each with its reason
    ours: tuple[str, ...]  # names of what the runner sends by itself and may leave out
    options: tuple[str, ...]  # names of the preset's options that are sent

    def find_refused(self, error: Exception) -> str | None:
        """What the provider refuses of this, where the request can be sent without it."""
        return find_refused_parameter(error, self.ours)

    def refused_option(self, error: Exception) -> str | None:
        return find_refused_parameter(error, self.options)

    def lower_answer(self, overflow: Overflow) -> str:
        """Lowers the limit on output tokens so that prompt and answer fit, and says so; "" where that is of no use."""
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
    target: LiteLLMTarget, request: ModelRequest, options: Mapping[str, Any], refused: Mapping[str, str]
) -> Sending:
    """`refused`: name -> the provider's words, of what it refused before. Who is asked, where and how long is not in it."""
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
