"""Any provider that litellm speaks to: "litellm/<model as litellm names it>", e.g. "litellm/openai/gpt-4.1-mini".

The key is named, never held: `key_variable` is the name of an environment variable that is read at each call. litellm is
imported inside the call, as its import takes seconds, and with its bundled price list, as it would fetch one.

Costs are litellm's list prices. They stay unknown for a model without a price, and behind an address of one's own
(`api_base`), whose prices nobody here knows.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import random
import time
from collections.abc import Callable, Mapping
from importlib import metadata
from typing import Any

from runner.errors import ModelRefused, ModelUnavailable, SetupError
from runner.models.presets import Preset
from runner.types import ModelReply, ModelRequest, ToolCall, Usage

PROVIDER = "litellm"
TRIES = 4
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
TIMEOUT_SECONDS = 180.0
MAX_ERROR_CHARS = 2_000
FILTERED = "content_filter"  # finish reason of a reply that the provider or the model withheld

# Worth another try, by the names litellm gives them; whatever else it raises will not get better by asking again.
PASSING = (
    "RateLimitError",
    "Timeout",
    "APIConnectionError",
    "ServiceUnavailableError",
    "InternalServerError",
    "BadGatewayError",
)


class LiteLLM:
    """One model of one provider. Holds no state between two calls but its settings."""

    scripted = False
    version = "unknown"  # no provider tells when equal requests begin to get other replies
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
        provider, _, model = name.partition("/")
        if provider != PROVIDER or not model:
            raise SetupError(f"model {name!r}: expected litellm/<model>, e.g. litellm/openai/gpt-4.1-mini")
        self.name, self.model = name, model
        self.key_variable, self.api_base, self.timeout_seconds = key_variable, api_base, timeout_seconds
        self._sleep = sleep

    @classmethod
    def of_preset(cls, preset: Preset) -> LiteLLM:
        model = cls(f"{PROVIDER}/{preset.host_model}", key_variable=preset.key_variable, api_base=preset.api_base)
        model.preset, model.name = preset, preset.name
        return model

    @property
    def price_table(self) -> str:
        return f"litellm {metadata.version('litellm')}"

    def complete(self, request: ModelRequest) -> ModelReply:
        """ModelUnavailable after TRIES failures that may pass (429, 5xx, connection); ModelRefused at once for the rest.

        A reply that was withheld (a refusal, a content filter) is a reply: its finish reason says so.
        """
        litellm = _litellm()
        arguments = self._arguments(litellm, request)
        for tried in range(1, TRIES + 1):
            try:
                return self._reply(litellm, litellm.completion(**arguments))
            except litellm.exceptions.ContentPolicyViolationError as error:
                return ModelReply(_told(error), finish_reason=FILTERED, model=self.model)
            except Exception as error:
                if type(error).__name__ not in PASSING and not _is_server_error(error):
                    raise ModelRefused(f"{self.name}: {_told(error)}") from error
                pause = _retry_after(error)
                if tried == TRIES or (pause or 0) > LONGEST_PAUSE_SECONDS:
                    raise ModelUnavailable(f"{self.name}: {_told(error)}", pause) from error
                self._sleep(max(pause or 0.0, _pause(tried)))
        raise AssertionError("the last try returns or raises")

    def _arguments(self, litellm: Any, request: ModelRequest) -> dict[str, Any]:
        given = {
            "temperature": request.temperature,
            "max_tokens": request.max_tokens,
            "seed": request.seed,
            "tools": [dict(tool) for tool in request.tools] or None,
            "response_format": {"type": "json_object"} if request.json_object else None,
        }
        known = set(litellm.get_supported_openai_params(model=self.model) or given)
        return {
            "model": self.model,
            "messages": [dict(message) for message in request.messages],
            "timeout": self.timeout_seconds,
            "num_retries": 0,  # retries are counted here, where they can be tested
            "max_retries": 0,
            **{name: value for name, value in given.items() if value is not None and name in known},
            **self._access(),
        }

    def _access(self) -> dict[str, str]:
        """To an address of one's own no key goes but the one named for it: litellm would send what it finds."""
        key = self._key() if self.key_variable else "none" if self.api_base else None
        given = {"api_key": key, "api_base": self.api_base}
        return {name: value for name, value in given.items() if value is not None}

    def _key(self) -> str:
        key = os.environ.get(self.key_variable or "", "").strip()
        if not key:
            raise SetupError(f"{self.name}: the environment variable {self.key_variable} is not set")
        return key

    def _reply(self, litellm: Any, response: Any) -> ModelReply:
        if not response.choices:
            raise ModelRefused(f"{self.name}: a reply without choices")
        choice = response.choices[0]
        message = choice.message
        refusal = getattr(message, "refusal", None) or (message.get("provider_specific_fields") or {}).get("refusal")
        return ModelReply(
            text=message.content or refusal or "",
            tool_calls=tuple(_tool_call(call) for call in message.tool_calls or ()),
            usage=self._usage(litellm, response),
            finish_reason=FILTERED if refusal else str(choice.finish_reason or "unknown"),
            model=str(response.model or self.model),
            reasoning=getattr(message, "reasoning_content", None),
        )

    def _usage(self, litellm: Any, response: Any) -> Usage:
        """Input includes what was cached, as litellm gives it for every provider: cached input is counted once."""
        usage = getattr(response, "usage", None)
        if usage is None or not usage.total_tokens:  # litellm makes up zeros where the provider told nothing
            return Usage()
        details = getattr(usage, "prompt_tokens_details", None)
        return Usage(
            input_tokens=usage.prompt_tokens,
            cached_tokens=getattr(details, "cached_tokens", None),
            output_tokens=usage.completion_tokens,
            cost_usd=self._cost(litellm, response),
        )

    def _cost(self, litellm: Any, response: Any) -> float | None:
        if self.api_base:
            return None
        try:
            cost = litellm.completion_cost(completion_response=response, model=self.model)
        except Exception:  # litellm raises a bare Exception for a model without a price
            return None
        return float(cost) if cost else None


def _litellm() -> Any:
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    litellm: Any = importlib.import_module("litellm")
    litellm.suppress_debug_info = True  # it prints advice to standard output
    litellm.telemetry = False
    logging.getLogger("LiteLLM").setLevel(logging.WARNING)
    return litellm


def _tool_call(call: Any) -> ToolCall:
    """Arguments that are no JSON object are kept as they came, under "unreadable"."""
    text = call.function.arguments or "{}"
    try:
        arguments = json.loads(text)
    except ValueError:
        arguments = None
    kept: Mapping[str, Any] = arguments if isinstance(arguments, dict) else {"unreadable": text}
    return ToolCall(str(call.id), str(call.function.name), kept)


def _is_server_error(error: Exception) -> bool:
    status = getattr(error, "status_code", None)
    return isinstance(status, int) and (status in (408, 429) or 500 <= status < 600)


def _retry_after(error: Exception) -> float | None:
    """Seconds, where the provider said so in a header."""
    response = getattr(error, "response", None)
    headers = getattr(error, "litellm_response_headers", None) or getattr(response, "headers", None) or {}
    try:
        seconds = float(headers.get("retry-after", ""))
    except (TypeError, ValueError):
        return None
    return seconds if 0 <= seconds < 86_400 else None


def _pause(tried: int) -> float:
    """Doubling from one second, each between half and the whole, so that many callers do not come back at once."""
    return min(FIRST_PAUSE_SECONDS * 2.0 ** (tried - 1), LONGEST_PAUSE_SECONDS) * random.uniform(0.5, 1.0)


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:MAX_ERROR_CHARS]
