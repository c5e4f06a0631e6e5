"""What goes back in the next turn, on the wire of providers that refuse a conversation without it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from benchapp.record.redaction import Redactor
from runner.agents.shell import _assistant_message
from runner.base.digests import canonical_json
from runner.base.encoding import decode, encode
from runner.base.errors import ModelRefused
from runner.base.types import ModelReply, ModelRequest
from runner.engine.toolbox import Cleaner
from runner.models.litellm.client import LiteLLM
from runner.models.preset import Preset
from runner.models.wire.carried import MAX_BYTES
from tests.cases import every
from tests.providers import strict_providers
from tests.providers.strict_providers import (
    StrictProvider,
    chat_reply,
    function_call,
    output_text,
    reasoning_item,
    thought,
    tool_use,
)

TOOL = {"type": "function", "function": {"name": "shell", "parameters": {"type": "object", "properties": {}}}}
Serve = Callable[..., StrictProvider]
AT_ROOT = ("anthropic", "gemini", "ollama_chat", "deepseek")
THINKING = {"thinking": {"type": "enabled", "budget_tokens": 2_000}}
CLEANER = Cleaner(Redactor(("the-workers-password",)).text)


@pytest.fixture
def serve() -> Iterator[Serve]:
    servers: list[StrictProvider] = []

    def serve(check: strict_providers.Check, *replies: strict_providers.Body) -> StrictProvider:
        servers.append(StrictProvider(check, *replies))
        return servers[-1]

    yield serve
    for server in servers:
        server.close()


def model(server: StrictProvider, name: str, **changes: Any) -> LiteLLM:
    address = server.root if name.startswith(AT_ROOT) else f"{server.root}/v1"
    values = {"provider": "house", "harness": "shell", "agent_model": "m", "api_base": address, **changes}
    return LiteLLM.of_preset(Preset(name="house", host_model=name, **values))


def converse(asked: LiteLLM, turns: int) -> list[ModelReply]:
    """As the shell agent does, each reply cleaned, written and read again before it is gone on with."""
    messages: list[Mapping[str, Any]] = [
        {"role": "system", "content": "Use the tool."},
        {"role": "user", "content": "list the files"},
    ]
    replies = []
    for _ in range(turns):
        request = CLEANER.request(ModelRequest(tuple(messages), (TOOL,), max_tokens=4_000))
        reply = CLEANER.reply(asked.complete(request))
        reply = decode(ModelReply, json.loads(canonical_json(encode(reply))))
        messages.append(_assistant_message(reply))
        messages += [{"role": "tool", "tool_call_id": call.id, "content": "a.txt"} for call in reply.tool_calls]
        if not reply.tool_calls:
            messages.append({"role": "user", "content": "go on"})
        replies.append(reply)
    return replies


def google_call(command: str, **more: Any) -> strict_providers.Body:
    return {"functionCall": {"name": "shell", "args": {"command": command}}, **more}


GEMINI_TURN = strict_providers.gemini_reply(
    {"text": "hm", "thought": True}, google_call("ls", thoughtSignature="U0lHQ0FMTA=="), google_call("pwd")
)
REDACTED = {"type": "redacted_thinking", "data": "c2VjcmV0"}
SAID = {"type": "text", "text": "I look."}


@pytest.mark.parametrize(
    ("name", "check", "turns", "options"),
    [
        (
            "anthropic/claude-sonnet-4-5",
            strict_providers.anthropic,
            [(thought("hm"), REDACTED, SAID, tool_use("t1")), (thought(""), tool_use("t2")), (SAID,)],
            THINKING,
        ),
        (
            "anthropic/claude-sonnet-4-5",
            strict_providers.anthropic,
            [(REDACTED, tool_use("t1"), tool_use("t2")), (thought("hm"), SAID, tool_use("t3")), (SAID,)],
            {"reasoning_effort": "low"},
        ),
    ],
)
def test_claudes_thinking_goes_back_with_its_signature(
    serve: Serve,
    name: str,
    check: strict_providers.Check,
    turns: list[tuple[strict_providers.Body, ...]],
    options: dict[str, Any],
) -> None:
    server = serve(check, *(strict_providers.anthropic_reply(*parts) for parts in turns))
    converse(model(server, name, options=options), 3)
    assert server.refusals == []
    sent = [message["content"] for message in server.taken[-1]["messages"] if message["role"] == "assistant"]
    assert [_unmarked(parts) for parts in sent] == [list(parts) for parts in turns[:2]]


def _unmarked(parts: list[strict_providers.Body]) -> list[strict_providers.Body]:
    return [{name: value for name, value in part.items() if name != "cache_control"} for part in parts]


@pytest.mark.parametrize("options", [THINKING, {"reasoning_effort": "low"}])
def test_thinking_that_holds_a_secret_is_not_kept_and_thinking_ends_there(
    serve: Serve, options: dict[str, Any]
) -> None:
    """What is signed cannot be changed.
    Without it Anthropic answers a conversation with tools only with thinking off."""
    first = (thought("the-workers-password is odd"), tool_use("t1"))
    server = serve(
        strict_providers.anthropic, strict_providers.anthropic_reply(*first), strict_providers.anthropic_reply(SAID)
    )
    replies = converse(model(server, "anthropic/claude-sonnet-4-5", options=options), 2)
    assert server.refusals == []
    assert "the-workers-password" not in json.dumps(encode(replies[0])) + json.dumps(server.taken[1])
    assert "thinking" not in server.taken[1]
    assert "thinking: that of an earlier turn was not kept, and cannot be gone on with" in replies[1].not_sent


def test_thinking_beyond_all_measure_is_not_kept(serve: Serve) -> None:
    server = serve(
        strict_providers.anthropic, strict_providers.anthropic_reply(thought("x" * (MAX_BYTES + 1)), tool_use("t1"))
    )
    (reply,) = converse(model(server, "anthropic/claude-sonnet-4-5", options=THINKING), 1)
    assert reply.carried is None


@pytest.mark.parametrize("name", ["gemini/gemini-3-flash-preview", "gemini/gemini-2.5-pro"])
def test_googles_signatures_go_back_with_their_calls(serve: Serve, name: str) -> None:
    server = serve(strict_providers.gemini, GEMINI_TURN, GEMINI_TURN, strict_providers.gemini_reply({"text": "done"}))
    replies = converse(model(server, name), 3)
    assert server.refusals == []
    calls = [part for content in server.taken[-1]["contents"] for part in content["parts"] if "function_call" in part]
    assert [part.get("thoughtSignature") for part in calls] == ["U0lHQ0FMTA==", None] * 2
    assert all("U0lH" not in call.id for reply in replies for call in reply.tool_calls)


@pytest.mark.parametrize("name", ["openai/gpt-5.2-codex", "openai/gpt-5.3-codex", "openai/responses/house-model"])
def test_the_responses_bridge_carries_encrypted_reasoning_over_several_turns(serve: Serve, name: str) -> None:
    server = serve(
        strict_providers.responses,
        strict_providers.responses_reply(reasoning_item(1), output_text("I look."), function_call(1)),
        strict_providers.responses_reply(reasoning_item(2), function_call(2), function_call(3)),
        strict_providers.responses_reply(reasoning_item(3), output_text("done")),
        strict_providers.responses_reply(output_text("done")),
    )
    replies = converse(model(server, name), 4)
    assert server.refusals == []
    assert set(server.paths) == {"/v1/responses"}
    assert [len(reply.tool_calls) for reply in replies] == [1, 2, 0, 0]
    assert (replies[0].text, replies[0].reasoning, replies[0].usage.cached_tokens) == ("I look.", "Thought 1.", 40)
    last = server.taken[-1]
    assert (last["store"], last["include"]) == (False, ["reasoning.encrypted_content"])
    kinds = [item["type"] for item in last["input"]]
    assert kinds == [
        "message", "reasoning", "message", "function_call", "function_call_output",
        "reasoning", "function_call", "function_call", "function_call_output", "function_call_output",
        "reasoning", "message", "message",
    ]  # fmt: skip


KIMI = (
    chat_reply("I look.", "c1", reasoning_content="First."),
    chat_reply(None, "c2", reasoning_content="Then."),
    chat_reply(),
)


@every(
    ("moonshot/kimi-k2-thinking", strict_providers.moonshot),
    ("moonshot/kimi-k2.5", strict_providers.moonshot),
    ("openai/moonshotai.kimi-k2-thinking", strict_providers.moonshot),
    ("deepseek/deepseek-chat", strict_providers.deepseek_thinking),
    ("hosted_vllm/Qwen/Qwen3-8B", strict_providers.vllm),
    ("lm_studio/gpt-oss-20b", strict_providers.lm_studio),
)
def test_reasoning_goes_back_with_turns_that_called_tools(
    name: str, check: strict_providers.Check, serve: Serve
) -> None:
    server = serve(check, *KIMI)
    converse(model(server, name), 3)
    assert server.refusals == []
    sent = [message for message in server.taken[-1]["messages"] if message["role"] == "assistant"]
    assert [message["reasoning_content"] for message in sent] == ["First.", "Then."]


def test_openrouter_gets_its_details_back(serve: Serve) -> None:
    details = [{"type": "reasoning.text", "text": "hm", "signature": "S", "format": "anthropic-claude-v1", "index": 0}]
    server = serve(
        strict_providers.takes_all, chat_reply("I look.", "c1", reasoning="hm", reasoning_details=details), chat_reply()
    )
    converse(model(server, "openrouter/anthropic/claude-sonnet-4.5"), 2)
    (sent,) = [message for message in server.taken[-1]["messages"] if message["role"] == "assistant"]
    assert (sent["reasoning_details"], sent.get("reasoning_content")) == (details, None)


def test_ollama_takes_it_as_thinking(serve: Serve) -> None:
    turns = (strict_providers.ollama_reply("", "First.", call=True), strict_providers.ollama_reply("done"))
    server = serve(strict_providers.ollama, *turns)
    converse(model(server, "ollama_chat/qwen3:8b"), 2)
    assert [message.get("thinking") for message in server.taken[-1]["messages"] if message["role"] == "assistant"] == [
        "First."
    ]


def test_reasoning_never_goes_back_without_a_call(serve: Serve) -> None:
    server = serve(strict_providers.deepseek_classic, chat_reply("done", reasoning_content="First."))
    converse(model(server, "deepseek/deepseek-reasoner"), 3)
    assert server.refusals == []
    assert len(server.taken) == 3


@pytest.mark.parametrize(
    ("name", "check", "refusals"),
    [
        ("groq/qwen/qwen3-32b", strict_providers.groq, 0),
        ("mistral/magistral-medium-latest", strict_providers.strict_chat, 0),
        ("openai/house", strict_providers.strict_chat, 1),
        ("hosted_vllm/house", strict_providers.groq, 1),
    ],
)
def test_who_refuses_reasoning_is_not_sent_it_again(
    serve: Serve, name: str, check: strict_providers.Check, refusals: int
) -> None:
    server = serve(check, *KIMI)
    replies = converse(model(server, name), 3)
    assert len(server.refusals) == refusals
    assert [reply.reasoning for reply in replies] == ["First.", "Then.", None]
    assert not any("reasoning_content" in message for body in server.taken for message in body["messages"])


@pytest.mark.parametrize(
    ("name", "check"),
    [
        ("openai/moonshotai.kimi-k2-thinking", strict_providers.moonshot),
        ("deepseek/deepseek-chat", strict_providers.deepseek_thinking),
    ],
)
def test_a_turn_that_came_without_reasoning_is_given_the_least_there_is(
    serve: Serve, name: str, check: strict_providers.Check
) -> None:
    server = serve(check, chat_reply("", "c1"), chat_reply("", "c2", reasoning_content="Then."), chat_reply())
    converse(model(server, name), 3)
    assert len(server.refusals) == 1
    sent = [message for message in server.taken[-1]["messages"] if message["role"] == "assistant"]
    assert [message["reasoning_content"] for message in sent] == [" ", "Then."]


def contradicts_itself(body: strict_providers.Body) -> strict_providers.Refusal:
    """Reasoning is unsupported where it is sent, and missing where it is not."""
    turns = [message for message in body["messages"] if message["role"] == "assistant"]
    if any("reasoning_content" in turn for turn in turns):
        return strict_providers.openai_error("property 'reasoning_content' is unsupported")
    return strict_providers.moonshot(body) if turns else None


def test_a_provider_that_demands_what_it_refuses_is_not_asked_for_ever(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKILLGLASS_MODEL_CALL_SECONDS", "20")
    server = serve(contradicts_itself, *KIMI)
    with pytest.raises(ModelRefused, match="reasoning_content"):
        converse(model(server, "openai/house"), 2)
    assert len(server.refusals) == 3


def test_reasoning_that_is_demanded_goes_to_a_provider_that_usually_refuses_it(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKILLGLASS_MODEL_CALL_SECONDS", "20")
    server = serve(strict_providers.moonshot, *KIMI)
    converse(model(server, "groq/moonshotai/kimi-k2"), 3)
    assert len(server.refusals) == 1


@every("shell.run", "", "bash ls", "functions/shell", "x" * 300, "werä")
def test_a_tools_name_that_no_provider_takes_back_does_not_end_the_conversation(name: str, serve: Serve) -> None:
    def takes_names(body: strict_providers.Body) -> strict_providers.Refusal:
        told = [call["function"]["name"] for message in body["messages"] for call in message.get("tool_calls", ())]
        odd = [each for each in told if not re.fullmatch("[a-zA-Z0-9_-]{1,64}", each)]
        return strict_providers.openai_error("string does not match pattern '^[a-zA-Z0-9_-]+$'") if odd else None

    called = chat_reply("", "c1")
    called["choices"][0]["message"]["tool_calls"][0]["function"]["name"] = name
    replies = converse(model(serve(takes_names, called, chat_reply()), "openai/house"), 2)
    assert (replies[0].tool_calls[0].name, replies[1].text) == (name, "hello")


# --- the cache ------------------------------------------------------------------------------------------------------


def marked(body: strict_providers.Body) -> list[str]:
    """Roles of what ends with a mark for the cache."""
    found = ["system"] if "cache_control" in body.get("system", [{}])[-1] else []
    return found + [
        message["role"] for message in body["messages"] if "cache_control" in json.dumps(message["content"])
    ]


def test_a_conversation_with_tools_is_cached_up_to_its_end(serve: Serve) -> None:
    turns = [strict_providers.anthropic_reply(tool_use(f"t{place}")) for place in range(4)]
    server = serve(strict_providers.anthropic, *turns)
    converse(model(server, "anthropic/claude-sonnet-4-5"), 4)
    assert server.refusals == []
    assert [marked(body) for body in server.taken] == [["system", "user"], ["system", "user", "user"]] + [
        ["system", "user", "user"]
    ] * 2
    last = server.taken[-1]["messages"]
    places = [place for place, message in enumerate(last) if "cache_control" in json.dumps(message)]
    assert places == [len(last) - 3, len(last) - 1]  # where the request before ended, and here


def test_one_question_is_not_cached(serve: Serve) -> None:
    server = serve(strict_providers.anthropic, strict_providers.anthropic_reply(SAID))
    model(server, "anthropic/claude-sonnet-4-5").complete(ModelRequest(({"role": "user", "content": "hello"},)))
    assert "cache_control" not in json.dumps(server.taken)


def test_who_refuses_marks_is_not_sent_them_again(serve: Serve) -> None:
    def check(body: strict_providers.Body) -> strict_providers.Refusal:
        told = "messages.0.content.0.text.cache_control: Extra inputs are not permitted"
        return strict_providers.anthropic_error(told) if "cache_control" in json.dumps(body) else None

    server = serve(check, strict_providers.anthropic_reply(tool_use("t1")), strict_providers.anthropic_reply(SAID))
    converse(model(server, "anthropic/claude-sonnet-4-5"), 2)
    assert len(server.refusals) == 1


@pytest.mark.parametrize("name", ["openai/gpt-4.1-mini", "hosted_vllm/claude-like", "gemini/gemini-2.5-pro"])
def test_no_other_provider_is_sent_marks(serve: Serve, name: str) -> None:
    server = serve(
        strict_providers.takes_all, strict_providers.gemini_reply({"text": "x"}) if "gemini" in name else chat_reply()
    )
    converse(model(server, name), 1)
    assert "cache_control" not in json.dumps(server.taken)
