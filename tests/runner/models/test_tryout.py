"""Trying a model out: each answer is what was observed, and each no comes with the flag to change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from runner.base.errors import SetupError
from runner.models.tryout import TriedQuestion, Tryout, model_at, read_server_listing
from tests.cases import every
from tests.providers.home_server import HomeServer

KEY = "key-of-the-test-0123456789"
Start = Callable[..., HomeServer]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[HomeServer] = []

    def make(*models: Any, **pages: Any) -> HomeServer:
        started.append(HomeServer(*(models or ({"id": "tiny"},)), **pages))
        return started[-1]

    yield make
    for each in started:
        each.close()


def tried(server: HomeServer, model: str = "tiny") -> tuple[Tryout, list[TriedQuestion]]:
    tryout = Tryout(model_at(server.url, model, None))
    return tryout, list(tryout.ask())


def test_a_server_that_can_everything_gets_six_times_yes(start: Start) -> None:
    server = start({"id": "tiny", "owned_by": "vllm", "max_model_len": 32_768})
    tryout, answers = tried(server)
    assert [answer.passed for answer in answers] == [True] * 6
    assert [answer.said for answer in answers][:2] == ["it serves tiny (vLLM)", "it says 'ready'"]
    assert answers[2].said == 'it calls add({"a": 2, "b": 3})'
    assert answers[4].said == "32,768 tokens, as the server says"
    assert "20 tokens in" in answers[5].said
    assert (tryout.calls_tools, tryout.takes_json_mode, tryout.window) == (True, True, 32_768)


@pytest.mark.parametrize(
    ("model", "pages", "program", "window"),
    [
        ({"id": "tiny", "owned_by": "llamacpp", "meta": {"n_ctx": 4_096}}, {}, "llama.cpp", 4_096),
        ({"id": "tiny"}, {"/props": {"default_generation_settings": {"n_ctx": 2_048}}}, "llama.cpp", 2_048),
        (
            {"id": "tiny"},
            {"/api/v0/models": {"data": [{"id": "tiny", "loaded_context_length": 4_096}]}},
            "LM Studio",
            4_096,
        ),
        ({"id": "tiny"}, {"/api/ps": {"models": [{"name": "tiny", "context_length": 4_096}]}}, "Ollama", 4_096),
    ],
)
def test_the_window_is_read_where_each_program_declares_it(
    start: Start, model: Any, pages: Any, program: str, window: int
) -> None:
    tryout, answers = tried(start(model, pages=pages))
    assert (tryout.listing.program, tryout.window) == (program, window)
    assert f"put `context_window: {window}` into the preset" in answers[4].advice


@every({}, {"owned_by": "llamacpp", "meta": {"n_ctx": 4_096}})
@every((4, 4), ("4", None), (0, None), (None, None))
def test_llama_cpp_tells_how_many_calls_it_answers_at_a_time(told: Any, slots: Any, meta: Any, start: Start) -> None:
    props = {"total_slots": told, "default_generation_settings": {"n_ctx": 4_096}}
    server = start({"id": "tiny", **meta}, pages={"/props": props})
    listing = read_server_listing(server.url, None, "tiny")
    assert (listing.program, listing.window, listing.slots) == ("llama.cpp", 4_096, slots)


@every(
    ("llamacpp", "--jinja"),
    ("me", "--chat_format chatml-function-calling"),
    ("vllm", "--enable-auto-tool-choice --tool-call-parser"),
    ("library", "ollama show MODEL"),
    ("organization_owner", "LM Studio marks"),
    ("somebody", "turn tool calls on"),
)
def test_a_model_that_calls_no_tool_is_told_with_the_flag_of_its_program(owner: str, flag: str, start: Start) -> None:
    server = start({"id": "tiny", "owned_by": owner})
    server.tools, server.window = False, 100
    tryout, answers = tried(server)
    assert (answers[2].passed, tryout.calls_tools) == (False, False)
    assert answers[2].said == "no call; it says 'ready'"
    assert flag in answers[2].advice


@every(
    ({"name": "subtract", "arguments": '{"a": 2, "b": 3}'}, "there is no tool 'subtract'"),
    ({"name": "add", "arguments": '{"a": "cd /app; wc -w x"}'}, "a: expected a whole number"),
    ({"name": "add", "arguments": '{"a": 2}'}, "b: expected, and not there"),
    ({"name": "add", "arguments": "{}"}, "a: expected, and not there"),
    ({"name": "add", "arguments": '{"a": "2", "b": "3"}'}, "a: expected a whole number"),
    ({"name": "add", "arguments": '{"a": true, "b": 3}'}, "a: expected a whole number"),
    ({"name": "add", "arguments": '{"a": 2.5, "b": 3}'}, "a: expected a whole number"),
    ({"name": "add", "arguments": '{"a": 2, "b": 3, "c": 4}'}, "c: there is no such argument"),
    ({"name": "add", "arguments": "[2, 3]"}, ""),
    ({"name": "add", "arguments": "two and three"}, ""),
)
def test_a_call_counts_only_with_the_arguments_that_were_asked_for(
    call: dict[str, str], wrong: str, start: Start
) -> None:
    server = start()
    server.window, server.call = 100, call
    tryout, answers = tried(server)
    assert (answers[2].passed, tryout.calls_tools) == (False, False)
    assert wrong in answers[2].said
    assert call["name"] in answers[2].said


@every(
    ('{"answer": "ready"}', True),
    ('{"ready": 1}', True),
    ('{"ready": "true"}', True),
    ('{"ready": true, "note": "x"}', True),
    ('{"Ready": true}', True),
    ("[true]", False),
    ("ready: true", False),
    ('```json\n{"ready": true}\n```', False),
)
def test_json_counts_only_in_the_shape_that_was_asked_for(text: str, is_object: bool, start: Start) -> None:
    server = start()
    server.window, server.json_text = 100, text
    tryout, answers = tried(server)
    assert (answers[3].passed, tryout.keeps_json) == (False, False)
    assert 'expected {"ready": true}' in answers[3].said
    assert tryout.takes_json_mode is is_object  # the mode can be kept on although the model chose names of its own


def test_a_server_that_refuses_streams_is_told_so_in_its_own_sentence(start: Start) -> None:
    server = start()
    server.streams = False
    _, answers = tried(server)
    assert len(answers) == 2
    assert not answers[1].passed
    assert answers[1].said == "it refuses streaming, which Skillglass needs"
    assert "text/event-stream" in answers[1].advice


def test_a_server_that_refuses_everything_is_not_said_to_refuse_streaming(start: Start) -> None:
    server = start()
    server.json_mode, server.window = False, 0
    _, answers = tried(server)
    assert not answers[1].passed
    assert "streaming" not in answers[1].said


@every(
    ({"id": "tiny"}, {"/api/v0/models": {"data": [{"id": "tiny"}]}}, "it serves tiny"),
    ({"id": "tiny"}, {"/api/ps": {"models": []}}, "it serves tiny"),
    ({"id": "tiny", "owned_by": "me"}, {}, "it serves tiny (probably llama-cpp-python)"),
    ({"id": "tiny", "owned_by": "library"}, {}, "it serves tiny (probably Ollama)"),
    ({"id": "tiny", "owned_by": "vllm"}, {}, "it serves tiny (vLLM)"),
    (
        {"id": "tiny"},
        {"/api/v0/models": {"data": [{"id": "tiny", "max_context_length": 4_096}]}},
        "it serves tiny (LM Studio)",
    ),
)
def test_a_program_is_named_only_by_what_it_alone_says(model: Any, pages: Any, said: str, start: Start) -> None:
    """Any small server may answer every path, or call itself the owner."""
    server = start(model, pages=pages)
    server.window = 100
    assert tried(server)[1][0].said == said


@every(
        ({"id": "tiny", "meta": {"n_ctx": 100, "n_params": 134_515_008}}, {}, 134_515_008),
        ({"id": "tiny"}, {"/api/ps": {"models": [{"name": "tiny", "context_length": 100,
          "details": {"parameter_size": "134.52M"}}]}}, 134_520_000),
        ({"id": "SmolLM2-135M-Instruct.Q4_1.gguf"}, {}, 135_000_000),
        ({"id": "models/qwen2.5-0.5b-instruct-q8_0.gguf"}, {}, 500_000_000),
        ({"id": "qwen3:0.6b"}, {}, 600_000_000),
        ({"id": "Qwen2.5-7B-Instruct-1M"}, {}, 7_000_000_000),
        ({"id": "mixtral-8x7b"}, {}, 56_000_000_000),
        ({"id": "gemma-3-270m-it"}, {}, 270_000_000),
        ({"id": "tiny"}, {}, None),
        ({"id": "gpt-4.1-1m-context"}, {}, None),
        ({"id": "tiny", "meta": {"n_ctx": 100, "n_params": "many"}}, {}, None),
    )  # fmt: skip
def test_the_size_of_a_model_is_what_the_server_says_or_its_name(
    model: Any, pages: Any, parameters: int | None, start: Start
) -> None:
    server = start(model, pages=pages)
    server.window = 100
    tryout, _ = tried(server, model["id"])
    assert tryout.listing.parameters == parameters
    assert tryout.is_small is (parameters is not None and parameters < 1_000_000_000)


def test_a_window_that_nobody_declares_is_read_from_a_refusal(start: Start) -> None:
    server = start()
    server.window = 2_048
    tryout, answers = tried(server)
    assert answers[4].said == "2,048 tokens, as it says when it refuses a longer prompt"
    assert tryout.window == 2_048


def test_a_server_that_cuts_a_prompt_silently_is_caught(start: Start) -> None:
    server = start({"id": "tiny", "owned_by": "library"})
    server.window, server.cuts = 2_048, True
    _, answers = tried(server)
    assert not answers[4].passed
    assert answers[4].said == "it cut a prompt of 140,000 words to 2,048 tokens and did not say so"
    assert "OLLAMA_CONTEXT_LENGTH=32768" in answers[4].advice


def test_json_mode_that_is_refused_is_told_as_such(start: Start) -> None:
    server = start()
    server.json_mode, server.window = False, 100
    tryout, answers = tried(server)
    assert (answers[3].passed, tryout.takes_json_mode) == (False, False)
    assert "response_format" in answers[3].said
    assert "json_schema" in answers[3].said


def test_without_usage_no_speed_is_made_up(start: Start) -> None:
    server = start()
    server.usage, server.window = False, 100
    assert (answers := tried(server)[1])[5].said == "the server reports no tokens"
    assert not answers[5].passed


def test_where_nobody_listens_one_answer_says_so(start: Start) -> None:
    server = start()
    server.close()
    tryout, (answer,) = tried(server)
    assert (answer.passed, answer.said, tryout.answers) == (False, "nobody listens there", False)


def test_a_server_that_still_loads_is_told_apart_from_a_wrong_address(start: Start) -> None:
    server = start()
    server.status = 503
    with pytest.raises(SetupError, match="still loads its model"):
        model_at(server.url, "", None)
    with pytest.raises(SetupError, match=r"no list of models \(status 404\)"):
        model_at(server.url.removesuffix("/v1"), "", None)


def test_a_model_that_is_not_served_is_told_with_those_that_are(start: Start) -> None:
    server = start({"id": "tiny"}, {"id": "other"})
    server.window = 100
    _, answers = tried(server, "tinny")
    assert (answers[0].said, answers[0].advice) == ("it serves tiny, other", "name one of these instead of tinny")


def test_where_no_model_is_named_the_first_is_tried(start: Start) -> None:
    assert model_at(start({"id": "first"}, {"id": "second"}).url, "", None).model == "openai/first"


def test_the_key_goes_to_the_server_and_into_no_answer(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME_SERVER_PASS", KEY)
    server = start()
    server.window = 100
    answers = list(Tryout(model_at(server.url, "tiny", "HOME_SERVER_PASS")).ask())
    assert set(server.keys) == {f"Bearer {KEY}"}
    assert KEY not in repr(answers)


@every(
    [1, 2], "text", {"data": "x"}, {"data": [{"id": 7}, {"id": "a\x00b"}, {"id": "n", "max_model_len": "big"}]}, None
)
def test_a_list_of_another_shape_is_no_crash(listed: Any, start: Start) -> None:
    server = start(pages={"/v1/models": listed or {}})
    server.window = 100
    _, answers = tried(server)
    assert answers[1].passed


@pytest.mark.parametrize("address", ["ftp://x/v1", "http://user:pw@x/v1", "nowhere", "http://x/v1?key=1"])
def test_an_address_that_is_none_is_refused_with_what_was_expected(address: str) -> None:
    with pytest.raises(SetupError, match="api_base: Value error, expected an address such as"):
        model_at(address, "tiny", None)
