"""Any provider that litellm supports: "litellm/<model as litellm names it>", e.g. "litellm/openai/gpt-4.1-mini".

The key is named, never held: `key_variable` is the name of an environment variable that is read at each call. litellm
is imported inside the call, as its import takes seconds, and with its bundled price list, as it would fetch one.

Costs are litellm's list prices, or those that the preset states. They stay unknown for a model without a price, and
for a private address (`api_base`) whose preset states none.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib import metadata
from types import ModuleType
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from runner.base.errors import (
    AccountRefused,
    ContextExceeded,
    KeyRefused,
    ModelRefused,
    ModelUnavailable,
    SetupError,
)
from runner.base.text import storable, storable_value
from runner.base.types import FILTERED, TOO_LONG, UNREADABLE, JsonValue, ModelReply, ModelRequest, ToolCall, Usage
from runner.models.litellm.litellm_errors import (
    EmptyReply,
    Overflow,
    fills,
    find_refused_parameter,
    is_bare_500,
    is_of_the_key,
    is_passing,
    is_unreachable,
    overflow_of,
    provider_body,
    retry_after,
)
from runner.models.litellm.litellm_package import find_missing_module, load_litellm
from runner.models.litellm.litellm_request import LiteLLMTarget, Sending, prepare
from runner.models.preset import Preset, has_address
from runner.models.wire.call_slots import (
    Endpoint,
    Patience,
    TransientFailure,
    call_slot,
    note_answer,
    note_failure,
    read_seconds,
)
from runner.models.wire.carried import FIELDS, read_carried
from runner.models.wire.error_wording import describe_error, hide_key
from runner.models.wire.metering import says_no_credit

if TYPE_CHECKING:
    from runner.models.wire.bounded import BoundedCall

PROVIDER = "litellm"
TIMEOUT_SECONDS = 180.0  # of silence
CALL_SECONDS = 3_600.0  # of one completion with all its tries
MAX_ERROR_CHARS = 2_000
MAX_REASON = 300  # characters of a provider's reason for refusing a parameter
SHORTEST_PRIVATE = 6  # characters; a shorter key is not a key, and removing it would damage words
# Providers whose credentials are more than a single key.
OTHER_CREDENTIALS = frozenset({"bedrock", "vertex_ai", "sagemaker", "azure"})
# OpenRouter's and Zhipu's finish reason for an upstream failure in mid-reply. litellm reports it as "stop".
BROKEN_OFF = ("error", "network_error")
SIGNATURE = "__thought__"  # litellm puts it between a call's id and Google's signature of the thought behind it


class _RefusedByLiteLLM(Exception):
    """The provider refuses one parameter of the request, which can be sent without it."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name)
        self.name, self.reason = name, reason


class _Overflowed(Exception):
    """The request does not fit the model's context window."""

    def __init__(self, message: str, overflow: Overflow) -> None:
        super().__init__(message)
        self.overflow = overflow


class LiteLLM:
    """One model of one provider. Between two calls it holds its settings, and which parameters the provider refuses."""

    scripted = False
    version = "unknown"  # no provider announces when equal requests begin to get other replies
    preset: Preset | None = None

    def __init__(
        self,
        name: str,
        *,
        key_variable: str | None = None,
        api_base: str | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`timeout_seconds`: a provider silent for longer has hung. `sleep` may raise to end a wait."""
        provider, _, model = name.partition("/")
        if provider != PROVIDER or not model:
            raise SetupError(f"model {name!r}: expected litellm/<model>, e.g. litellm/openai/gpt-4.1-mini")
        if has_address(model):
            raise SetupError(f"model {name!r}: a model name contains no address; put it in a preset's api_base")
        self.name, self.model = name, model
        self.key_variable, self.api_base, self.timeout_seconds = key_variable, api_base, timeout_seconds
        self.sleep = sleep
        self.wait_in_queue: Callable[[float], None] = lambda seconds: self.sleep(seconds)  # a look at the queue
        self._refused: dict[str, str] = {}  # parameter -> the provider's words

    @classmethod
    def of_preset(cls, preset: Preset) -> LiteLLM:
        model = cls(
            f"{PROVIDER}/{preset.host_model}",
            key_variable=preset.key_variable,
            api_base=preset.api_base,
            timeout_seconds=preset.timeout_seconds or TIMEOUT_SECONDS,
        )
        model.preset, model.name = preset, preset.name
        return model

    @property
    def context_window(self) -> int | None:
        """Return the model's context window in tokens, from the preset or litellm's list. None if unknown."""
        if self.preset is not None and self.preset.context_window is not None:
            return self.preset.context_window
        # Read the list itself: litellm's own look-up would query an Ollama server
        entry = self.load().model_cost.get(self.model) or self.load().model_cost.get(self.model.partition("/")[2]) or {}
        found = entry.get("max_input_tokens")
        return found if isinstance(found, int) and found > 0 else None

    @property
    def price_table(self) -> str:
        if self.preset is not None and self.preset.prices is not None:
            return f"preset {self.preset.name}"
        return f"litellm {metadata.version('litellm')}"

    @property
    def priced(self) -> bool:
        if self.preset is not None and self.preset.prices is not None:
            return True
        return not self._has_own_address and _has_list_price(self.load(), self.model)

    @property
    def _has_own_address(self) -> bool:
        return bool(self.api_base) or (self.preset is not None and self.preset.api_base_variable is not None)

    def _address(self) -> str | None:
        return self.preset.base_url() if self.preset is not None else self.api_base

    def complete(self, request: ModelRequest) -> ModelReply:
        """ModelUnavailable after failures that may pass (`runner.models.wire.call_slots`), else ModelRefused at once.

        KeyRefused, at once, names the variable that holds the key; AccountRefused, at once, if the account has no
        credit or the provider no such model. No error quotes the key or a private address.

        A withheld reply (a refusal, a content filter) is a reply: its finish reason says so. So is a conversation with
        tools that outgrows the context window, as a result of the agent; without tools it is ContextExceeded. If only
        the requested answer does not fit, a shorter one is asked for, once, and the reply's notes say so.
        """
        from runner.models.wire.bounded import BoundedCall, bound_calls  # httpx takes a while to import

        litellm = self.load()
        longest = None if self.preset is None else self.preset.max_tokens
        if longest is not None and (not request.max_tokens or request.max_tokens > longest):
            request = replace(request, max_tokens=longest)
        sending, patience = self._prepare(litellm, request), Patience(self.name, self.sleep)
        endpoint = Endpoint(self.name, self.name) if self.preset is None else self.preset.endpoint()
        queued = 0.0
        notes: list[str] = []
        left_out: set[str] = set()
        reply: ModelReply | None = None
        seconds = read_seconds("SKILLGLASS_MODEL_CALL_SECONDS", CALL_SECONDS)
        with bound_calls(BoundedCall(self.timeout_seconds, time.monotonic() + seconds)) as call:
            while reply is None:
                call.begin_try()
                try:
                    with call_slot(endpoint, self.wait_in_queue) as waited:
                        queued += waited
                        call.ends_at += waited
                        patience.begin_try(waited)
                        reply = self._try(litellm, sending, call)
                except TransientFailure as failure:
                    note_failure(endpoint, failure.reason, patience.seconds_left(failure))
                    try:
                        patience.wait_out(failure)
                    except ModelUnavailable:
                        # An unexplained server error at a full window counts as an overflow.
                        if not (failure.is_bare and fills(request, self.context_window)):
                            raise
                        reply = self._overflow(request, Overflow(self.context_window), failure.reason)
                except _RefusedByLiteLLM as parameter:
                    if parameter.name in left_out:  # refused with it and without it
                        raise ModelRefused(f"{parameter.reason} (model {self.name})") from None
                    left_out.add(parameter.name)  # one more each time, so this ends
                    self._refused[parameter.name] = parameter.reason
                    sending = self._prepare(litellm, request)
                except _Overflowed as found:
                    if not notes and (lowered := sending.lower_answer(found.overflow)):
                        notes.append(lowered)
                    else:
                        reply = self._overflow(request, found.overflow, str(found))
        note_answer(endpoint)
        return replace(
            reply,
            failed_tries=tuple(patience.failed),
            not_sent=sending.not_sent,
            notes=tuple(notes),
            queued_seconds=queued,
        )

    def _try(self, litellm: ModuleType, sending: Sending, call: BoundedCall) -> ModelReply:
        try:
            response = litellm.completion(**sending.arguments)
            return read_reply(response, self.model, self._usage(litellm, response))
        except litellm.exceptions.ContentPolicyViolationError as error:
            return ModelReply(self._describe_error(error), finish_reason=FILTERED, model=self.model)
        except Exception as error:
            # "from None": a trace into litellm's own errors would quote what we keep out of ours.
            raise self._failure(call.problem or error, sending, call) from None

    def _failure(self, problem: Exception, sending: Sending, call: BoundedCall) -> Exception:
        """Return what a failed try means for the call."""
        if missing := find_missing_module(problem):
            return self._without(missing)
        used = call.used if call.answering else None
        if call.replied:  # nothing was refused: the reply is unreadable to litellm or us, for any status it is given
            if not isinstance(problem, EmptyReply):
                cause, problem = problem, EmptyReply(str(problem))
                problem.__cause__ = cause
            reason = self._describe_error(problem)
            return TransientFailure(
                reason, is_unreachable=False, is_last=False, is_bare=False, retry_after=None, usage=used
            )
        reason = self._describe_error(problem)
        message = f"{reason} (model {self.name})"
        if (overflow := overflow_of(problem)) is not None:
            return _Overflowed(reason, overflow)
        if name := find_refused_parameter(problem, sending.ours):
            return _RefusedByLiteLLM(name, reason[:MAX_REASON])
        if is_of_the_key(problem):
            variable = self.key_variable or _usual_variable(self.model)
            named = f"the key in the environment variable {variable}" if variable else "the key"
            return KeyRefused(f"The provider refused {named}: {message}", variable)
        if getattr(problem, "status_code", None) in (402, 404) or says_no_credit(provider_body(problem)):
            return AccountRefused(message)
        if not is_passing(problem):
            option = find_refused_parameter(problem, sending.options)
            advice = f"\nThe preset's option {option} is refused; `{option}: null` leaves it out." if option else ""
            return ModelRefused(message + advice)
        return TransientFailure(
            reason,
            is_unreachable=is_unreachable(problem),
            is_last=type(problem).__name__ == "TimeUp",
            is_bare=is_bare_500(problem),
            retry_after=retry_after(problem),
            usage=used,
        )

    def _overflow(self, request: ModelRequest, overflow: Overflow, message: str) -> ModelReply:
        if request.tools:
            return ModelReply(message, finish_reason=TOO_LONG, model=self.model)
        raise ContextExceeded(f"{message} (model {self.name})", overflow.window, overflow.prompt) from None

    def _prepare(self, litellm: ModuleType, request: ModelRequest) -> Sending:
        """Prepare the call. A private address only gets the key named for it: litellm would send any key that it
        finds."""
        address = self._address() if self._has_own_address else None
        options = {} if self.preset is None else self.preset.options
        sending = prepare(LiteLLMTarget(litellm, self.model, address), request, options, self._refused)
        key = self.read_key() if self.key_variable else "none" if self._has_own_address else None
        access = {"api_key": key, "api_base": self._address()}
        sending.arguments.update({name: value for name, value in access.items() if value is not None})
        sending.arguments.update(
            model=self.model,
            timeout=self.timeout_seconds,
            num_retries=0,  # retries are counted here, where they can be tested
            max_retries=0,
            _skip_mcp_handler=True,  # it looks for MCP servers among the tools, which needs an extra package
        )
        return sending

    def read_key(self) -> str:
        """Read the key from its variable. SetupError names a variable that is not set."""
        key = os.environ.get(self.key_variable or "", "").strip()
        if not key:
            raise SetupError(f"{self.name}: the environment variable {self.key_variable} is not set")
        return key

    def _describe_error(self, error: Exception) -> str:
        """Return the message of the provider or its client, without the key and the address, which it may quote."""
        return self.hide_private(
            describe_error(error, self.api_base or (self.preset.api_base_variable if self.preset else None))
        )[:MAX_ERROR_CHARS]

    def hide_private(self, text: str) -> str:
        """Remove the values of the call's variables from the text. Only the beginning of a long text is kept."""
        text = text[: 4 * MAX_ERROR_CHARS]
        address = self.preset.api_base_variable if self.preset else None
        names = filter(None, (self.key_variable, address, _usual_variable(self.model)))
        private = {os.environ.get(name, "").strip(): name for name in names}
        for value in sorted(private, key=len, reverse=True):
            if len(value) < SHORTEST_PRIVATE:
                continue
            text = text.replace(value, f"[{private[value]}]")
            if "://" not in value:  # a part of an address occurs in others too
                text = hide_key(text, value, f"[{private[value]}]")
        return text

    def load(self) -> ModuleType:
        """Import litellm now. SetupError if that fails."""
        try:
            return load_litellm()
        except ImportError as error:
            raise self._without(str(error)) from None

    def _without(self, missing: str) -> SetupError:
        return SetupError(f"{self.name}: a Python package is missing on this machine: {missing[:MAX_REASON]}")

    def _usage(self, litellm: ModuleType, response: Any) -> Usage:
        """Return the usage. Input includes cached input, as litellm reports it for every provider, so it is counted
        once."""
        usage = getattr(response, "usage", None)
        # litellm makes up zeros where the provider gave no counts; some providers give no sum.
        if usage is None or not (usage.prompt_tokens or usage.completion_tokens):
            return Usage()
        details = getattr(usage, "prompt_tokens_details", None)
        cached = getattr(details, "cached_tokens", None)
        tokens = Usage(
            input_tokens=_count(usage.prompt_tokens) or None,  # every prompt has some
            cached_tokens=_count(getattr(usage, "cached_tokens", None) if cached is None else cached),  # Moonshot's
            output_tokens=_count(usage.completion_tokens),
        )
        return replace(tokens, cost_usd=self._cost(litellm, response, tokens))

    def _cost(self, litellm: ModuleType, response: Any, tokens: Usage) -> float | None:
        if self.preset is not None and self.preset.prices is not None:
            return self.preset.prices.cost(tokens, cache_written(response.usage))
        if self._has_own_address:
            return None
        try:
            cost = litellm.completion_cost(completion_response=response, model=self.model)
        except Exception:  # litellm raises a bare Exception for a model without a price
            return None
        return float(cost) if cost else None


def cache_written(usage: JsonValue) -> int:
    """Return the tokens of the input that the provider wrote to its cache. Anthropic charges more for them."""
    written = getattr(usage, "cache_creation_input_tokens", None)
    return written if isinstance(written, int) and written > 0 else 0


def _count(value: object) -> int | None:
    """Return a count of tokens, or None for an impossible value."""
    return value if isinstance(value, int) and 0 <= value < 10**12 else None


def _usual_variable(model: str) -> str | None:
    """Return the variable that litellm reads for this provider by default."""
    provider, slash, _ = model.partition("/")
    return f"{provider.upper()}_API_KEY" if slash and provider not in OTHER_CREDENTIALS else None


def _has_list_price(litellm: ModuleType, model: str) -> bool:
    try:
        found = litellm.get_model_info(model)
    except Exception:  # litellm raises a bare Exception for a model it does not know
        return False
    return bool(found.get("input_cost_per_token")) and bool(found.get("output_cost_per_token"))


def read_reply(response: Any, model: str, usage: Usage) -> ModelReply:
    """Read a reply. Texts are made storable at once: half a character in one turn could not be sent back in the
    next."""
    if not response.choices:
        raise EmptyReply("no choices")
    choice = response.choices[0]
    if (native := (choice.get("provider_specific_fields") or {}).get("native_finish_reason")) in BROKEN_OFF:
        raise EmptyReply(f"finish reason {native!r}")
    message = choice.message
    refusal = getattr(message, "refusal", None) or (message.get("provider_specific_fields") or {}).get("refusal")
    reasoning = getattr(message, "reasoning_content", None)
    calls = tuple(tool_calls(message.tool_calls or ()))
    return ModelReply(
        text=storable(message.content or refusal or ""),
        tool_calls=calls,
        usage=usage,
        finish_reason=FILTERED if refusal else storable(str(choice.finish_reason or "unknown")),
        model=storable(str(response.model or model)),
        reasoning=None if reasoning is None else storable(reasoning),
        carried=read_carried(message, _fields_of_calls(message.tool_calls or (), calls)),
    )


def _fields_of_calls(raw: Sequence[Any], calls: Sequence[ToolCall]) -> dict[str, dict[str, object]]:
    """Return id -> what the provider wants back with the call: Google's signature, which litellm also appends to the
    id."""
    found: dict[str, dict[str, object]] = {}
    for each, call in zip(raw, calls, strict=True):
        _, _, hung = str(each.id or "").partition(SIGNATURE)
        fields = getattr(each, FIELDS, None) or ({"thought_signature": hung} if hung else None)
        if isinstance(fields, dict):
            found[call.id] = {FIELDS: fields}
    return found


def tool_calls(calls: Sequence[Any]) -> Iterator[ToolCall]:
    """Give each call a unique id, to match its result: some servers give none, or the same to all."""
    known: set[str] = set()
    for call in calls:
        identifier = storable(str(call.id or "").partition(SIGNATURE)[0])
        identifier = str(uuid4()) if identifier in known or not identifier else identifier
        known.add(identifier)
        yield ToolCall(identifier, storable(str(call.function.name)), read_arguments(call.function.arguments or "{}"))


def read_arguments(text: str) -> dict[str, JsonValue]:
    """Parse the arguments of a call. Those that are not a JSON object are kept verbatim, under UNREADABLE.
    Texts may contain line breaks."""
    try:
        found = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        found = None
    kept: dict[str, JsonValue] = storable_value(found if isinstance(found, dict) else {UNREADABLE: text})
    return kept
