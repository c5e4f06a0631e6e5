"""Any provider that litellm speaks to: "litellm/<model as litellm names it>", e.g. "litellm/openai/gpt-4.1-mini".

The key is named, never held: `key_variable` is the name of an environment variable that is read at each call. litellm is
imported inside the call, as its import takes seconds, and with its bundled price list, as it would fetch one.

Costs are litellm's list prices, or those that the preset states. They stay unknown for a model without a price, and
behind an address of one's own (`api_base`) for which no preset states any.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from dataclasses import replace
from importlib import metadata
from typing import Any

from runner.errors import AccountRefused, KeyRefused, ModelRefused, ModelUnavailable, SetupError
from runner.models.finish_reasons import FILTERED, TOO_LONG
from runner.models.litellm_errors import is_of_the_key, is_passing, provider_body, retry_after
from runner.models.litellm_package import load_litellm, missing_module
from runner.models.litellm_parameters import target_of
from runner.models.litellm_reply import read_reply
from runner.models.litellm_request import Sending, prepare
from runner.models.model_names import has_address
from runner.models.presets import Preset
from runner.no_credit import says_no_credit
from runner.types import ModelReply, ModelRequest, Usage

PROVIDER = "litellm"
TRIES = 4
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
TIMEOUT_SECONDS = 180.0
MAX_ERROR_CHARS = 2_000
MAX_REASON = 300  # characters of the words in which a provider refuses a parameter
SHORTEST_PRIVATE = 6  # characters; a shorter key is none, and taking it out would take words apart
# Providers whose credentials are more than one key of their own.
OTHER_CREDENTIALS = frozenset({"bedrock", "vertex_ai", "sagemaker", "azure"})


class LiteLLM:
    """One model of one provider. Between two calls it holds its settings, and which parameters the provider refuses."""

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
        if has_address(model):
            raise SetupError(f"model {name!r}: an address is no part of a name; give it as a preset's api_base")
        self.name, self.model = name, model
        self.key_variable, self.api_base, self.timeout_seconds = key_variable, api_base, timeout_seconds
        self._sleep = sleep
        self._refused: dict[str, str] = {}  # parameter -> the provider's words

    @classmethod
    def of_preset(cls, preset: Preset) -> LiteLLM:
        model = cls(f"{PROVIDER}/{preset.host_model}", key_variable=preset.key_variable, api_base=preset.api_base)
        model.preset, model.name = preset, preset.name
        return model

    @property
    def price_table(self) -> str:
        if self.preset is not None and self.preset.prices is not None:
            return f"preset {self.preset.name}"
        return f"litellm {metadata.version('litellm')}"

    @property
    def priced(self) -> bool:
        if self.preset is not None and self.preset.prices is not None:
            return True
        return not self._has_own_address and _has_list_price(self._litellm(), self.model)

    @property
    def _has_own_address(self) -> bool:
        return bool(self.api_base) or (self.preset is not None and self.preset.api_base_variable is not None)

    def _address(self) -> str | None:
        return self.preset.base_url() if self.preset is not None else self.api_base

    def complete(self, request: ModelRequest) -> ModelReply:
        """ModelUnavailable after TRIES failures that may pass (429, 5xx, connection); ModelRefused at once for the rest.

        KeyRefused, at once, names the variable that holds the key; AccountRefused, at once, where the account has no
        credit or the provider no such model. No error quotes the key or a private address.
        A reply that was withheld (a refusal, a content filter) is a reply: its finish reason says so. So is the end of a
        conversation with tools that has grown too long, which is the agent's own doing and no fault of the setup.
        """
        litellm = self._litellm()
        sending = self._sending(litellm, request)
        arguments = {**sending.arguments, **self._call(), **self._access()}
        for tried in range(1, TRIES + 1):
            try:
                response = litellm.completion(**arguments)
                reply = read_reply(response, self.model, self._usage(litellm, response))
                return replace(reply, not_sent=sending.not_sent)
            except litellm.exceptions.ContentPolicyViolationError as error:
                return ModelReply(self._told(error), finish_reason=FILTERED, model=self.model)
            except litellm.exceptions.ContextWindowExceededError as error:
                if not _has_gone_on(request):
                    raise ModelRefused(f"{self.name}: {self._told(error)}") from None
                return ModelReply(self._told(error), finish_reason=TOO_LONG, model=self.model)
            except Exception as error:
                # "from None": a trace that goes on into litellm's own errors would quote what is kept out of ours.
                if missing := missing_module(error):
                    raise self._without(missing) from None
                if name := sending.refused(error):
                    self._refused[name] = self._told(error)[:MAX_REASON]  # one more each time, so this ends
                    return self.complete(request)
                if is_of_the_key(error):
                    raise self._key_refused(error) from None
                if getattr(error, "status_code", None) in (402, 404) or says_no_credit(provider_body(error)):
                    raise AccountRefused(f"{self.name}: {self._told(error)}") from None
                if not is_passing(error):
                    raise ModelRefused(f"{self.name}: {self._told(error)}{_advice(sending, error)}") from None
                pause = retry_after(error)
                if tried == TRIES or (pause or 0) > LONGEST_PAUSE_SECONDS:
                    raise ModelUnavailable(f"{self.name}: {self._told(error)}", pause) from None
                self._sleep(max(pause or 0.0, _pause(tried)))
        raise AssertionError("the last try returns or raises")

    def _sending(self, litellm: Any, request: ModelRequest) -> Sending:
        address = self._address() if self._has_own_address else None
        options = {} if self.preset is None else self.preset.options
        return prepare(target_of(litellm, self.model, address), request, options, self._refused)

    def _call(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "timeout": self.timeout_seconds,
            "num_retries": 0,  # retries are counted here, where they can be tested
            "max_retries": 0,
            "_skip_mcp_handler": True,  # it looks for MCP servers among the tools, and needs a package of its own for that
        }

    def _access(self) -> dict[str, str]:
        """To an address of one's own no key goes but the one named for it: litellm would send what it finds."""
        key = self._key() if self.key_variable else "none" if self._has_own_address else None
        given = {"api_key": key, "api_base": self._address()}
        return {name: value for name, value in given.items() if value is not None}

    def _key(self) -> str:
        key = os.environ.get(self.key_variable or "", "").strip()
        if not key:
            raise SetupError(f"{self.name}: the environment variable {self.key_variable} is not set")
        return key

    def _key_refused(self, error: Exception) -> KeyRefused:
        variable = self.key_variable or _usual_variable(self.model)
        named = f"the key in the environment variable {variable}" if variable else "the key"
        return KeyRefused(f"{self.name}: the provider refused {named}: {self._told(error)}", variable)

    def _told(self, error: Exception) -> str:
        """What the provider or its client said, without the key and the address, which it may quote."""
        text = f"{type(error).__name__}: {error}"
        private = {os.environ.get(name, "").strip(): name for name in self._variables()}
        for value in sorted(private, key=len, reverse=True):
            text = text.replace(value, f"[{private[value]}]") if len(value) >= SHORTEST_PRIVATE else text
        return text[:MAX_ERROR_CHARS]

    def _variables(self) -> tuple[str, ...]:
        names = (self.key_variable, self.preset.api_base_variable if self.preset else None, _usual_variable(self.model))
        return tuple(name for name in names if name)

    def _litellm(self) -> Any:
        try:
            return load_litellm()
        except ImportError as error:
            raise self._without(str(error)) from None

    def _without(self, missing: str) -> SetupError:
        return SetupError(f"{self.name}: a Python package is missing on this machine: {missing[:MAX_REASON]}")

    def _usage(self, litellm: Any, response: Any) -> Usage:
        """Input includes what was cached, as litellm gives it for every provider: cached input is counted once."""
        usage = getattr(response, "usage", None)
        # litellm makes up zeros where the provider told nothing; some tell no sum.
        if usage is None or not (usage.prompt_tokens or usage.completion_tokens):
            return Usage()
        details = getattr(usage, "prompt_tokens_details", None)
        cached = getattr(details, "cached_tokens", None)
        tokens = Usage(
            input_tokens=usage.prompt_tokens,
            cached_tokens=getattr(usage, "cached_tokens", None) if cached is None else cached,  # Moonshot's place
            output_tokens=usage.completion_tokens,
        )
        return replace(tokens, cost_usd=self._cost(litellm, response, tokens))

    def _cost(self, litellm: Any, response: Any, tokens: Usage) -> float | None:
        if self.preset is not None and self.preset.prices is not None:
            return self.preset.prices.cost(tokens, cache_written(response.usage))
        if self._has_own_address:
            return None
        try:
            cost = litellm.completion_cost(completion_response=response, model=self.model)
        except Exception:  # litellm raises a bare Exception for a model without a price
            return None
        return float(cost) if cost else None


def _advice(sending: Sending, error: Exception) -> str:
    option = sending.refused_option(error)
    return f"\nThe preset's option {option} is refused; `{option}: null` leaves it out." if option else ""


def cache_written(usage: Any) -> int:
    """Tokens of the input that the provider put into its cache; Anthropic charges more for them."""
    written = getattr(usage, "cache_creation_input_tokens", None)
    return written if isinstance(written, int) and written > 0 else 0


def _has_gone_on(request: ModelRequest) -> bool:
    return bool(request.tools) and any(message.get("role") == "assistant" for message in request.messages)


def _pause(tried: int) -> float:
    """Doubling from one second, each between half and the whole, so that many callers do not come back at once."""
    return min(FIRST_PAUSE_SECONDS * 2.0 ** (tried - 1), LONGEST_PAUSE_SECONDS) * random.uniform(0.5, 1.0)


def _usual_variable(model: str) -> str | None:
    """The variable that litellm reads for this provider when none is named."""
    provider, slash, _ = model.partition("/")
    return f"{provider.upper()}_API_KEY" if slash and provider not in OTHER_CREDENTIALS else None


def _has_list_price(litellm: Any, model: str) -> bool:
    try:
        found = litellm.get_model_info(model)
    except Exception:  # litellm raises a bare Exception for a model it does not know
        return False
    return bool(found.get("input_cost_per_token")) and bool(found.get("output_cost_per_token"))
