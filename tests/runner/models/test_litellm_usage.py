"""Usage as three providers tell it, read by the real litellm: cached input is counted once, and priced once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from runner.base.errors import KeyRefused, ModelRefused, ModelUnavailable
from runner.base.types import ModelRequest, Usage
from runner.models.litellm.client import LiteLLM
from runner.models.preset import Preset, Prices
from tests.providers.chat_provider import Provider

KEY = "key-of-the-test-0123456789"
REQUEST = ModelRequest(({"role": "user", "content": "say hello"},), max_tokens=50)


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    monkeypatch.setenv("TEST_PROVIDER_KEY", KEY)
    found = Provider()
    yield found
    found.close()


def preset(provider: Provider, host_model: str = "openai/gpt-4.1-mini", **changes: Any) -> Preset:
    base = provider.url.removesuffix("/v1") if not host_model.startswith("openai/") else provider.url
    values = {"provider": "house", "harness": "shell", "agent_model": "m", "api_base": base, **changes}
    return Preset(name="house", host_model=host_model, key_variable="TEST_PROVIDER_KEY", **values)


ANTHROPIC = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-5",
    "content": [{"type": "text", "text": "hello"}],
    "stop_reason": "end_turn",
    # Anthropic tells the three kinds of input beside each other.
    "usage": {
        "input_tokens": 300,
        "cache_creation_input_tokens": 100,
        "cache_read_input_tokens": 600,
        "output_tokens": 20,
    },
}
GEMINI = {
    "candidates": [{"content": {"role": "model", "parts": [{"text": "hello"}]}, "finishReason": "STOP", "index": 0}],
    # Google tells the prompt as a whole, with what of it was cached, and what was thought beside what was said.
    "usageMetadata": {
        "promptTokenCount": 1000,
        "cachedContentTokenCount": 600,
        "candidatesTokenCount": 15,
        "thoughtsTokenCount": 5,
        "totalTokenCount": 1020,
    },
    "modelVersion": "gemini-2.5-pro",
}


@pytest.mark.parametrize(
    ("host_model", "reply"), [("anthropic/claude-sonnet-4-5", ANTHROPIC), ("gemini/gemini-2.5-pro", GEMINI)]
)
def test_input_is_all_input_with_the_cached_part_in_it(
    provider: Provider, host_model: str, reply: dict[str, Any]
) -> None:
    provider.answers.append((200, reply, {}))
    prices = Prices(input=2.0, output=10.0, cached=0.5)
    usage = LiteLLM.of_preset(preset(provider, host_model, prices=prices)).complete(REQUEST).usage
    assert (usage.input_tokens, usage.cached_tokens, usage.output_tokens) == (1000, 600, 20)
    assert usage.cost_usd == pytest.approx((400 * 2.0 + 600 * 0.5 + 20 * 10.0) / 1_000_000)


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": 1000, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 600}},  # no sum
        {"prompt_tokens": 1000, "completion_tokens": 20, "total_tokens": 1020, "cached_tokens": 600},  # Moonshot
        {
            "prompt_tokens": 1000,
            "completion_tokens": 20,
            "total_tokens": 1020,
            "prompt_cache_hit_tokens": 600,
        },  # DeepSeek
    ],
)
def test_usage_counts_wherever_a_server_puts_it(provider: Provider, usage: dict[str, Any]) -> None:
    provider.says(usage=usage)
    found = (
        LiteLLM.of_preset(preset(provider, prices=Prices(input=2.0, output=10.0, cached=0.5))).complete(REQUEST).usage
    )
    assert (found.input_tokens, found.cached_tokens, found.output_tokens) == (1000, 600, 20)
    assert found.cost_usd == pytest.approx((400 * 2.0 + 600 * 0.5 + 20 * 10.0) / 1_000_000)


def test_a_list_price_charges_what_was_written_to_the_cache_and_what_was_read_from_it(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider.answers.append((200, ANTHROPIC, {}))
    monkeypatch.setenv("ANTHROPIC_API_BASE", provider.url.removesuffix("/v1"))
    model = LiteLLM("litellm/anthropic/claude-sonnet-4-5", key_variable="TEST_PROVIDER_KEY")
    usage = model.complete(REQUEST).usage
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    import litellm

    price = litellm.model_cost["claude-sonnet-4-5"]
    expected = (
        300 * price["input_cost_per_token"]
        + 100 * price["cache_creation_input_token_cost"]
        + 600 * price["cache_read_input_token_cost"]
        + 20 * price["output_cost_per_token"]
    )
    assert usage.cost_usd == pytest.approx(expected)
    assert model.price_table.startswith("litellm 1.")


def test_a_presets_price_charges_what_was_written_to_the_cache(provider: Provider) -> None:
    provider.answers.append((200, ANTHROPIC, {}))
    prices = Prices(input=2.0, output=10.0, cached=0.5, written=2.5)
    usage = LiteLLM.of_preset(preset(provider, "anthropic/claude-sonnet-4-5", prices=prices)).complete(REQUEST).usage
    assert usage.cost_usd == pytest.approx((300 * 2.0 + 100 * 2.5 + 600 * 0.5 + 20 * 10.0) / 1_000_000)
    assert prices.cost(Usage(1000, 600, 20), 100) == usage.cost_usd


def test_a_model_is_priced_where_a_list_or_its_preset_says_so(provider: Provider) -> None:
    assert LiteLLM("litellm/openai/gpt-4.1-mini").priced
    assert not LiteLLM("litellm/openai/nobody-knows-it").priced
    assert not LiteLLM.of_preset(preset(provider)).priced
    own = LiteLLM.of_preset(preset(provider, prices=Prices(1.0, 1.0)))
    assert (own.priced, own.price_table) == (True, "preset house")


# --- presets --------------------------------------------------------------------------------------------------------


def test_a_presets_options_are_sent_where_the_runner_asks_for_nothing_itself(provider: Provider) -> None:
    provider.says()
    options = {"temperature": 0.7, "top_p": 0.9, "max_tokens": 9}
    LiteLLM.of_preset(preset(provider, options=options)).complete(REQUEST)
    (asked,) = provider.asked
    assert (asked["temperature"], asked["top_p"], asked["max_tokens"]) == (0.7, 0.9, 50)


@pytest.mark.parametrize(("asked", "sent"), [(50, 50), (9_000, 4_096), (None, 4_096)])
def test_no_model_is_asked_for_a_longer_reply_than_its_preset_says_it_gives(
    provider: Provider, asked: int | None, sent: int
) -> None:
    provider.says()
    LiteLLM.of_preset(preset(provider, max_tokens=4_096)).complete(replace(REQUEST, max_tokens=asked))
    assert provider.asked[0]["max_tokens"] == sent


def test_an_address_can_be_named_by_its_variable(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    provider.says()
    monkeypatch.setenv("TEST_PROVIDER_AT", provider.url)
    named = preset(provider, api_base=None, api_base_variable="TEST_PROVIDER_AT")
    assert LiteLLM.of_preset(named).complete(REQUEST).text == "hello"
    assert provider.keys == [f"Bearer {KEY}"]


def test_tools_need_nothing_but_litellm(provider: Provider) -> None:
    provider.says()
    tool = {"type": "function", "function": {"name": "shell", "parameters": {"type": "object", "properties": {}}}}
    LiteLLM.of_preset(preset(provider)).complete(ModelRequest(REQUEST.messages, tools=(tool,)))
    assert provider.asked[0]["tools"] == [tool]


# --- keys and pauses ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_is_told_by_its_variable_and_never_quoted(provider: Provider, status: int) -> None:
    provider.fails(status, f"wrong key {KEY} at {provider.url}")
    with pytest.raises(KeyRefused) as caught:
        LiteLLM.of_preset(preset(provider)).complete(REQUEST)
    assert caught.value.variable == "TEST_PROVIDER_KEY"
    assert "the key in the environment variable TEST_PROVIDER_KEY" in str(caught.value)
    assert "wrong key [TEST_PROVIDER_KEY]" in str(caught.value)
    assert KEY not in str(caught.value)
    assert len(provider.asked) == 1


def test_no_other_error_quotes_the_key_or_a_private_address(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_PROVIDER_AT", provider.url)
    provider.fails(400, f"{KEY} is not welcome at {provider.url}")
    named = preset(provider, api_base=None, api_base_variable="TEST_PROVIDER_AT")
    with pytest.raises(ModelRefused) as caught:
        LiteLLM.of_preset(named).complete(REQUEST)
    assert "[TEST_PROVIDER_KEY] is not welcome at [TEST_PROVIDER_AT]" in str(caught.value)


def test_the_usual_variable_is_named_where_none_is_given(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    provider.fails(401, "who are you?")
    monkeypatch.setenv("ANTHROPIC_API_BASE", provider.url.removesuffix("/v1"))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "not-the-right-one-0")
    with pytest.raises(KeyRefused, match="ANTHROPIC_API_KEY"):
        LiteLLM("litellm/anthropic/claude-sonnet-4-5").complete(REQUEST)


def test_a_date_to_come_back_at_is_understood(provider: Provider) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    provider.fails(429, headers={"Retry-After": format_datetime(later, usegmt=True)})
    with pytest.raises(ModelUnavailable) as caught:
        LiteLLM.of_preset(preset(provider)).complete(REQUEST)
    assert 3000 < (caught.value.retry_after_seconds or 0) <= 3600
    assert len(provider.asked) == 1  # nobody waits that long with a sandbox open


def test_usage_that_is_not_told_costs_nothing_known(provider: Provider) -> None:
    provider.says()
    usage = LiteLLM.of_preset(preset(provider, prices=Prices(1.0, 1.0))).complete(REQUEST).usage
    assert usage == Usage()
