"""The real litellm against servers that hang, break off, never end, or lead elsewhere."""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runner.base.errors import ModelRefused, ModelUnavailable
from runner.base.types import ModelRequest, Usage
from runner.models.litellm.client import LiteLLM
from runner.models.wire import bounded
from runner.models.wire.bounded import MAX_BROKEN
from runner.models.wire.call_slots import TRIES
from tests.cases import every
from tests.providers.wire_provider import WireProvider, Writer, chunk, events, head, named_events, repeats, sends

KEY = "key-of-the-test-0123456789"
REQUEST = ModelRequest(({"role": "user", "content": "say hello"},), max_tokens=50)
USAGE = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
HELLO = events(
    chunk({"role": "assistant", "content": "hel"}),
    chunk({"content": "lo"}),
    chunk({}, "stop"),
    {"id": "r", "choices": [], "usage": USAGE},
    done=True,
)
REPLY = {
    "id": "r",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "whole"}}],
}

Serve = Callable[..., WireProvider]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    monkeypatch.setenv("TEST_PROVIDER_KEY", KEY)
    servers: list[WireProvider] = []

    def begin(*answers: Writer) -> WireProvider:
        servers.append(WireProvider(*answers))
        return servers[-1]

    yield begin
    for server in servers:
        server.close()


def model(server: WireProvider, name: str = "openai/gpt-4.1-mini", **settings: Any) -> LiteLLM:
    address = server.url if name.startswith("openai/") else server.origin
    given = {"key_variable": "TEST_PROVIDER_KEY", "api_base": address, "timeout_seconds": 20, "sleep": lambda _: None}
    return LiteLLM(f"litellm/{name}", **{**given, **settings})


def whole(reply: dict[str, Any] = REPLY, status: str = "200 OK") -> Writer:
    return sends(head("application/json", status=status) + json.dumps(reply).encode())


# --- streams --------------------------------------------------------------------------------------------------------


def test_a_reply_is_asked_for_as_a_stream_and_read_as_a_whole(serve: Serve) -> None:
    server = serve(sends(head() + HELLO))
    reply = model(server).complete(REQUEST)
    assert (reply.text, reply.usage.input_tokens, reply.usage.output_tokens) == ("hello", 10, 2)
    ((path, asked),) = server.asked
    assert (path, asked["stream"], asked["stream_options"]) == ("/v1/chat/completions", True, {"include_usage": True})


@pytest.mark.parametrize("kind", ["application/json", "text/plain", "application/octet-stream"])
def test_a_stream_under_another_content_type_is_read(serve: Serve, kind: str) -> None:
    server = serve(sends(head(kind) + HELLO))
    reply = model(server).complete(REQUEST)
    assert (reply.text, reply.usage.output_tokens, len(server.asked)) == ("hello", 2, 1)


def test_ollamas_lines_are_read_under_another_content_type(serve: Serve) -> None:
    lines = [{"message": {"role": "assistant", "content": text}, "done": False} for text in ("hel", "lo")]
    end = {"message": {"content": ""}, "done": True, "done_reason": "stop", "prompt_eval_count": 9, "eval_count": 2}
    said = b"".join(json.dumps({"model": "m", **line}).encode() + b"\n" for line in (*lines, end))
    reply = model(serve(sends(head("text/plain") + said)), "ollama_chat/m").complete(REQUEST)
    assert (reply.text, reply.usage.input_tokens) == ("hello", 9)


def test_an_error_under_a_status_of_success_is_that_error(serve: Serve) -> None:
    failed = whole({"error": {"code": 502, "message": "Upstream is away"}})
    reply = model(serve(failed, sends(head() + HELLO))).complete(REQUEST)
    assert (reply.text, len(reply.failed_tries)) == ("hello", 1)
    assert "Upstream is away" in reply.failed_tries[0].reason


@every(
    ("openai/gpt-4.1-mini", json.dumps(REPLY)[:-9]),
    ("gemini/gemini-2.5-flash", '{"candidates": [{"content": {"parts": [{"text": "hel'),
    ("openai/gpt-4.1-mini", json.dumps({**REPLY, "usage": "maximum context length is 5"})),
    (
        "openai/gpt-4.1-mini",
        json.dumps(REPLY).replace(
            '"content"',
            '"tool_calls": [{"type": "custom", "id": "a", "custom": {"name": "shell", "input": "ls"}}], "content"',
        ),
    ),
    ("openai/gpt-4.1-mini", json.dumps(REPLY).replace('"content"', '"tool_calls": "none", "content"')),
)
def test_a_reply_that_cannot_be_read_is_asked_for_again_and_told_in_few_words(
    name: str, content: str, serve: Serve
) -> None:
    server = serve(sends(head("application/json") + content.encode()))
    with pytest.raises(ModelUnavailable) as raised:
        model(server, name).complete(REQUEST)
    assert "Traceback" not in str(raised.value)
    assert len(server.asked) == TRIES


def test_a_server_that_takes_no_streams_is_asked_for_whole_replies_from_then_on(serve: Serve) -> None:
    """OpenAI's answer to accounts that are not verified."""
    refusal = {"error": {"message": "Your organization must be verified to stream this model.", "param": "stream"}}
    server = serve(whole(refusal, "400 Bad Request"), whole({**REPLY, "usage": USAGE}))
    assert [model(server).complete(REQUEST).text for _ in range(2)] == ["whole", "whole"]
    assert [asked.get("stream", False) for _, asked in server.asked] == [True, False, False]


def test_a_server_whose_streams_tell_no_usage_is_asked_for_whole_replies_which_may(serve: Serve) -> None:
    untold = sends(head() + events(chunk({"content": "a"}), chunk({}, "stop"), done=True))
    server = serve(untold, whole({**REPLY, "usage": USAGE}))
    replies = [model(server).complete(REQUEST) for _ in range(3)]
    assert [reply.usage.input_tokens for reply in replies] == [None, 10, 10]
    assert [asked.get("stream", False) for _, asked in server.asked] == [True, False, False]


def test_a_server_that_never_tells_usage_is_asked_for_streams(serve: Serve) -> None:
    untold = sends(head() + events(chunk({"content": "a"}), chunk({}, "stop"), done=True))
    server = serve(untold, whole(), untold)
    assert [model(server).complete(REQUEST).usage for _ in range(4)] == [Usage()] * 4
    assert [asked.get("stream", False) for _, asked in server.asked] == [True, False, True, True]


def test_a_server_whose_streams_break_off_is_asked_for_whole_replies(serve: Serve) -> None:
    """llama-cpp-python's server ends a stream when another request comes in. Two workers end each other's for ever."""
    broken = sends(head() + events(chunk({"content": "a"})))
    server = serve(broken, broken, whole({**REPLY, "usage": USAGE}))
    replies = [model(server).complete(REQUEST) for _ in range(2)]
    assert [(reply.text, len(reply.failed_tries)) for reply in replies] == [("whole", 2), ("whole", 0)]
    assert [asked.get("stream", False) for _, asked in server.asked] == [True, True, False, False]


def test_a_server_whose_whole_replies_break_off_too_is_asked_for_streams_again(serve: Serve) -> None:
    broken, good = sends(head() + events(chunk({"content": "a"}))), whole({**REPLY, "usage": USAGE})
    server = serve(broken, broken, good, sends(b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n{"), good)
    assert [model(server).complete(REQUEST).text for _ in range(2)] == ["whole", "whole"]
    assert [asked.get("stream", False) for _, asked in server.asked] == [True, True, False, False, True]


# --- failed tries ---------------------------------------------------------------------------------------------------


def test_a_reply_that_breaks_off_is_asked_for_again_and_its_tokens_are_known_in_part(serve: Serve) -> None:
    start = {"type": "message_start", "message": {"id": "m", "role": "assistant", "usage": {"input_tokens": 70}}}
    text = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "hello"}}
    delta = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}}
    ended = [{**start, "message": {**start["message"], "model": "c", "type": "message"}}, text, delta]
    server = serve(
        sends(head() + named_events([start, text])), sends(head() + named_events([*ended, {"type": "message_stop"}]))
    )
    reply = model(server, "anthropic/claude-sonnet-4-5").complete(REQUEST)
    assert (reply.text, reply.usage.input_tokens, reply.usage.output_tokens) == ("hello", 70, 5)
    (failed,) = reply.failed_tries
    assert "broke off" in failed.reason
    assert failed.usage == Usage(input_at_least=70)
    assert failed.seconds >= 0.5  # the pause is part of it


def test_a_provider_that_falls_silent_has_hung(serve: Serve) -> None:
    over = threading.Event()

    def hangs(connection: socket.socket) -> None:
        connection.sendall(head() + events(chunk({"content": "x"})))
        over.wait(60)

    server = serve(hangs, sends(head() + HELLO))
    reply = model(server, timeout_seconds=1).complete(REQUEST)
    over.set()
    assert reply.text == "hello"
    assert "silent for 1 seconds" in reply.failed_tries[0].reason
    assert reply.lost_usage == Usage()  # it used some, and nothing is known of it


def test_a_whole_reply_may_be_longer_in_the_making_than_a_stream_may_be_silent(serve: Serve) -> None:
    refusal = {"error": {"message": "Your organization must be verified to stream this model.", "param": "stream"}}
    answer = whole({**REPLY, "usage": USAGE})

    def takes_its_time(connection: socket.socket) -> None:
        time.sleep(1.5)
        answer(connection)

    reply = model(serve(whole(refusal, "400 Bad Request"), takes_its_time), timeout_seconds=1).complete(REQUEST)
    assert (reply.text, reply.failed_tries) == ("whole", ())


def test_a_call_that_failed_for_good_says_what_is_known_of_its_tokens(serve: Serve) -> None:
    server = serve(sends(head("text/event-stream", "Content-Length: 100000") + HELLO))
    with pytest.raises(ModelUnavailable, match="connection broke") as caught:
        model(server).complete(REQUEST)
    assert len(server.asked) == TRIES
    assert caught.value.lost_usage == Usage(
        input_at_least=10 * MAX_BROKEN, output_at_least=2 * MAX_BROKEN
    )  # as streams told


def test_a_try_that_was_turned_away_used_nothing(serve: Serve) -> None:
    server = serve(whole({"error": {"message": "slow down"}}, "429 Too Many Requests"))
    with pytest.raises(ModelUnavailable) as caught:
        model(server).complete(REQUEST)
    assert caught.value.lost_usage is None


@pytest.mark.parametrize(
    "error", [{"code": 502, "message": "upstream"}, {"type": "overloaded_error", "message": "Overloaded"}]
)
def test_an_error_in_the_middle_of_a_stream_is_the_error_it_would_have_been_at_its_start(
    serve: Serve, error: dict[str, Any]
) -> None:
    server = serve(sends(head() + events(chunk({"content": "x"}), {"error": error})), sends(head() + HELLO))
    reply = model(server).complete(REQUEST)
    assert (reply.text, len(reply.failed_tries)) == ("hello", 1)


def test_a_request_that_is_refused_in_the_middle_of_a_stream_is_not_tried_again(serve: Serve) -> None:
    error = {"error": {"type": "invalid_request_error", "message": "no such tool"}}
    server = serve(sends(head() + events(error)))
    with pytest.raises(ModelRefused, match="no such tool"):
        model(server).complete(REQUEST)
    assert len(server.asked) == 1


# --- waiting --------------------------------------------------------------------------------------------------------

LOADING = {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}


def test_a_model_that_loads_is_waited_for(serve: Serve) -> None:
    """llama.cpp's answer while it loads. Many more tries than another failure gets."""
    loading = whole(LOADING, "503 Service Unavailable")
    server, pauses = serve(*[loading] * 20, sends(head() + HELLO)), []
    reply = model(server, sleep=pauses.append).complete(REQUEST)
    assert (reply.text, len(server.asked)) == ("hello", 21)
    assert reply.delay_seconds >= sum(pauses) > 100


def test_a_model_that_has_loaded_is_tried_like_any_other(serve: Serve) -> None:
    loading, broken = whole(LOADING, "503 Service Unavailable"), sends(head() + events(chunk({"content": "a"})))
    server, pauses = serve(*[loading] * 20, broken, sends(head() + HELLO)), []
    assert model(server, sleep=pauses.append).complete(REQUEST).text == "hello"
    assert pauses[-1] <= 1.0


@pytest.mark.parametrize("seconds", ["0", "40"])
def test_how_long_it_is_waited_for_is_a_setting(serve: Serve, monkeypatch: pytest.MonkeyPatch, seconds: str) -> None:
    monkeypatch.setenv("SKILLGLASS_MODEL_WAIT_SECONDS", seconds)
    server, pauses = serve(whole(LOADING, "503 Service Unavailable")), []
    with pytest.raises(ModelUnavailable, match="Loading model"):
        model(server, sleep=pauses.append).complete(REQUEST)
    assert float(seconds) - 5 <= sum(pauses) <= float(seconds)


def test_a_server_that_is_not_up_yet_is_waited_for() -> None:
    pauses: list[float] = []
    nowhere = LiteLLM("litellm/openai/x", api_base="http://127.0.0.1:9/v1", sleep=pauses.append)
    with pytest.raises(ModelUnavailable, match="Connection refused"):
        nowhere.complete(REQUEST)
    assert 500 < sum(pauses) <= 600


def test_what_ends_a_wait_ends_the_call(serve: Serve) -> None:
    class Cancelled(Exception):
        pass

    def cancelled(seconds: float) -> None:
        raise Cancelled

    with pytest.raises(Cancelled):
        model(serve(whole(LOADING, "503 Service Unavailable")), sleep=cancelled).complete(REQUEST)


# --- replies without end --------------------------------------------------------------------------------------------

DRIPS = {
    "comments": (head(), b": still here\n\n"),
    "one event": (head() + b"data: ", b" "),
    "a whole reply": (head("application/json"), b" "),
    "headers": (b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n"),
    "promises": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
}


@pytest.mark.parametrize("name", DRIPS)
def test_no_call_takes_longer_than_it_may_however_it_drips(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A byte now and then, so that there is never a silence."""
    monkeypatch.setenv("SKILLGLASS_MODEL_CALL_SECONDS", "2")
    over = threading.Event()
    server = serve(repeats(*DRIPS[name], lambda: over.wait(0.2)))
    with pytest.raises(ModelUnavailable, match="time for the whole call"):
        model(server).complete(REQUEST)
    over.set()
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("beginning", "piece"),
    [
        (head() + b"data: ", b"x" * 65_536),
        (head(), events(chunk({"content": "x" * 60_000}))),
        (head("application/json"), b" " * 65_536),
        (head("application/json", status="500 Internal Server Error"), b" " * 65_536),
    ],
)
def test_a_reply_has_a_largest_size(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, beginning: bytes, piece: bytes
) -> None:
    monkeypatch.setattr(bounded, "MAX_REPLY_BYTES", 4 * 1024 * 1024)
    with pytest.raises(ModelRefused, match="longer than 4 MiB"):
        model(serve(repeats(beginning, piece))).complete(REQUEST)


def test_a_compressed_reply_is_not_unpacked(serve: Serve) -> None:
    bomb = gzip.compress(b"0" * 10**7)
    with pytest.raises(ModelRefused, match="compressed"):
        model(serve(sends(head("application/json", "Content-Encoding: gzip") + bomb))).complete(REQUEST)


def test_headers_without_end_are_no_reply(serve: Serve) -> None:
    with pytest.raises(ModelUnavailable):
        model(serve(repeats(b"HTTP/1.1 200 OK\r\n", b"X-A: " + b"b" * 1000 + b"\r\n"))).complete(REQUEST)


@pytest.mark.parametrize(
    "usage",
    [{"prompt_tokens": -5, "completion_tokens": 10**30}, {"prompt_tokens": float("nan"), "completion_tokens": 2}],
)
def test_usage_that_can_be_none_is_not_known(serve: Serve, usage: dict[str, Any]) -> None:
    told = events(chunk({"content": "hello"}), chunk({}, "stop"), {"choices": [], "usage": usage}, done=True)
    reply = model(serve(sends(head() + told))).complete(REQUEST)
    assert reply.text == "hello"
    assert reply.usage.input_tokens is None


# --- redirects ------------------------------------------------------------------------------------------------------

NAMES = (
    "openai/gpt-4.1-mini",
    "anthropic/claude-sonnet-4-5",
    "gemini/gemini-2.5-pro",
    "ollama_chat/llama3",
    "hosted_vllm/qwen",
    "moonshot/kimi-k2",
    "dashscope/qwen3-coder-next",
    "deepseek/deepseek-chat",
    "mistral/small",
    "openrouter/a/b",
    "azure/deployment",
)


@every(*NAMES)
def test_no_redirect_takes_the_key_elsewhere(name: str, serve: Serve) -> None:
    elsewhere = serve(whole())
    away = head("text/plain", f"Location: http://localhost:{elsewhere.port}/v1/", status="307 Temporary Redirect")
    server = serve(sends(away))
    with pytest.raises(ModelRefused, match="redirect to the host 'localhost'"):
        model(server, name).complete(REQUEST)
    assert (len(server.asked), elsewhere.asked) == (1, [])


@every("301 Moved", "302 Found", "303 See Other", "308 Permanent Redirect")
@every("http://169.254.169.254/latest/", "file:///etc/passwd", "/v1/elsewhere", "http://[")
def test_no_redirect_of_any_kind_is_followed(to: str, status: str, serve: Serve) -> None:
    server = serve(sends(head("text/plain", f"Location: {to}", status=status)))
    with pytest.raises(ModelRefused, match="not followed"):
        model(server).complete(REQUEST)
    assert len(server.asked) == 1


@pytest.mark.parametrize("answer", ["an error", "a redirect"])
def test_no_part_of_a_key_is_told_where_a_text_is_cut(serve: Serve, answer: str) -> None:
    for length in range(1_400, 2_050, 10) if answer == "an error" else range(150, 210, 10):
        quoted = "x" * length + KEY
        told = whole({"error": {"message": quoted}}, "400 Bad Request")
        leads = sends(head("text/html", f"Location: http://{quoted}.example/", status="302 Found"))
        with pytest.raises(ModelRefused) as raised:
            model(serve(told if answer == "an error" else leads)).complete(REQUEST)
        assert "xxx" in str(raised.value)
        assert KEY[:6] not in str(raised.value)


def test_a_key_goes_to_no_server_whose_certificate_is_not_trusted(tmp_path: Path) -> None:
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    made = f"req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost -out {certificate} -keyout {key}"
    subprocess.run(["openssl", *made.split()], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        told: list[bytes] = []

        def accept() -> None:
            connection, _ = listener.accept()
            with connection, contextlib.suppress(ssl.SSLError, OSError):
                told.append(context.wrap_socket(connection, server_side=True).recv(1_000))

        threading.Thread(target=accept, daemon=True).start()
        address = f"https://127.0.0.1:{listener.getsockname()[1]}/v1"
        with pytest.raises(ModelRefused, match="Certificate not accepted"):
            LiteLLM("litellm/openai/x", api_base=address, sleep=lambda _: None).complete(REQUEST)
    assert told == []
