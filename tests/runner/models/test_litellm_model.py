"""The real litellm against a server on this machine that speaks the OpenAI chat format."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from runner.base.digests import canonical_json
from runner.base.encoding import decode, encode
from runner.base.errors import AccountRefused, KeyRefused, ModelRefused, ModelUnavailable, SetupError
from runner.base.types import FILTERED, TOO_LONG, ModelReply, ModelRequest, Usage
from runner.models import make_model
from runner.models.litellm.client import LiteLLM
from runner.models.wire.call_slots import TRIES
from tests.providers.chat_provider import Provider

KEY = "key-of-the-test-0123456789"


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    monkeypatch.setenv("TEST_PROVIDER_KEY", KEY)
    found = Provider()
    yield found
    found.close()


def model(provider: Provider, sleep: Callable[[float], None] = lambda _: None, **settings: Any) -> LiteLLM:
    given = {"key_variable": "TEST_PROVIDER_KEY", "api_base": provider.url, "timeout_seconds": 10, **settings}
    return LiteLLM("litellm/openai/gpt-4.1-mini", sleep=sleep, **given)


REQUEST = ModelRequest(({"role": "user", "content": "say hello"},), temperature=0.2, max_tokens=50, json_object=True)
USAGE = {
    "prompt_tokens": 1000,
    "completion_tokens": 20,
    "total_tokens": 1020,
    "prompt_tokens_details": {"cached_tokens": 600},
}


def test_it_sends_the_messages_and_gives_text_and_usage(provider: Provider) -> None:
    provider.says('{"a": 1}', usage=USAGE)
    reply = model(provider).complete(REQUEST)
    assert (reply.text, reply.finish_reason) == ('{"a": 1}', "stop")
    assert (reply.usage.input_tokens, reply.usage.cached_tokens, reply.usage.output_tokens) == (1000, 600, 20)
    (asked,) = provider.asked
    assert asked["messages"] == [{"role": "user", "content": "say hello"}]
    assert (asked["model"], asked["temperature"], asked["max_tokens"]) == ("gpt-4.1-mini", 0.2, 50)
    assert asked["response_format"] == {"type": "json_object"}
    assert provider.keys == [f"Bearer {KEY}"]


def test_it_knows_no_cost_behind_an_address_of_ones_own(provider: Provider) -> None:
    provider.says(usage=USAGE)
    assert model(provider).complete(REQUEST).usage.cost_usd is None


def test_it_prices_at_the_list_with_cached_input_counted_once(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider.says(usage=USAGE)
    monkeypatch.setenv("OPENAI_API_BASE", provider.url)
    monkeypatch.setenv("OPENAI_BASE_URL", provider.url)
    cost = model(provider, api_base=None).complete(REQUEST).usage.cost_usd
    prices = _price_list()["gpt-4.1-mini"]
    expected = (
        400 * prices["input_cost_per_token"]
        + 600 * prices["cache_read_input_token_cost"]
        + 20 * prices["output_cost_per_token"]
    )
    assert cost == pytest.approx(expected)


def _price_list() -> Any:
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    import litellm

    return litellm.model_cost


def test_it_leaves_usage_unknown_where_nobody_tells(provider: Provider) -> None:
    provider.says()
    usage = model(provider).complete(REQUEST).usage
    assert (usage.input_tokens, usage.output_tokens, usage.cost_usd) == (None, None, None)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_it_tries_again_when_the_failure_may_pass(provider: Provider, status: int) -> None:
    provider.fails(status)
    provider.fails(status)
    provider.says("at last")
    pauses: list[float] = []
    assert model(provider, pauses.append).complete(REQUEST).text == "at last"
    assert len(provider.asked) == 3
    assert 0.5 <= pauses[0] <= 1.0 <= pauses[1] <= 2.0


def test_it_gives_up_after_so_many_tries_and_says_when_to_come_back(provider: Provider) -> None:
    provider.fails(429, headers={"Retry-After": "7"})
    pauses: list[float] = []
    with pytest.raises(ModelUnavailable) as caught:
        model(provider, pauses.append).complete(REQUEST)
    assert len(provider.asked) == TRIES
    assert pauses == [7.0] * (TRIES - 1)
    assert caught.value.retry_after_seconds == 7.0


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, ModelRefused), (401, KeyRefused), (402, AccountRefused), (403, KeyRefused), (404, AccountRefused)],
)
def test_it_asks_once_where_asking_again_is_of_no_use(
    provider: Provider, status: int, kind: type[ModelRefused]
) -> None:
    provider.fails(status, "not like this")
    with pytest.raises(ModelRefused, match="not like this") as caught:
        model(provider).complete(REQUEST)
    assert type(caught.value) is kind
    assert len(provider.asked) == 1


@pytest.mark.parametrize(
    ("host_model", "status", "error"),
    [
        ("openai/gpt-4.1-mini", 429, {"type": "insufficient_quota", "code": "insufficient_quota", "message": "Quota."}),
        (
            "anthropic/claude-sonnet-4-5",
            400,
            {"type": "invalid_request_error", "message": "Your credit balance is too low."},
        ),
    ],
)
def test_an_account_without_credit_is_known_by_what_the_provider_says(
    provider: Provider, host_model: str, status: int, error: dict[str, str]
) -> None:
    provider.answers.append((status, {"type": "error", "error": error}, {}))
    address = provider.url if host_model.startswith("openai/") else provider.url.removesuffix("/v1")
    asked = LiteLLM(f"litellm/{host_model}", key_variable="TEST_PROVIDER_KEY", api_base=address)
    with pytest.raises(AccountRefused):
        asked.complete(REQUEST)
    assert len(provider.asked) == 1


def test_it_calls_a_server_that_is_not_there_unavailable(provider: Provider) -> None:
    nowhere = model(provider, api_base="http://127.0.0.1:9/v1")
    with pytest.raises(ModelUnavailable):
        nowhere.complete(REQUEST)


def test_a_conversation_that_outgrew_the_model_is_told_and_a_request_without_tools_refused(provider: Provider) -> None:
    said = "This model's maximum context length is 8 tokens, however you requested 9 tokens."
    provider.fails(400, said, code="context_length_exceeded")
    with pytest.raises(ModelRefused, match="maximum context length"):
        model(provider).complete(REQUEST)
    tool = {"type": "function", "function": {"name": "t", "parameters": {"type": "object", "properties": {}}}}
    messages = (*REQUEST.messages, {"role": "assistant", "content": "hello"}, {"role": "user", "content": "go on"})
    provider.fails(400, said, code="context_length_exceeded")
    reply = model(provider).complete(ModelRequest(messages, tools=(tool,)))
    assert (reply.finish_reason, reply.usage) == (TOO_LONG, Usage())
    assert "maximum context length" in reply.text


def test_it_takes_a_refusal_and_a_filter_for_replies(provider: Provider) -> None:
    provider.says(None, refusal="I will not judge this.")
    provider.fails(400, "content management policy", code="content_policy_violation")
    refused, filtered = model(provider).complete(REQUEST), model(provider).complete(REQUEST)
    assert (refused.finish_reason, refused.text) == (FILTERED, "I will not judge this.")
    assert filtered.finish_reason == FILTERED


def test_it_reads_tool_calls_and_keeps_arguments_that_are_no_json(provider: Provider) -> None:
    calls = [
        {"id": f"c{place}", "type": "function", "function": {"name": "shell", "arguments": text}}
        for place, text in enumerate(['{"command": "ls"}', '{"command": "l'])
    ]
    provider.says(None, finish="tool_calls", tool_calls=calls)
    found = model(provider).complete(REQUEST).tool_calls
    assert [dict(call.arguments) for call in found] == [{"command": "ls"}, {"unreadable": '{"command": "l'}]


def test_arguments_may_break_lines_inside_a_text(provider: Provider) -> None:
    provider.says(None, finish="tool_calls", tool_calls=[_tool_call("c", '{"command": "cat <<E\none\nE"}')])
    (call,) = model(provider).complete(REQUEST).tool_calls
    assert call.arguments == {"command": "cat <<E\none\nE"}


@pytest.mark.parametrize("ids", [["", ""], ["c", "c"], [None, None]])
def test_every_tool_call_has_an_id_of_its_own(provider: Provider, ids: list[str | None]) -> None:
    provider.says(None, finish="tool_calls", tool_calls=[_tool_call(each, "{}") for each in ids])
    found = [call.id for call in model(provider).complete(REQUEST).tool_calls]
    assert len(set(found)) == 2
    assert all(found)


def test_a_reply_can_be_recorded_and_sent_back_whatever_it_spells(provider: Provider) -> None:
    """Half an emoji is no UTF-8, and NaN, infinities and deep nesting are no JSON that could be kept."""
    deep = '{"a": ' * 500 + "1" + "}" * 500
    arguments = ['{"command": "echo \\ud83d", "limit": NaN, "offset": 1e999}', deep]
    provider.says("half: \ud83d", reasoning_content="\ud83d", tool_calls=[_tool_call("c", each) for each in arguments])
    reply = model(provider).complete(REQUEST)
    assert decode(ModelReply, json.loads(canonical_json(encode(reply)))) == reply
    message = {"role": "assistant", "content": reply.text, "reasoning_content": reply.reasoning}
    model(provider).complete(ModelRequest((*REQUEST.messages, message, {"role": "user", "content": "go on"})))
    assert provider.asked[-1]["messages"][1]["content"] == "half: \ufffd"


@pytest.mark.parametrize(
    "choices",
    [
        [],
        [
            {
                "index": 0,
                "finish_reason": "error",
                "error": {"code": 502, "message": "Upstream"},
                "message": {"role": "assistant", "content": ""},
            }
        ],
    ],
)
def test_a_status_of_success_without_a_reply_is_asked_again(provider: Provider, choices: list[Any]) -> None:
    """OpenRouter reports a failure of the provider behind it so; litellm turns it into an empty reply with the reason
    "stop"."""
    provider.says()
    provider.answers.insert(0, (200, {**provider.answers[0][1], "choices": choices}, {}))
    assert model(provider).complete(REQUEST).text == "hello"
    provider.answers = [(200, {**provider.answers[0][1], "choices": choices}, {})]
    with pytest.raises(ModelUnavailable, match="No reply: "):
        model(provider).complete(REQUEST)


def _tool_call(identifier: str | None, arguments: str) -> dict[str, Any]:
    return {"id": identifier, "type": "function", "function": {"name": "shell", "arguments": arguments}}


def test_it_names_the_variable_that_holds_no_key(provider: Provider) -> None:
    with pytest.raises(SetupError, match="NOT_THERE"):
        model(provider, key_variable="NOT_THERE").complete(REQUEST)
    assert provider.asked == []


def test_it_sends_no_key_found_by_chance_to_an_address_of_ones_own(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "the-real-key-0123456789")
    provider.says()
    model(provider, key_variable=None).complete(REQUEST)
    assert provider.keys == ["Bearer none"]


def test_it_is_found_by_its_name_and_refuses_half_a_name() -> None:
    assert make_model("litellm/openai/gpt-4.1-mini").name == "litellm/openai/gpt-4.1-mini"
    with pytest.raises(SetupError, match="litellm/<model>"):
        make_model("litellm/")
