"""A conversation's messages as one provider wants them: what it takes back of earlier turns, and marks for its cache."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy

from runner.base.types import JsonValue, ModelRequest
from runner.models.litellm.litellm_parameters import LiteLLMTarget
from runner.models.litellm.litellm_refusals import NO_REASONING
from runner.models.wire.carried import REASONING

CACHE_MARK = "cache_control"
# They refuse unsigned reasoning in messages, in their own words: Groq's is "property 'reasoning_content' is unsupported".
# Google and Anthropic take back what is signed.
TAKE_NO_REASONING = frozenset({"groq", "cerebras", "mistral", "gemini", "vertex_ai", "anthropic", "bedrock", "azure"})


def messages_for(target: LiteLLMTarget, request: ModelRequest, refused: Collection[str]) -> list[dict[str, JsonValue]]:
    messages = deepcopy([dict(message) for message in request.messages])  # litellm changes them
    for message in messages:
        if not _takes_reasoning(target, message, refused):
            message.pop(REASONING, None)
        elif NO_REASONING in refused:
            message.setdefault(REASONING, " ")  # the least that they take, by the source of litellm 1.106.2
    if request.tools and target.is_claude and CACHE_MARK not in refused:
        for place in find_cache_places(messages):
            messages[place][CACHE_MARK] = {"type": "ephemeral"}
    return messages


def _takes_reasoning(target: LiteLLMTarget, message: Mapping[str, JsonValue], refused: Collection[str]) -> bool:
    """Only with a turn that called tools, where Kimi and DeepSeek demand it. DeepSeek refuses it in any other.

    Azure hosts Kimi too: a provider that demands reasoning is sent it, whatever is usual there.
    """
    is_usual = target.provider not in TAKE_NO_REASONING or NO_REASONING in refused
    return bool(message.get("tool_calls")) and is_usual and REASONING not in refused


def find_cache_places(messages: Sequence[Mapping[str, JsonValue]]) -> list[int]:
    """Where Anthropic's cache is told to end: behind the system message, where the last request ended, and at the end.

    Only a conversation with tools goes on, and reads in every turn what the one before wrote. Anthropic caches the tools
    with the system message, and takes four marks.
    """
    system = [0] if messages and messages[0].get("role") == "system" else []
    answered = [place for place, message in enumerate(messages) if message.get("role") == "assistant"]
    before = [answered[-1] - 1] if answered else []
    return sorted({*system, *(place for place in before if place >= 0), len(messages) - 1})
