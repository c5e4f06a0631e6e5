"""Sampling parameters on the wire: what a model takes is sent, what it refuses is left out and told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from runner.base.errors import ModelRefused, SetupError
from runner.base.types import ModelReply, ModelRequest
from runner.models.litellm.client import LiteLLM
from runner.models.litellm.litellm_package import load_litellm
from runner.models.preset import Preset
from tests.cases import every
from tests.providers import strict_providers
from tests.providers.strict_providers import StrictProvider

KEY = "key-of-the-test-0123456789"
TOOL = {"type": "function", "function": {"name": "shell", "parameters": {"type": "object", "properties": {}}}}
MESSAGES = ({"role": "system", "content": "Be brief."}, {"role": "user", "content": "say hello"})
AUTHOR = ModelRequest(MESSAGES, temperature=0.2, max_tokens=4_000, seed=2**62 + 5, json_object=True)
AGENT = ModelRequest(MESSAGES, tools=(TOOL,), max_tokens=4_000, seed=2**62 + 5)
Serve = Callable[..., StrictProvider]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    monkeypatch.setenv("TEST_PROVIDER_KEY", KEY)
    servers: list[StrictProvider] = []

    def serve(check: strict_providers.Check, *replies: strict_providers.Body) -> StrictProvider:
        servers.append(StrictProvider(check, *replies))
        return servers[-1]

    yield serve
    for server in servers:
        server.close()


# Providers whose own path begins at the root of the address.
AT_ROOT = ("anthropic", "gemini", "ollama_chat", "deepseek")


def model(server: StrictProvider, name: str, **changes: Any) -> LiteLLM:
    address = server.root if name.startswith(AT_ROOT) else f"{server.root}/v1"
    values = {"provider": "house", "harness": "shell", "agent_model": "m", "api_base": address, **changes}
    return LiteLLM.of_preset(Preset(name="house", host_model=name, key_variable="TEST_PROVIDER_KEY", **values))


def left_out(reply: ModelReply) -> list[str]:
    return [each.partition(":")[0] for each in reply.not_sent]


CHAT, CLAUDE = strict_providers.chat_reply(), strict_providers.anthropic_reply({"type": "text", "text": "hello"})
SAMPLED = ("temperature 0.2", "seed 5", "response_format json_object")


@every(
    ("openai/gpt-4.1-mini", strict_providers.takes_all, CHAT, ()),
    ("openai/gpt-5-mini", strict_providers.openai_reasoning, CHAT, SAMPLED[:1]),
    ("openai/gpt-5.4-mini-2026-03-17", strict_providers.openai_reasoning, CHAT, SAMPLED[:1]),
    ("openai/o4-mini", strict_providers.openai_reasoning, CHAT, SAMPLED[:1]),
    ("openai/house-reasoner", strict_providers.openai_reasoning, CHAT, SAMPLED[:1]),
    ("moonshot/kimi-k2.5", strict_providers.moonshot, CHAT, SAMPLED[:1]),
    ("openai/moonshotai.kimi-k2.5", strict_providers.moonshot, CHAT, SAMPLED[:1]),
    ("mistral/mistral-large-latest", strict_providers.mistral, CHAT, SAMPLED[1:2]),
    ("hosted_vllm/Qwen/Qwen3-8B", strict_providers.vllm, CHAT, ()),
    ("lm_studio/qwen3-8b", strict_providers.lm_studio, CHAT, SAMPLED[2:]),
    ("openai/google/gemma-3-27b-it", strict_providers.no_json_mode, CHAT, SAMPLED[2:]),
    ("ollama_chat/qwen3:8b", strict_providers.ollama, strict_providers.ollama_reply(), ()),
    ("llamafile/model", strict_providers.takes_all, CHAT, ()),
    ("gemini/gemini-3-flash-preview", strict_providers.gemini, strict_providers.gemini_reply({"text": "hello"}), ()),
    ("anthropic/claude-sonnet-4-5", strict_providers.anthropic, CLAUDE, SAMPLED[1:]),
    ("anthropic/claude-opus-4-7", strict_providers.anthropic_newest, CLAUDE, SAMPLED),
    ("anthropic/claude-nobody-knows-yet", strict_providers.anthropic_newest, CLAUDE, SAMPLED),
    (
        "openai/gpt-5.2-codex",
        strict_providers.responses,
        strict_providers.responses_reply(strict_providers.output_text("hello")),
        SAMPLED[:2],
    ),
)
def test_a_model_is_sent_what_it_takes_and_the_rest_is_told(
    name: str, check: strict_providers.Check, reply: strict_providers.Body, missing: tuple[str, ...], serve: Serve
) -> None:
    server = serve(check, reply)
    asked = model(server, name)
    first, second = asked.complete(AUTHOR), asked.complete(AUTHOR)
    assert first.text == "hello"
    assert sorted(left_out(first)) == sorted(missing)
    assert sorted(left_out(second)) == sorted(missing)
    assert len(server.refusals) <= len(missing) + 1  # each is refused once, and max_tokens renamed
    assert len(server.taken) == 2


def test_what_was_refused_is_told_in_the_providers_words_without_the_key(serve: Serve) -> None:
    def check(body: strict_providers.Body) -> strict_providers.Refusal:
        return (
            strict_providers.openai_error(f"{KEY}: Unsupported parameter: 'seed'", "seed") if "seed" in body else None
        )

    (told,) = model(serve(check, CHAT), "openai/house").complete(AUTHOR).not_sent
    assert told.startswith("seed 5: the provider refuses it: ")
    assert "[TEST_PROVIDER_KEY]: Unsupported parameter: 'seed'" in told


def test_a_refusal_that_is_about_nothing_we_may_leave_out_ends_at_once(serve: Serve) -> None:
    refusal = strict_providers.openai_error("The model does not support tools.")
    server = serve(lambda body: refusal, CHAT)
    with pytest.raises(ModelRefused, match="does not support tools"):
        model(server, "openai/house").complete(AGENT)
    assert len(server.refusals) == 1


def test_a_provider_that_refuses_everything_is_not_asked_for_ever(serve: Serve) -> None:
    names = ["temperature", "seed", "response_format"]
    server = serve(lambda body: strict_providers.openai_error(f"Unsupported parameter: {', '.join(names)}"), CHAT)
    with pytest.raises(ModelRefused, match="Unsupported"):
        model(server, "openai/house").complete(AUTHOR)
    assert len(server.refusals) == len(names) + 1


@pytest.mark.parametrize("name", ["openai/gpt-4.1-mini", "gemini/gemini-3-flash-preview", "ollama_chat/qwen3:8b"])
def test_seeds_have_31_bits(serve: Serve, name: str) -> None:
    replies = {"g": strict_providers.gemini_reply({"text": "hello"}), "o": CHAT}
    server = serve(
        strict_providers.takes_all, strict_providers.ollama_reply() if "ollama" in name else replies[name[0]]
    )
    model(server, name).complete(ModelRequest(MESSAGES, seed=2**63 - 1))
    (body,) = server.taken
    sent = {**body, **body.get("options", {}), **body.get("generationConfig", {})}
    assert sent["seed"] == 2**31 - 1


# --- options --------------------------------------------------------------------------------------------------------


def test_null_in_a_preset_leaves_a_parameter_out(serve: Serve) -> None:
    server = serve(strict_providers.takes_all, CHAT)
    options = {"temperature": None, "seed": None, "response_format": None, "max_tokens": None}
    reply = model(server, "openai/gpt-4.1-mini", options=options).complete(AUTHOR)
    assert not options.keys() & server.taken[0].keys()
    assert set(reply.not_sent) == {f"{each}: the preset says null" for each in (*SAMPLED, "max_tokens 4000")}


def test_an_option_that_is_refused_is_an_error_that_names_it(serve: Serve) -> None:
    """It was written for this model: without it the run would not be what its setup says."""
    server = serve(strict_providers.openai_reasoning, CHAT)
    asked = model(server, "openai/house", options={"temperature": 0.7})
    with pytest.raises(ModelRefused, match="`temperature: null` leaves it out"):
        asked.complete(ModelRequest(MESSAGES))


def test_an_option_is_sent_though_litellms_list_lacks_it(serve: Serve) -> None:
    server = serve(strict_providers.takes_all, CHAT)
    options = {"reasoning_effort": "low", "top_k": 20, "repetition_penalty": 1.05}
    model(server, "lm_studio/qwen3-8b", options=options).complete(ModelRequest(MESSAGES))
    assert options.items() <= server.taken[0].items()


# --- thinking -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [{"thinking": {"type": "enabled", "budget_tokens": 2_000}}, {"reasoning_effort": "low"}]
)
def test_claude_thinks_at_its_own_temperature(serve: Serve, options: dict[str, Any]) -> None:
    server = serve(
        strict_providers.anthropic,
        strict_providers.anthropic_reply(strict_providers.thought("hm"), {"type": "text", "text": "hello"}),
    )
    reply = model(server, "anthropic/claude-sonnet-4-5", options=options).complete(AUTHOR)
    assert server.taken[0]["thinking"]["type"] == "enabled"
    assert server.refusals == []
    assert "temperature 0.2: Claude thinks at no other temperature than 1" in reply.not_sent


@pytest.mark.parametrize(
    "options", [{"thinking": {"type": "enabled", "budget_tokens": 9_000}}, {"reasoning_effort": "high"}]
)
def test_a_budget_for_thinking_stays_below_the_limit_on_output(serve: Serve, options: dict[str, Any]) -> None:
    server = serve(strict_providers.anthropic, CLAUDE)
    reply = model(server, "anthropic/claude-sonnet-4-5", options=options).complete(AUTHOR)
    assert server.taken[0]["thinking"] == {"type": "enabled", "budget_tokens": 2_000}
    assert [each for each in reply.not_sent if each.startswith("thinking budget ")]


def test_a_limit_too_small_for_any_thinking_turns_it_off(serve: Serve) -> None:
    server = serve(strict_providers.anthropic, CLAUDE)
    options = {"thinking": {"type": "enabled", "budget_tokens": 2_000}}
    reply = model(server, "anthropic/claude-sonnet-4-5", options=options).complete(
        ModelRequest(MESSAGES, max_tokens=500)
    )
    assert "thinking" not in server.taken[0]
    assert reply.not_sent == ("thinking: its least budget, 1,024 tokens, reaches the limit of 500",)


def test_claude_takes_a_presets_top_p_and_then_no_temperature(serve: Serve) -> None:
    server = serve(strict_providers.anthropic, CLAUDE)
    reply = model(server, "anthropic/claude-sonnet-4-5", options={"top_p": 0.9}).complete(AUTHOR)
    assert server.refusals == []
    assert server.taken[0]["top_p"] == 0.9
    assert left_out(reply)[0] == "temperature 0.2" or "temperature 0.2" in left_out(reply)


def test_gemini_is_told_how_much_to_think(serve: Serve) -> None:
    server = serve(strict_providers.gemini, strict_providers.gemini_reply({"text": "hello"}))
    model(server, "gemini/gemini-2.5-pro", options={"reasoning_effort": "low"}).complete(AUTHOR)
    assert server.taken[0]["generationConfig"]["thinkingConfig"] == {"thinkingBudget": 1024, "includeThoughts": True}


# --- what is missing on this machine, and names ---------------------------------------------------------------------


def test_a_missing_package_is_named_and_nobody_is_asked_again(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """litellm calls it a lost connection."""
    litellm = load_litellm()

    def completion(**arguments: Any) -> None:
        calls.append(1)
        try:
            raise ModuleNotFoundError("No module named 'boto9'", name="boto9")
        except ModuleNotFoundError as error:
            raise litellm.APIConnectionError("No module named 'boto9'", "bedrock", "m") from error

    calls: list[int] = []
    monkeypatch.setattr(litellm, "completion", completion)
    with pytest.raises(
        SetupError, match="a Python package is missing on this machine: No module named 'boto9'"
    ) as caught:
        model(serve(strict_providers.takes_all, CHAT), "openai/house").complete(AUTHOR)
    assert not isinstance(caught.value, ModelRefused)
    assert len(calls) == 1


@every(
    "litellm/huggingface/https://models.example.org/v1",
    "litellm/openai/http://127.0.0.1:9/v1",
    "litellm/custom//models.example.org/m",
    "litellm/bedrock/arn:aws:bedrock:models.example.org#:1:model/m",
    "litellm/openai/m?api_base=x",
    "litellm/openai/m\nx",
)
def test_a_name_with_an_address_is_refused(name: str) -> None:
    with pytest.raises(SetupError, match="a model name contains no address"):
        LiteLLM(name)
