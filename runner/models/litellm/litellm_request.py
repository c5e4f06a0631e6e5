"""The arguments of `litellm.completion` for one request: parameters, and messages as the provider wants them.

Three sources say which parameters a model accepts: litellm (its lists and its mapping of values), the rules below,
which litellm lacks, and the provider: a parameter that it refuses is left out from then on (`litellm_errors`).

Only the runner's own parameters are left out, with the reason. An option of a preset was written for this model: if it
cannot be sent, that is an error.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from runner.base.types import JsonValue, ModelRequest
from runner.models.litellm.litellm_errors import NO_REASONING, Overflow
from runner.models.wire.carried import REASONING, thinks_first


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
                    f"The limit on output tokens was lowered from {asked:,} to {room:,}: prompt ({overflow.prompt:,} "
                    f"tokens) and answer must fit the context window of {overflow.window:,} tokens."
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
    named = ("temperature", "seed", "response_format", "max_tokens")
    marks = [name for name in (CACHE_MARK, REASONING) if any(name in message for message in messages)]
    bridged = [name for name in ("include", "store") if name in chosen.values]
    bare = any(message.get("tool_calls") and REASONING not in message for message in messages)
    found = [*(name for name in named if name in chosen.asked and name in chosen.values), *bridged, *marks]
    return Sending(
        arguments={**chosen.values, "messages": messages, **tools},
        not_sent=tuple(chosen.left_out),
        ours=tuple([*found, NO_REASONING] if bare else found),
        options=tuple(name for name in chosen.values if name in options and name not in chosen.asked),
    )


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
        # Cache marks for Anthropic: after the system message, where the last request ended, and at the end. Only
        # conversations with tools use them, as each turn reads what the one before wrote. Anthropic caches the tools
        # with the system message, and accepts four marks.
        system = [0] if messages and messages[0].get("role") == "system" else []
        answered = [place for place, message in enumerate(messages) if message.get("role") == "assistant"]
        before = [answered[-1] - 1] if answered else []
        for place in sorted({*system, *(place for place in before if place >= 0), len(messages) - 1}):
            messages[place][CACHE_MARK] = {"type": "ephemeral"}
    return messages


def _takes_reasoning(target: LiteLLMTarget, message: Mapping[str, JsonValue], refused: Collection[str]) -> bool:
    """Only for a turn that called tools, where Kimi and DeepSeek demand it. DeepSeek refuses it in any other.

    Azure hosts Kimi too: a provider that has demanded reasoning gets it, against the usual rule.
    """
    is_usual = target.provider not in TAKE_NO_REASONING or NO_REASONING in refused
    return bool(message.get("tool_calls")) and is_usual and REASONING not in refused


# --- parameters -------------------------------------------------------------------------------------------------------


SEED_BITS = 0x7FFF_FFFF  # 31: Google's seed is an int32, others take no more than that either
SMALLEST_BUDGET = 1_024  # tokens of thinking, according to Anthropic's documentation
# A parameter's names in litellm's translation for a provider.
ALIASES = {
    "temperature": {"temperature"},
    "seed": {"seed", "random_seed"},
    "response_format": {"response_format", "response_mime_type", "format", "output_format"},
}
BRIDGED_PROVIDERS = frozenset({"openai", "azure", "azure_ai"})
CLAUDE_PROVIDERS = frozenset({"anthropic", "bedrock", "bedrock_converse", "vertex_ai", "azure_ai", "openrouter"})


class LiteLLMTarget:
    """The target of a request, in litellm's terms. `full_name`: "anthropic/claude-opus-4-6"; `model` without its
    provider: "claude-opus-4-6". `address`: if it is not the provider's."""

    def __init__(self, litellm: ModuleType, full_name: str, address: str | None) -> None:
        """For a provider unknown to litellm, the call itself raises its error."""
        self.litellm, self.full_name, self.address = litellm, full_name, address
        try:
            self.model, self.provider, *_ = litellm.get_llm_provider(full_name)
        except Exception:  # of litellm's own kinds
            self.provider, _, self.model = full_name.partition("/")
        of_claude = self.provider in CLAUDE_PROVIDERS and "claude" in self.model.lower()
        self.is_claude = self.provider == "anthropic" or of_claude


@dataclass(slots=True)
class Parameters:
    """`values`: for litellm. `left_out`: unsent parameters of the runner, "temperature 0.2: <reason>"."""

    values: dict[str, Any]
    asked: frozenset[str]  # names of the runner's own
    left_out: list[str] = field(default_factory=list)
    thinks_by_budget: bool = False  # Claude's older way of thinking, which needs the thoughts of earlier turns back

    def leave(self, name: str, reason: str) -> None:
        value = self.values.pop(name)
        shown = value["type"] if name == "response_format" else value
        self.left_out.append(f"{name} {shown}: {reason}")

    def list_open(self) -> list[str]:
        """List the runner's parameters that may still be left out, except its limit on output tokens."""
        return [name for name in ("temperature", "seed", "response_format") if name in self.asked & self.values.keys()]


def choose_parameters(
    target: LiteLLMTarget, request: ModelRequest, options: Mapping[str, object], refused: Mapping[str, str]
) -> Parameters:
    """`options`: the preset's; null: never sent. `refused`: the provider's earlier refusals, with its words."""
    wanted = {
        "temperature": request.temperature,
        "max_tokens": request.max_tokens,
        "seed": None if request.seed is None else request.seed & SEED_BITS,
        "response_format": {"type": "json_object"} if request.json_object else None,
    }
    asked = {name: value for name, value in wanted.items() if value is not None}
    given = {name: value for name, value in options.items() if value is not None and name not in asked}
    chosen = Parameters({**given, **asked}, frozenset(asked))
    for name in sorted(asked.keys() & {name for name, value in options.items() if value is None}):
        chosen.leave(name, "the preset says null")
    for name in refused:
        if name in chosen.asked & chosen.values.keys() and name != "max_tokens":
            chosen.leave(name, f"the provider refuses it: {refused[name]}")
    if "max_tokens" in refused and "max_tokens" in chosen.values:
        chosen.values["max_completion_tokens"] = chosen.values.pop("max_tokens")
    _follow_list(target, chosen)
    if target.is_claude:
        _follow_claude(chosen)
    _follow_mapping(target, chosen)
    if is_bridged(target, request, chosen.values):
        # Follow OpenAI's documentation: no seed, reasoning to be sent back is encrypted, nothing is kept at the
        # provider
        if "seed" in chosen.values:
            chosen.leave("seed", "the Responses API takes none")
        ours = {"store": False, "include": ["reasoning.encrypted_content"]}
        chosen.values.update({name: value for name, value in ours.items() if name not in {**chosen.values, **refused}})
    return chosen


def _follow_list(target: LiteLLMTarget, chosen: Parameters) -> None:
    """Apply litellm's list for the model. An option that the list lacks is sent anyway: lists grow old."""
    known = target.litellm.get_supported_openai_params(model=target.full_name)
    if known is None:
        return
    for name in chosen.list_open():
        if name not in known:
            chosen.leave(name, f"{target.model} takes none")
    usual = set(getattr(target.litellm.constants, "DEFAULT_CHAT_COMPLETION_PARAM_VALUES", ()))
    if forced := sorted(name for name in chosen.values if name in usual and name not in known):
        chosen.values["allowed_openai_params"] = [*chosen.values.get("allowed_openai_params", ()), *forced]


def _follow_claude(chosen: Parameters) -> None:
    """Follow Anthropic's documentation: thinking needs temperature 1, and newer models take it or top_p, not both."""
    thinking, effort = chosen.values.get("thinking"), chosen.values.get("reasoning_effort")
    thinks = (isinstance(thinking, dict) and thinking.get("type") != "disabled") or effort not in (None, "none")
    if "temperature" not in chosen.asked & chosen.values.keys():
        return
    if thinks and chosen.values["temperature"] != 1:
        chosen.leave("temperature", "Claude thinks at no other temperature than 1")
    elif "top_p" in chosen.values:
        chosen.leave("temperature", "Claude does not take it with the preset's top_p")


def _follow_mapping(target: LiteLLMTarget, chosen: Parameters) -> None:
    """Apply litellm's mapping for this provider: it drops some values and would refuse others."""
    made = _map_parameters(target, chosen.values)
    if made is None:
        return
    names, waiting = set[str](), [made]
    while waiting:
        found = waiting.pop()
        names.update(map(str, found))
        waiting += [item for item in found.values() if isinstance(item, dict)]
    for name in chosen.list_open():
        if not ALIASES[name] & names:
            chosen.leave(name, f"{target.model} does not take it")
    _fit_budget(chosen, made.get("thinking"))
    thinking = (_map_parameters(target, chosen.values) or {}).get("thinking") if target.is_claude else None
    chosen.thinks_by_budget = isinstance(thinking, dict) and thinking.get("type") == "enabled"


def _map_parameters(target: LiteLLMTarget, values: Mapping[str, JsonValue]) -> dict[str, JsonValue] | None:
    try:
        made: dict[str, JsonValue] = target.litellm.utils.get_optional_params(
            model=target.model, custom_llm_provider=target.provider, drop_params=True, **values
        )
    except Exception:  # litellm repeats any error at the call itself
        return None
    return made


def _fit_budget(chosen: Parameters, thinking: JsonValue) -> None:
    """Fit the thinking budget: Anthropic counts thinking as output and refuses a budget that reaches the limit on
    it."""
    limit = chosen.values.get("max_tokens")
    if not isinstance(thinking, dict) or not isinstance(limit, int):
        return
    budget = thinking.get("budget_tokens")
    if not isinstance(budget, int) or budget < limit:
        return
    chosen.values.pop("reasoning_effort", None)
    chosen.values.pop("thinking", None)
    if limit <= SMALLEST_BUDGET:
        chosen.left_out.append(
            f"thinking: its least budget, {SMALLEST_BUDGET:,} tokens, reaches the limit of {limit:,}"
        )
        return
    fitting = max(SMALLEST_BUDGET, limit // 2)
    chosen.values["thinking"] = {**thinking, "budget_tokens": fitting}
    chosen.left_out.append(
        f"thinking budget {budget:,}: {fitting:,} is sent, as the limit on output is {limit:,} tokens"
    )


def is_bridged(target: LiteLLMTarget, request: ModelRequest, values: Mapping[str, JsonValue]) -> bool:
    """Does litellm reach this model through OpenAI's Responses API? True for the codex models."""
    if target.provider not in BRIDGED_PROVIDERS:
        return False
    try:
        found, _ = target.litellm.main.responses_api_bridge_check(
            model=target.model,
            custom_llm_provider=target.provider,
            tools=request.tools,
            reasoning_effort=values.get("reasoning_effort"),
            api_base=target.address,
        )
    except Exception:  # not part of litellm's public API
        return False
    return bool(found.get("mode") == "responses")
