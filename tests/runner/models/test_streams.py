"""A stream put together is the reply that the same provider gives where it is not asked for a stream."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runner.base.types import ModelRequest
from runner.models.litellm.client import LiteLLM
from runner.models.wire.metering import UsageMeter
from runner.models.wire.streams import BrokenStream, ErrorInStream, EventReader, as_stream
from tests.cases import every
from tests.providers.anthropic_provider import AnthropicProvider
from tests.providers.gemini_provider import GeminiProvider
from tests.providers.scripted_server import Call, ScriptedServer, Turn
from tests.providers.streaming_chat_provider import StreamingChatProvider
from tests.providers.wire_provider import chunk, events, named_events

TOOL = {
    "type": "function",
    "function": {
        "name": "shell",
        "description": "Runs a command.",
        "parameters": {"type": "object", "properties": {"command": {"type": "string"}}},
    },
}
REQUEST = ModelRequest(({"role": "user", "content": "go"},), tools=(TOOL,), max_tokens=50)
CHAT, ANTHROPIC, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
GEMINI, OLLAMA = "/v1beta/models/gemini-2.5-pro:generateContent", "/api/chat"


def whole(path: str, content: bytes, size: int = 7) -> dict[str, Any]:
    """What the stream `content` makes, read in pieces of `size` bytes."""
    streamed = as_stream(path, {})
    assert streamed is not None
    reader = EventReader(streamed.assembler())
    for start in range(0, len(content), size):
        reader.feed(content[start : start + size])
    return reader.whole()


# --- with litellm ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "name", "suffix"),
    [
        (StreamingChatProvider, "openai/gpt-4.1-mini", "/v1"),
        (StreamingChatProvider, "hosted_vllm/qwen", "/v1"),
        (StreamingChatProvider, "moonshot/kimi-k2", "/v1"),
        (AnthropicProvider, "anthropic/claude-sonnet-4-5", ""),
        (GeminiProvider, "gemini/gemini-2.5-pro", "/v1beta"),
    ],
)
def test_text_tool_calls_and_usage_of_a_stream_are_those_of_the_reply(
    kind: type[ScriptedServer], name: str, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_PROVIDER_KEY", "key-of-the-test-0123456789")
    calls = (Call("shell", {"command": "ls"}), Call("shell", {"command": "pwd"}))
    server = kind([Turn("I look.", calls, fresh=300, cached=600, output=20)])
    asked = LiteLLM(f"litellm/{name}", key_variable="TEST_PROVIDER_KEY", api_base=server.url + suffix)
    reply = asked.complete(REQUEST)
    server.close()
    assert reply.text == "I look."
    assert [(call.name, call.arguments) for call in reply.tool_calls] == [
        ("shell", {"command": "ls"}),
        ("shell", {"command": "pwd"}),
    ]
    usage = reply.usage
    assert (usage.input_tokens, usage.cached_tokens, usage.output_tokens) == (900, 600, 20)


# --- formats --------------------------------------------------------------------------------------------------------


def test_pieces_of_a_chat_are_joined_by_their_place() -> None:
    def call(index: int | None, text: str, **more: Any) -> dict[str, Any]:
        return {"tool_calls": [{"index": index, "function": {"arguments": text, **more.pop("named", {})}, **more}]}

    found = whole(
        CHAT,
        b": a comment\n\n"
        + events(
            chunk({"role": "assistant", "content": ""}),
            chunk({"reasoning_content": "I th"}),
            chunk({"reasoning_content": "ink.", "reasoning_details": [{"index": 0, "type": "t", "text": "I th"}]}),
            chunk({"reasoning_details": [{"index": 0, "type": "t", "text": "ink.", "signature": "sig"}]}),
            chunk(call(0, "", id="a", type="function", named={"name": "shell"})),
            chunk(call(0, '{"command":')),
            chunk(call(0, ' "ls"}')),
            chunk(call(1, "{}", id="b", type="function", named={"name": "submit"}), extra_of_the_event=1),
            chunk({}, "tool_calls", usage=None),
            {"id": "r", "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}},
            done=True,
        ),
    )
    (choice,) = found["choices"]
    message = choice["message"]
    assert (choice["finish_reason"], message["content"], message["reasoning_content"]) == ("tool_calls", "", "I think.")
    assert message["reasoning_details"] == [{"index": 0, "type": "t", "text": "I think.", "signature": "sig"}]
    told = [(one["id"], one["function"]["name"], one["function"]["arguments"]) for one in message["tool_calls"]]
    assert told == [("a", "shell", '{"command": "ls"}'), ("b", "submit", "{}")]
    assert (found["object"], found["usage"]["prompt_tokens"]) == ("chat.completion", 3)


@pytest.mark.parametrize("index", [0, None])
def test_calls_that_a_server_gives_one_place_are_told_apart_by_their_ids(index: int | None) -> None:
    """Gemini's and older Ollama's compatible addresses do so."""
    pieces = [
        {"index": index, "id": name, "function": {"name": "shell", "arguments": f'{{"command": "{name}"}}'}}
        for name in ("a", "b")
    ]
    found = whole(CHAT, events(*(chunk({"tool_calls": [piece]}) for piece in pieces), chunk({}, "stop")))
    calls = found["choices"][0]["message"]["tool_calls"]
    assert [json.loads(call["function"]["arguments"])["command"] for call in calls] == ["a", "b"]


def test_a_name_that_is_repeated_in_every_piece_is_one_name() -> None:
    pieces = [{"index": 0, "id": "a", "function": {"name": "shell", "arguments": text}} for text in ('{"a"', ": 1}")]
    found = whole(CHAT, events(*(chunk({"tool_calls": [piece]}) for piece in pieces), chunk({}, "stop")))
    (call,) = found["choices"][0]["message"]["tool_calls"]
    assert call["function"] == {"name": "shell", "arguments": '{"a": 1}'}


@pytest.mark.parametrize("given", [{}, {"index": 0}, {"index": 0, "id": ""}, {"index": 0, "id": "same"}])
def test_calls_without_index_and_id_of_their_own_are_told_apart_by_their_ends(given: dict[str, Any]) -> None:
    pieces = [
        {**given, "function": {"name": name, "arguments": f'{{"command": "{name}"}}'}}
        for name in ("shell", "read", "read")
    ]
    found = whole(CHAT, events(*(chunk({"tool_calls": [piece]}) for piece in pieces), chunk({}, "stop")))
    calls = found["choices"][0]["message"]["tool_calls"]
    assert [call["function"]["name"] for call in calls] == ["shell", "read", "read"]
    assert [json.loads(call["function"]["arguments"])["command"] for call in calls] == ["shell", "read", "read"]


def test_mistrals_thinking_comes_in_parts_and_its_answer_as_text() -> None:
    def thinks(text: str) -> dict[str, Any]:
        return chunk({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": text}]}]})

    said = [
        chunk({"content": ""}),
        thinks("I "),
        thinks("think."),
        chunk({"content": "An"}),
        chunk({"content": "swer"}),
    ]
    found = whole(CHAT, events(*said, chunk({}, "stop")))
    assert found["choices"][0]["message"]["content"] == [
        {"type": "text", "text": ""},
        {"type": "thinking", "thinking": [{"type": "text", "text": "I think."}]},
        {"type": "text", "text": "Answer"},
    ]


@pytest.mark.parametrize(
    "last",
    [
        {**chunk({}), "choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": {"prompt_tokens": 3}}]},
        chunk({}, "stop", x_groq={"id": "r", "usage": {"prompt_tokens": 3}}),
        chunk({}, "stop", usage={"prompt_tokens": 3}),
    ],
)
def test_usage_is_found_where_moonshot_and_groq_put_it(last: dict[str, Any]) -> None:
    content = events(chunk({"content": "hello"}), last, {**chunk({}), "choices": [], "usage": {}}, done=True)
    assert whole(CHAT, content)["usage"] == {"prompt_tokens": 3}
    meter = UsageMeter(CHAT, "text/event-stream")
    meter.feed(content)
    assert meter.total().usage.input_tokens == 3


def test_a_byte_order_mark_takes_no_event_with_it() -> None:
    content = b"\xef\xbb\xbf" + events(
        chunk({"content": "hel"}, usage={"prompt_tokens": 3}), chunk({"content": "lo"}, "stop")
    )
    assert whole(CHAT, content)["choices"][0]["message"]["content"] == "hello"
    meter = UsageMeter(CHAT, "text/event-stream")
    meter.feed(content)
    assert meter.total().usage.input_tokens == 3


def test_gemini_calls_a_tool_without_parameters_without_arguments() -> None:
    part = {"functionCall": {"name": "submit"}}
    found = whole(GEMINI, events({"candidates": [{"content": {"parts": [part]}, "finishReason": "STOP"}]}))
    assert found["candidates"][0]["content"]["parts"] == [{"functionCall": {"name": "submit", "args": {}}}]


def test_arguments_nested_beyond_all_measure_are_kept_as_text() -> None:
    block = {"type": "tool_use", "id": "t1", "name": "shell", "input": {}}
    deep = "[" * 100_000
    found = whole(
        ANTHROPIC,
        named_events(
            [
                {"type": "message_start", "message": {"usage": {}}},
                {"type": "content_block_start", "index": 0, "content_block": block},
                {
                    "type": "content_block_delta",
                    "index": 0,
                    "delta": {"type": "input_json_delta", "partial_json": deep},
                },
                {"type": "message_stop"},
            ]
        ),
        size=100_000,
    )
    assert found["content"][0]["input"] == deep


def test_ollama_tells_no_count_of_a_prompt_that_it_had_read_before() -> None:
    """litellm counts the words itself where the field is missing, and takes zero for unknown."""
    said = b'{"message": {"content": "hi"}, "done": true, "eval_count": 5}\n'
    assert whole(OLLAMA, said)["prompt_eval_count"] == 0


def test_events_need_no_empty_line_between_them_and_may_break_lines_inside() -> None:
    spread = json.dumps(chunk({"content": "b"}), indent=1).replace("\n", "\r\ndata: ")
    content = f"data: {json.dumps(chunk({'content': 'a'}))}\ndata: {spread}\r\n\r\n".encode()
    found = whole(CHAT, content + events(chunk({}, "stop")))
    assert found["choices"][0]["message"]["content"] == "ab"


def test_anthropics_blocks_keep_their_signatures_and_inputs() -> None:
    def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
        return [
            {"type": "content_block_start", "index": index, "content_block": start},
            *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
            {"type": "content_block_stop", "index": index},
        ]

    usage = {"input_tokens": 9, "cache_read_input_tokens": 600, "output_tokens": 1}
    content = named_events(
        [
            {"type": "message_start", "message": {"id": "m", "model": "c", "content": [], "usage": usage}},
            *block(
                0,
                {"type": "thinking", "thinking": "", "signature": ""},
                {"type": "thinking_delta", "thinking": "I "},
                {"type": "thinking_delta", "thinking": "think"},
                {"type": "signature_delta", "signature": "Eo8B"},
            ),
            {"type": "ping"},
            *block(1, {"type": "redacted_thinking", "data": "xyz"}),
            *block(
                2,
                {"type": "tool_use", "id": "t", "name": "shell", "input": {}},
                {"type": "input_json_delta", "partial_json": '{"command": '},
                {"type": "input_json_delta", "partial_json": '"ls"}'},
            ),
            *block(3, {"type": "tool_use", "id": "u", "name": "submit", "input": {}}),
            {
                "type": "message_delta",
                "delta": {"stop_reason": "tool_use", "stop_sequence": None},
                "usage": {"output_tokens": 30},
            },
            {"type": "message_stop"},
        ]
    )
    assert whole(ANTHROPIC, content) == {
        "id": "m",
        "model": "c",
        "stop_reason": "tool_use",
        "content": [
            {"type": "thinking", "thinking": "I think", "signature": "Eo8B"},
            {"type": "redacted_thinking", "data": "xyz"},
            {"type": "tool_use", "id": "t", "name": "shell", "input": {"command": "ls"}},
            {"type": "tool_use", "id": "u", "name": "submit", "input": {}},
        ],
        "usage": {"input_tokens": 9, "cache_read_input_tokens": 600, "output_tokens": 30},
    }


def test_a_response_stands_whole_in_its_last_event_or_in_its_items() -> None:
    item = {"type": "function_call", "call_id": "c", "name": "shell", "arguments": "{}"}
    done = {"type": "response.output_item.done", "output_index": 0, "item": item}
    usage = {"input_tokens": 1, "output_tokens": 2}
    ended = {"type": "response.completed", "response": {"status": "completed", "output": [item], "usage": usage}}
    bare = {**ended, "response": {"status": "completed", "output": [], "usage": usage}}
    assert whole(RESPONSES, named_events([done, ended])) == ended["response"]
    assert whole(RESPONSES, named_events([done, bare])) == ended["response"]


def test_geminis_parts_are_joined_with_thoughts_and_signatures_apart() -> None:
    def piece(*parts: dict[str, Any], **more: Any) -> dict[str, Any]:
        return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, "index": 0, **more}]}

    call = {"functionCall": {"name": "shell", "args": {}}, "thoughtSignature": "sig"}
    content = events(
        piece({"text": "I th", "thought": True}),
        piece({"text": "ink.", "thought": True}),
        piece({"text": "hel"}),
        piece({"text": "lo"}),
        {**piece(call, finishReason="STOP"), "usageMetadata": {"promptTokenCount": 4}, "modelVersion": "g"},
    )
    assert whole(GEMINI, content) == {
        "candidates": [
            {
                "content": {"role": "model", "parts": [{"text": "I think.", "thought": True}, {"text": "hello"}, call]},
                "index": 0,
                "finishReason": "STOP",
            }
        ],
        "usageMetadata": {"promptTokenCount": 4},
        "modelVersion": "g",
    }
    assert as_stream(GEMINI + "?key=k", {}).path.endswith(":streamGenerateContent?key=k&alt=sse")  # type: ignore[union-attr]


def test_ollamas_lines_are_joined() -> None:
    lines = [
        {"model": "l", "message": {"role": "assistant", "content": "hel", "thinking": "I "}, "done": False},
        {"model": "l", "message": {"role": "assistant", "content": "lo", "thinking": "think"}, "done": False},
        {"message": {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "s"}}]}, "done": False},
        {"model": "l", "message": {"role": "assistant", "content": ""}, "done": True, "eval_count": 7},
    ]
    found = whole(OLLAMA, "".join(json.dumps(line) + "\n" for line in lines).encode())
    assert found["message"] == {
        "role": "assistant",
        "content": "hello",
        "thinking": "I think",
        "tool_calls": [{"function": {"name": "s"}}],
    }
    assert (found["done"], found["eval_count"]) == (True, 7)


# --- what is no reply -----------------------------------------------------------------------------------------------


@every(
    (CHAT, events(chunk({"content": "x"}))),
    (ANTHROPIC, named_events([{"type": "message_start", "message": {}}])),
    (RESPONSES, named_events([{"type": "response.created", "response": {}}])),
    (GEMINI, events({"candidates": [{"content": {"parts": [{"text": "x"}]}}]})),
    (OLLAMA, b'{"message": {"content": "x"}, "done": false}\n'),
    *((path, b"") for path in (CHAT, ANTHROPIC, RESPONSES, GEMINI, OLLAMA)),
)
def test_a_stream_without_its_end_is_no_reply(path: str, content: bytes) -> None:
    with pytest.raises(BrokenStream, match="ended before"):
        whole(path, content)


@every(CHAT, ANTHROPIC, RESPONSES, GEMINI, OLLAMA)
@every(
    b"data: {oh}\n\n",
    b"data: [1]\n\n",
    b"data: 1\n\n",
    b"data: " + b'{"a":' * 50_000 + b"\n\n",
    b'data: {"choices": [{"index": [], "delta": {}}], "candidates": [{"index": {"a": 1}}]}\n\n',
    b'data: {"type": "message_start", "message": {"usage": [1]}}\n\n',
    b'data: {"choices": [{"delta": {"tool_calls": [{"function": {"name": []}, "id": {}}]}}]}\n\n',
)
def test_events_that_are_none_break_the_stream(content: bytes, path: str) -> None:
    with pytest.raises(BrokenStream):
        whole(path, content, size=65_536)


def many(event: dict[str, Any]) -> bytes:
    """1,100 times the event, with another number wherever it says 77."""
    return b"".join(events(event).replace(b"77", b"%d" % number) for number in range(1_100))


@every(
    (CHAT, many(chunk({"tool_calls": [{"index": 77, "id": "77", "function": {"name": "a"}}]}))),
    (CHAT, many(chunk({"tool_calls": [{"id": "77", "function": {"name": "a"}}]}))),
    (CHAT, many(chunk({"reasoning_details": [{"index": 77}]}))),
    (CHAT, many({"choices": [{"index": 77, "delta": {"content": "x"}, "finish_reason": "stop"}]})),
    (ANTHROPIC, many({"type": "content_block_start", "index": 77, "content_block": {"type": "text"}})),
    (RESPONSES, many({"type": "response.output_item.done", "item": {"id": "77"}})),
    (GEMINI, many({"candidates": [{"content": {"parts": [{"functionCall": {"name": "77"}}]}}]})),
)
def test_a_reply_has_only_so_many_parts(path: str, content: bytes) -> None:
    """Each costs time, here and in what reads the reply after us."""
    with pytest.raises(BrokenStream, match="not of its format"):
        whole(path, content, size=65_536)


@every(
    (CHAT, {"error": {"code": 502, "message": "m"}}, 502),
    (CHAT, {"error": {"code": "rate_limit_exceeded", "message": "m"}}, 429),
    (CHAT, {"error": {"message": "m", "type": "BadRequestError", "code": 400}}, 400),
    (CHAT, {"error": {"message": "m", "type": "exceed_context_size_error"}}, 400),
    (ANTHROPIC, {"type": "error", "error": {"type": "overloaded_error", "message": "m"}}, 529),
    (RESPONSES, {"type": "error", "code": "server_error", "message": "m"}, 502),
    (RESPONSES, {"type": "response.failed", "response": {"error": {"code": "server_error", "message": "m"}}}, 502),
    (GEMINI, {"error": {"code": 503, "message": "m", "status": "UNAVAILABLE"}}, 503),
    (OLLAMA, {"error": "m"}, 502),
)
def test_an_error_in_a_stream_has_the_status_it_would_have_had_at_its_start(
    path: str, event: dict[str, Any], status: int
) -> None:
    with pytest.raises(ErrorInStream) as caught:
        whole(path, events(event))
    assert caught.value.status == status
    assert caught.value.body["error"]["message"] == "m"
