"""Tokens of a call as each provider tells them, whole and streamed, in pieces of any size."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from runner.base.types import Usage
from runner.models.call_prices import call_cost
from runner.models.preset import Preset, Prices
from runner.models.wire.metering import Metered, UsageMeter
from tests.cases import every

STREAM, WHOLE = "text/event-stream; charset=utf-8", "application/json"
ANTHROPIC = {"input_tokens": 10, "cache_read_input_tokens": 200, "cache_creation_input_tokens": 30, "output_tokens": 1}
RESPONSES = {"input_tokens": 240, "input_tokens_details": {"cached_tokens": 200}, "output_tokens": 7}
CHAT = {"prompt_tokens": 240, "prompt_tokens_details": {"cached_tokens": 200}, "completion_tokens": 7}
GEMINI = {
    "promptTokenCount": 230,
    "toolUsePromptTokenCount": 10,
    "cachedContentTokenCount": 200,
    "candidatesTokenCount": 3,
    "thoughtsTokenCount": 4,
}
USED = Usage(240, 200, 7)


def metered(path: str, kind: str, content: bytes, size: int = 7) -> Metered:
    meter = UsageMeter(path, kind)
    for at in range(0, len(content), size):
        meter.feed(content[at : at + size])
    return meter.total()


def stream(*events: Any) -> bytes:
    return b"".join(b"event: x\r\ndata: " + json.dumps(event).encode() + b"\r\n\r\n" for event in events)


@every(
    (
        "/v1/messages?beta=true",
        [
            {"type": "message_start", "message": {"usage": ANTHROPIC}},
            {"type": "content_block_delta", "delta": {"text": "what usage?"}},
            {"type": "message_delta", "usage": {"output_tokens": 3}},
            {"type": "message_delta", "usage": {"output_tokens": 7}},
        ],
        30,
    ),
    (
        "/v1/responses",
        [{"type": "response.created"}, {"type": "response.completed", "response": {"usage": RESPONSES}}],
        0,
    ),
    ("/v1/chat/completions", [{"choices": [], "usage": None}, {"choices": [], "usage": CHAT}], 0),
    (
        "/v1beta/models/g:streamGenerateContent?alt=sse",
        [{"usageMetadata": {"promptTokenCount": 1}}, {"usageMetadata": GEMINI}],
        0,
    ),
)
@every(1, 13, 100_000)
def test_it_reads_a_stream(size: int, path: str, events: Sequence[Any], written: int) -> None:
    assert metered(path, STREAM, stream(*events), size) == Metered(USED, written)


@every(
    ("/v1/messages", {"type": "message", "usage": {**ANTHROPIC, "output_tokens": 7}}, 30),
    ("/v1/responses", {"object": "response", "usage": RESPONSES}, 0),
    ("/v1/chat/completions", {"usage": CHAT}, 0),
    ("/v1beta/models/g:generateContent", {"usageMetadata": GEMINI}, 0),
    ("/v1beta/models/g:streamGenerateContent", [{"usageMetadata": {}}, {"usageMetadata": GEMINI}], 0),
)
def test_it_reads_a_whole_answer(path: str, value: Any, written: int) -> None:
    assert metered(path, WHOLE, json.dumps(value, indent=1).encode()) == Metered(USED, written)


@pytest.mark.parametrize("usage", [{"cached_tokens": 200}, {"prompt_cache_hit_tokens": 200}])  # Moonshot, DeepSeek
def test_cached_tokens_count_wherever_a_server_puts_them(usage: dict[str, int]) -> None:
    chat = {"prompt_tokens": 240, "completion_tokens": 7, **usage}
    assert metered("/v1/chat/completions", WHOLE, json.dumps({"usage": chat}).encode()) == Metered(USED)


@every(
    ("/v1/messages", {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, True),
    ("/v1/messages", {"type": "error", "error": {"type": "invalid_request_error", "message": "no"}}, False),
    ("/v1/chat/completions", {"error": {"code": 502, "message": "no"}, "choices": [{"finish_reason": "error"}]}, True),
    ("/v1/responses", {"type": "error", "code": "server_error", "message": "no", "param": None}, True),
    ("/v1/responses", {"type": "response.failed", "response": {"error": {"code": "rate_limit_exceeded"}}}, True),
    ("/v1/responses", {"type": "response.failed", "response": {"error": {"code": "context_length_exceeded"}}}, False),
    ("/v1beta/models/g:streamGenerateContent", {"error": {"code": 503, "status": "UNAVAILABLE"}}, True),
)
def test_it_reads_an_error_in_the_middle_of_a_stream(path: str, event: dict[str, Any], may_pass: bool) -> None:
    meter = UsageMeter(path, STREAM)
    meter.feed(stream({"type": "response.created", "response": {"error": None}}, {"error": None}, event))
    meter.total()
    assert meter.broken is not None
    assert meter.broken.may_pass is may_pass


def test_an_answer_that_speaks_of_errors_is_not_broken() -> None:
    said = {"choices": [{"delta": {"content": "error"}}], "error": None}
    meter = UsageMeter("/v1/chat/completions", STREAM)
    meter.feed(stream(said, {"choices": [], "usage": CHAT}))
    assert meter.total() == Metered(USED)
    assert meter.broken is None


def test_it_knows_the_input_of_a_stream_that_breaks_off_and_not_its_output() -> None:
    content = stream({"type": "message_start", "message": {"usage": ANTHROPIC}})
    assert metered("/v1/messages", STREAM, content).usage == Usage(240, 200, None)


@every(b"", b"{", b"[1, null]", b'{"usage": 7}', b'{"usage": {"prompt_tokens": -1}}', b"[" * 9_000)
def test_it_makes_nothing_of_an_answer_that_tells_nothing(content: bytes) -> None:
    for path in ("/v1/messages", "/v1/chat/completions", "/v1/other"):
        assert metered(path, WHOLE, content) == Metered()
        assert metered(path, STREAM, b"data: " + content) == Metered()


def test_a_call_costs_what_the_presets_own_prices_say_or_litellms_list_or_nobody_knows() -> None:
    def preset(**fields: Any) -> Preset:
        given = {
            "name": "p",
            "provider": "p",
            "harness": "shell",
            "agent_model": "m",
            "host_model": "anthropic/claude-opus-4-5",
        }
        return Preset(**(given | fields))

    assert call_cost(preset(prices=Prices(1.0, 10.0)), Usage(1_000_000, 0, 100_000)) == 2.0
    listed = call_cost(preset(), Usage(1_000, 400, 10), 100)
    # Anthropic's list: 5 and 25 dollars per million; a tenth for what is read from the cache, a quarter more to write.
    assert listed == pytest.approx((500 * 5 + 400 * 0.5 + 100 * 6.25 + 10 * 25) / 1_000_000)
    assert call_cost(preset(), Usage(10, None, None)) is None
    assert call_cost(preset(host_model="nobody/knows-this"), USED) is None
    assert call_cost(preset(api_base="http://127.0.0.1:1"), USED) is None
