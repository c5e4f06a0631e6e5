"""Requests that do not fit the context window, in the words of many providers:
the real litellm against local servers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from runner.base.errors import ContextExceeded, ModelRefused, ModelUnavailable
from runner.base.types import TOO_LONG, ModelRequest, Usage
from runner.models.litellm.client import LiteLLM
from runner.models.preset import Preset
from runner.models.wire.call_slots import TRIES
from tests.providers.chat_provider import Provider

TOOL = {"type": "function", "function": {"name": "t", "parameters": {"type": "object", "properties": {}}}}
FIRST_TURN = ModelRequest(({"role": "user", "content": "Go."},), tools=(TOOL,), max_tokens=8_000)
WITHOUT_TOOLS = replace(FIRST_TURN, tools=())


def openai(message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "param": "messages", "code": None, **more}}


# model as litellm names it, status, body, window and prompt as far as the words name them
WORDINGS: dict[str, tuple[str, int, dict[str, Any], int | None, int | None]] = {
    # platform.openai.com, chat completions
    "openai-chat": (
        "openai/gpt-4.1-mini",
        400,
        openai(
            "This model's maximum context length is 128000 tokens. However, your messages resulted in 130021 tokens."
            " Please reduce the length of the messages.",
            code="context_length_exceeded",
        ),
        128_000,
        130_021,
    ),
    # the same with functions: the parts of the prompt are named one by one
    "openai-parts": (
        "openai/gpt-4.1-mini",
        400,
        openai(
            "This model's maximum context length is 8192 tokens. However, you requested 9300 tokens (8000 in the"
            " messages, 300 in the functions, and 1000 in the completion). Please reduce the length of the messages,"
            " functions, or completion.",
            code="context_length_exceeded",
        ),
        8_192,
        8_300,
    ),
    # the wording of /v1/responses, as gateways hand it on
    "openai-responses": (
        "openai/gpt-4.1-mini",
        400,
        openai(
            "Your input exceeds the context window of this model. Please adjust your input and try again.",
            code="context_length_exceeded",
        ),
        None,
        None,
    ),
    # docs.anthropic.com, errors
    "anthropic": (
        "anthropic/claude-sonnet-4-5",
        400,
        {
            "type": "error",
            "error": {"type": "invalid_request_error", "message": "prompt is too long: 213462 tokens > 200000 maximum"},
        },
        200_000,
        213_462,
    ),
    # ai.google.dev
    "gemini": (
        "gemini/gemini-2.5-flash",
        400,
        {
            "error": {
                "code": 400,
                "message": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
                "status": "INVALID_ARGUMENT",
            }
        },
        1_048_576,
        1_200_000,
    ),
    # platform.moonshot.ai
    "moonshot": (
        "moonshot/kimi-k2",
        400,
        openai("Invalid request: Your request exceeded model token limit: 262144 (requested: 291351)"),
        262_144,
        None,
    ),
    # vllm/entrypoints/openai/serving_engine.py, 0.6
    "vllm": (
        "hosted_vllm/Qwen/Qwen3-8B",
        400,
        {
            "object": "error",
            "message": "This model's maximum context length is 4096 tokens. However, you requested 4500 tokens (4400 "
            "in the messages, 100 in the completion). Please reduce the length of the messages or completion.",
            "type": "BadRequestError",
            "param": None,
            "code": 400,
        },
        4_096,
        4_400,
    ),
    # vllm, from 0.11 on
    "vllm-new": (
        "hosted_vllm/Qwen/Qwen3-8B",
        400,
        openai(
            "This model's maximum context length is 4096 tokens. However, you requested 0 output tokens and your prompt"
            " contains at least 4097 input tokens, for a total of at least 4097 tokens.",
            type="BadRequestError",
            code=400,
        ),
        4_096,
        4_097,
    ),
    # vllm/v1/engine/processor.py
    "vllm-engine": (
        "hosted_vllm/Qwen/Qwen3-8B",
        500,
        openai(
            "The decoder prompt (length 5000) is longer than the maximum model length of 4096. Make sure that"
            " `max_model_len` is no smaller than the number of text tokens."
        ),
        4_096,
        5_000,
    ),
    # LM Studio 0.3, whose body has a text where others have an object
    "lm-studio": (
        "lm_studio/qwen3-8b",
        400,
        {
            "error": "Trying to keep the first 12345 tokens when context the overflows. However, the model is loaded "
            "with context length of only 4096 tokens, which is not enough. Try to load the model with a larger "
            "context length, or provide a shorter input"
        },
        4_096,
        12_345,
    ),
    # llama.cpp, tools/server
    "llama-cpp": (
        "openai/local",
        400,
        {
            "error": {
                "code": 400,
                "message": "request (5123 tokens) exceeds the available context size (4096 tokens), try increasing it",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 5123,
                "n_ctx": 4096,
            }
        },
        4_096,
        5_123,
    ),
    # llama-cpp-python, llama_cpp/server/errors.py
    "llama-cpp-python": (
        "openai/local",
        500,
        openai("Requested tokens (5000) exceed context window of 4096", type="internal_server_error"),
        4_096,
        5_000,
    ),
    # openrouter.ai
    "openrouter": (
        "openrouter/qwen/qwen3-8b",
        400,
        {
            "error": {
                "message": "This endpoint's maximum context length is 40960 tokens. However, you requested about 51000 tokens"  # noqa: E501
                " (42000 of text input, 1000 of tool input, 8000 in the output). Please reduce the length of either one,"  # noqa: E501
                ' or use the "middle-out" transform to compress your prompt automatically.',
                "code": 400,
            }
        },
        40_960,
        43_000,
    ),
    # sglang, tokenizer_manager.py
    "sglang": (
        "openai/local",
        400,
        openai("The input (5000 tokens) is longer than the model's context length (4096 tokens)."),
        4_096,
        5_000,
    ),
}


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    monkeypatch.setenv("TEST_PROVIDER_KEY", "key-of-the-test-0123456789")
    found = Provider()
    yield found
    found.close()


def model(provider: Provider, name: str = "openai/local") -> LiteLLM:
    bare = name.startswith(("anthropic/", "gemini/"))
    address = provider.url.removesuffix("/v1") if bare else provider.url
    return LiteLLM(
        f"litellm/{name}",
        key_variable="TEST_PROVIDER_KEY",
        api_base=address,
        timeout_seconds=10,
        sleep=lambda seconds: None,
    )


@pytest.mark.parametrize("wording", WORDINGS)
def test_it_is_the_agents_result_from_the_first_turn_on(provider: Provider, wording: str) -> None:
    name, status, body, _, _ = WORDINGS[wording]
    provider.answers.append((status, body, {}))
    reply = model(provider, name).complete(FIRST_TURN)
    assert (reply.finish_reason, reply.usage) == (TOO_LONG, Usage())
    assert len(provider.asked) == 1


@pytest.mark.parametrize("wording", WORDINGS)
def test_without_tools_it_is_refused_with_the_numbers_that_are_named(provider: Provider, wording: str) -> None:
    name, status, body, window, prompt = WORDINGS[wording]
    provider.answers.append((status, body, {}))
    with pytest.raises(ContextExceeded) as caught:
        model(provider, name).complete(replace(WITHOUT_TOOLS, max_tokens=100))
    assert (caught.value.window, caught.value.prompt) == (window, prompt)
    assert len(provider.asked) == 1


@pytest.mark.parametrize(
    "message",
    [
        # OpenAI: the limit is the parameter's
        "max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas you provided "
        "100000.",
        # Anthropic
        "max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens for claude-sonnet-4-5",
    ],
)
def test_a_limit_of_a_parameter_is_no_overflow(provider: Provider, message: str) -> None:
    provider.answers.append((400, openai(message), {}))
    with pytest.raises(ModelRefused) as caught:
        model(provider).complete(FIRST_TURN)
    assert type(caught.value) is ModelRefused


def test_a_rate_limit_that_counts_tokens_is_no_overflow(provider: Provider) -> None:
    """Groq: its limit is per minute."""
    provider.answers.append((429, openai("Request too large: Limit 6000, Requested 8000 input tokens per minute"), {}))
    with pytest.raises(ModelUnavailable):
        model(provider).complete(FIRST_TURN)


@pytest.mark.parametrize(
    "message",
    [
        # vllm, 0.6
        "This model's maximum context length is 4096 tokens. However, you requested 9000 tokens (1000 in the messages,"
        " 8000 in the completion). Please reduce the length of the messages or completion.",
        # vllm, from 0.8 on
        "'max_tokens' or 'max_completion_tokens' is too large: 8000. This model's maximum context length is 4096 tokens"
        " and your request has 1000 input tokens (8000 > 4096 - 1000). None",
        # Anthropic, where the answer is counted in
        "input length and `max_tokens` exceed context limit: 1000 + 8000 > 4096, decrease input length or `max_tokens`"
        " and try again",
    ],
)
def test_an_answer_that_does_not_fit_beside_a_prompt_that_does_is_asked_for_shorter(
    provider: Provider, message: str
) -> None:
    provider.answers.append((400, openai(message), {}))
    provider.says("at last")
    reply = model(provider).complete(FIRST_TURN)
    assert (reply.text, [asked["max_tokens"] for asked in provider.asked]) == ("at last", [8_000, 3_056])
    assert reply.notes == (
        "The limit on output tokens was lowered from 8,000 to 3,056: prompt (1,000 tokens) and answer must fit the "
        "context window of 4,096 tokens.",
    )


def test_it_is_asked_for_shorter_only_once(provider: Provider) -> None:
    provider.answers.append(
        (400, openai("This model's maximum context length is 4096 tokens and your request has 1000 input tokens"), {})
    )
    assert model(provider).complete(FIRST_TURN).finish_reason == TOO_LONG
    assert len(provider.asked) == 2


def test_a_server_error_at_a_window_known_to_be_full_is_an_overflow(provider: Provider) -> None:
    provider.fails(500, "Internal Server Error")
    full = replace(FIRST_TURN, messages=({"role": "user", "content": "x" * 16_500},))
    with pytest.raises(ModelUnavailable):
        model(provider).complete(full)
    known = model(provider)
    known.preset = Preset("local", "local", "shell", "local", "openai/local", provider.url, context_window=4_096)
    assert known.complete(full).finish_reason == TOO_LONG
    with pytest.raises(ModelUnavailable):
        known.complete(FIRST_TURN)
    assert len(provider.asked) == 3 * TRIES
    known.preset = replace(known.preset, api_base="http://127.0.0.1:9/v1")
    with pytest.raises(ModelUnavailable):
        known.complete(full)


def test_a_reply_of_anthropic_that_filled_the_window_says_so(provider: Provider) -> None:
    """litellm knows no such stop reason and would report that the model stopped by itself."""
    reply = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": [{"type": "text", "text": "I begin with"}],
        "stop_reason": "model_context_window_exceeded",
        "stop_sequence": None,
        "usage": {"input_tokens": 199_000, "output_tokens": 1_000},
    }
    provider.answers.append((200, reply, {}))
    found = model(provider, "anthropic/claude-sonnet-4-5").complete(FIRST_TURN)
    assert (found.text, found.finish_reason) == ("I begin with", TOO_LONG)
