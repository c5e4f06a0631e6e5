"""The gateway: what it forwards, what it refuses, what it counts, and what a hostile program gets out of it."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import pytest

from runner.base.errors import AccountRefused, BudgetSpent, KeyRefused, ModelRefused, ModelUnavailable, SetupError
from runner.base.types import Usage
from runner.models.wire.call_slots import use_queue
from runner.sandboxes.gateway.gateway import Gateway
from runner.sandboxes.gateway.gateway_rules import GatewayLimits
from runner.sandboxes.needs import Provider
from tests.cases import every
from tests.providers.queue_here import ONE_SLOT, QueueHere
from tests.providers.wire_provider import WireProvider, head, repeats

KEY = "sk-secret-0123456789"
CALL = "/v1/chat/completions"
USAGE = {"prompt_tokens": 30, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 20}}
ANSWER = {"choices": [], "usage": USAGE}


class Upstream:
    """Stands for a provider; keeps what reached it, answers as `answer` says."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []
        self.answer: Callable[[BaseHTTPRequestHandler], None] = answering(200, json.dumps(ANSWER).encode())
        upstream = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                upstream.asked.append((self.command, self.path, headers, body))
                upstream.answer(self)

            do_GET = do_POST

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/base"


def answering(status: int, body: bytes = b"{}", **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        for name, value in {"Content-Length": str(len(body)), **given}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)

    return answer


Open = Callable[..., Gateway]


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    server = Upstream()
    yield server
    server.server.shutdown()
    server.server.server_close()


@pytest.fixture
def opened(upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """Makes a started gateway whose address is in `.url`."""
    monkeypatch.setenv("A_KEY", KEY)
    made: list[Gateway] = []

    def make(before_call: Callable[[], None] | None = None, *, header: str = "authorization", **more: Any) -> Gateway:
        asked = {name: more.pop(name) for name in ("wire", "models", "endpoint") if name in more}
        gateway = Gateway(Provider(upstream.url, "A_KEY", header, **asked), before_call, **more)
        made.append(gateway)
        gateway.url = gateway.start("127.0.0.1")  # type: ignore[attr-defined]
        return gateway

    yield make
    for gateway in made:
        gateway.close()


def ask(
    gateway: Any,
    path: str = CALL,
    method: str = "POST",
    headers: dict[str, str] | None = None,
    body: bytes = b'{"model": "m"}',
) -> tuple[int, bytes, dict[str, str]]:
    url = urlsplit(gateway.url)
    connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=20)
    connection.request(method, url.path + path, body if method == "POST" else None, headers or {})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, content, {name.lower(): value for name, value in answer.getheaders()}


def raw(gateway: Any, request: bytes) -> bytes:
    """What comes back for these very bytes; `{path}` stands for the path of a call."""
    url = urlsplit(gateway.url)
    with socket.create_connection((url.hostname, url.port), timeout=20) as connection:
        connection.sendall(request.replace(b"{path}", (url.path + CALL).encode()))
        with contextlib.suppress(OSError):  # it may have answered and hung up already
            connection.shutdown(socket.SHUT_WR)
        received = b""
        while piece := connection.recv(65_536):
            received += piece
    return received


def test_it_forwards_a_call_with_the_key_that_the_program_never_had(upstream: Upstream, opened: Open) -> None:
    gateway = opened()
    status, content, _ = ask(
        gateway, CALL + "?beta=true&key=mine", headers={"Authorization": "Bearer mine", "X-A": "b"}
    )
    assert (status, json.loads(content)) == (200, ANSWER)
    ((method, path, headers, body),) = upstream.asked
    assert (method, path, body) == ("POST", "/base/v1/chat/completions?beta=true", b'{"model": "m"}')
    assert headers["authorization"] == f"Bearer {KEY}"
    assert headers["x-a"] == "b"
    assert "mine" not in str(upstream.asked)
    assert gateway.usage == Usage(30, 20, 4)
    assert (gateway.requests, gateway.uncounted, gateway.trouble) == (1, 0, None)


def test_it_sends_the_key_in_the_header_that_the_provider_wants(upstream: Upstream, opened: Open) -> None:
    ask(opened(header="x-api-key"), "/v1/messages", headers={"x-api-key": "mine", "authorization": "Bearer mine"})
    headers = upstream.asked[0][2]
    assert headers["x-api-key"] == KEY
    assert "authorization" not in headers


@every(
    ("POST", "/v1/files"),
    ("POST", "/v1/threads/t/messages"),
    ("POST", "/v1/messages/batches"),
    ("GET", "/v1/responses"),
    ("GET", "/v1/responses/resp_1"),
    ("GET", "/v1/organization/api_keys"),
    ("DELETE", "/v1/models/mine"),
    ("PUT", CALL),
    ("CONNECT", CALL),
    ("OPTIONS", CALL),
    ("POST", "/../../v1/chat/completions"),
    ("POST", "/v1/../admin/v1/chat/completions"),
    ("POST", "/v1/%2e%2e/v1/chat/completions"),
    ("POST", "/v1/chat%2fcompletions"),
    ("POST", "//evil.example/v1/chat/completions"),
    ("POST", "/v1/chat/completions;x"),
    ("POST", "/v1/chat/completions%00"),
    ("POST", "/v1/chat/completions%0d%0aX:y"),
    ("POST", "/v1/chat/completions#x"),
    ("POST", "/v1\\chat/completions"),
)
def test_it_refuses_everything_but_model_calls(method: str, path: str, upstream: Upstream, opened: Open) -> None:
    gateway = opened()
    status, content, _ = ask(gateway, path, method)
    assert 400 <= status < 500 or status == 501
    assert json.loads(content)["error"]["type"] == "gateway_refusal"
    assert (upstream.asked, gateway.requests) == ([], 0)


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"POST http://evil.example/v1/messages HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 2\r\n\r\n{}",
        b"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
        b"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        b"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST {path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        b"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: +2\r\n\r\n{}",
        b"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 2, 2\r\n\r\n{}",
        b"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n{}",
        b"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n{}",
        b"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n{}",
        b"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length : 2\r\n\r\n{}",
        b"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nX-A: a\r\n\tAuthorization: b\r\n\r\n{}",
        b"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nX-A: a\x00b\r\n\r\n{}",
        b"POST {path} HTTP/1.1\r\n" + b"X-A: b\r\n" * 200 + b"Content-Length: 2\r\n\r\n{}",
        b"POST {path}" + b"a" * 70_000 + b" HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}",
        b"POST {path} HTTP/9.9\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"POST {path}\r\n\r\n",
    ],
)
def test_it_forwards_nothing_that_two_servers_could_read_differently(
    request_bytes: bytes, upstream: Upstream, opened: Open
) -> None:
    gateway = opened()
    received = raw(gateway, request_bytes)
    assert upstream.asked == []
    assert b" 200 " not in received.partition(b"\r\n")[0]
    assert ask(gateway)[0] == 200, "the next request is served"


def test_it_never_looks_at_what_follows_a_request(upstream: Upstream, opened: Open) -> None:
    one = b"POST {path} HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\n{}"
    received = raw(opened(), one + one)
    assert received.count(b"HTTP/1.1 200") == 1
    assert len(upstream.asked) == 1


def test_it_forwards_what_it_has_read_and_nothing_it_refused(upstream: Upstream, opened: Open) -> None:
    gateway = opened(models=frozenset({"m"}), wire="chat/completions")
    refused = [b'{"model": "other"}', b'{"model": "m", "tools": [{"type": "web_search"}]}', b"{", b"[]", b"{}"]
    for body in refused:
        status, content, _ = ask(gateway, body=body)
        assert (status, json.loads(content)["error"]["type"]) == (400, "gateway_refusal")
    assert ask(gateway, "/v1/messages")[0] == 404, "another format"
    assert (upstream.asked, gateway.requests, gateway.refusal) == ([], 0, None)
    headers = {"Content-Type": "text/plain; charset=utf-7", "Content-Encoding": "deflate", "X-Goog-FieldMask": "a"}
    assert ask(gateway, body=b'{"stream":true, "model":"m"}', headers=headers)[0] == 200
    _, _, sent, body = upstream.asked[0]
    assert body == b'{"stream": true, "model": "m", "stream_options": {"include_usage": true}}'
    assert sent["content-type"] == "application/json"
    assert not {"content-encoding", "x-goog-fieldmask"} & sent.keys()


def test_a_task_with_network_may_use_the_providers_tools(upstream: Upstream, opened: Open) -> None:
    body = b'{"model": "m", "tools": [{"type": "web_search"}]}'
    assert [ask(opened(online=online), body=body)[0] for online in (False, True)] == [400, 200]


def test_it_drops_headers_that_a_connection_header_names_and_those_of_a_proxy(upstream: Upstream, opened: Open) -> None:
    headers = {"Connection": "close, X-A", "X-A": "b", "X-Forwarded-For": "1.1.1.1", "Cookie": "c=d", "Upgrade": "h2c"}
    ask(opened(), headers=headers)
    assert not {"x-a", "x-forwarded-for", "cookie", "upgrade"} & upstream.asked[0][2].keys()


def test_it_masks_the_key_wherever_an_answer_holds_it(upstream: Upstream, opened: Open) -> None:
    def in_pieces(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("X-Echo", f"you sent {KEY}")
        handler.send_header("Set-Cookie", "session=1")
        handler.end_headers()
        for piece in (
            b"key=" + KEY[:7].encode(),
            KEY[7:].encode() + b"; sk-",
            b"sec ",
            KEY.encode() * 2,
            KEY[:5].encode(),
        ):
            handler.wfile.write(piece)
            handler.wfile.flush()
            time.sleep(0.02)

    upstream.answer = in_pieces
    status, content, headers = ask(opened())
    assert (status, content) == (200, b"key=********; sk-sec ****************" + KEY[:5].encode())
    assert headers["x-echo"] == "you sent ********"
    assert "set-cookie" not in headers


def test_it_follows_no_redirect(upstream: Upstream, opened: Open) -> None:
    upstream.answer = answering(302, Location="http://169.254.169.254/")
    gateway = opened()
    status, content, headers = ask(gateway)
    assert status == 502
    assert "169.254" not in str(headers) + content.decode()
    assert len(upstream.asked) == 1
    assert isinstance(gateway.trouble, ModelUnavailable)


def test_it_passes_a_stream_on_as_it_comes(upstream: Upstream, opened: Open) -> None:
    go_on = threading.Event()

    def streaming(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.end_headers()
        handler.wfile.write(b'data: {"choices": []}\n\n')
        handler.wfile.flush()
        go_on.wait(20)
        handler.wfile.write(b"data: " + json.dumps(ANSWER).encode() + b"\n\ndata: [DONE]\n\n")

    upstream.answer = streaming
    gateway: Any = opened()
    url = urlsplit(gateway.url)
    connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=20)
    connection.request("POST", url.path + CALL, b"{}")
    answer = connection.getresponse()
    assert answer.read1(100) == b'data: {"choices": []}\n\n'
    go_on.set()
    assert answer.read().endswith(b"data: [DONE]\n\n")
    assert gateway.usage == Usage(30, 20, 4)


@every(
    (401, KeyRefused, 400),
    (403, KeyRefused, 400),
    (402, AccountRefused, 402),
    (404, ModelRefused, 404),
    (429, ModelUnavailable, 429),
    (500, ModelUnavailable, 500),
    (529, ModelUnavailable, 529),
    (400, None, 400),
    (413, None, 413),
)
def test_it_knows_what_the_provider_has_against_a_call(
    status: int, kind: type[Exception] | None, told: int, upstream: Upstream, opened: Open
) -> None:
    upstream.answer = answering(status, f"bad key {KEY}".encode(), Retry_After="7")
    gateway = opened()
    assert ask(gateway)[0] == told
    assert type(gateway.trouble) is (kind or type(None))
    assert KEY not in str(gateway.trouble)
    if isinstance(gateway.trouble, ModelUnavailable):
        assert gateway.trouble.retry_after_seconds == 7
    if isinstance(gateway.trouble, KeyRefused):
        assert gateway.trouble.variable == "A_KEY"
    upstream.answer = answering(200, json.dumps(ANSWER).encode())
    ask(gateway)
    assert gateway.trouble is None


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, {"type": "invalid_request_error", "message": "Your credit balance is too low to access the API."}),
        (429, {"type": "insufficient_quota", "code": "insufficient_quota", "message": "You exceeded your quota."}),
    ],
)
def test_an_account_without_credit_is_known_by_what_the_provider_says(
    status: int, error: dict[str, str], upstream: Upstream, opened: Open
) -> None:
    """Anthropic and OpenAI do not say it by their status: it would pass for the program's mistake, or for haste."""
    upstream.answer = answering(status, json.dumps({"type": "error", "error": error}).encode())
    gateway = opened()
    assert ask(gateway)[0] == status
    assert isinstance(gateway.trouble, AccountRefused)
    assert (gateway.requests, gateway.failed) == (1, 1)


def test_it_tells_a_provider_that_is_away_and_an_answer_that_breaks_off(upstream: Upstream, opened: Open) -> None:
    upstream.answer = answering(200, b"{", Content_Length="500")
    gateway: Any = opened()
    with pytest.raises(http.client.IncompleteRead):
        ask(gateway)
    assert isinstance(gateway.trouble, ModelUnavailable)
    upstream.server.shutdown()
    upstream.server.server_close()
    assert ask(gateway)[0] == 502
    assert isinstance(gateway.trouble, ModelUnavailable)


def test_it_forwards_nothing_more_once_a_call_was_refused(upstream: Upstream, opened: Open) -> None:
    asked = []

    def before_call() -> None:
        asked.append(threading.current_thread().name)
        if len(asked) == 2:
            raise BudgetSpent("enough")

    gateway = opened(before_call)
    assert [ask(gateway)[0] for _ in range(4)] == [200, 400, 400, 400]
    assert isinstance(gateway.refusal, BudgetSpent)
    assert (len(upstream.asked), gateway.requests, len(asked)) == (1, 1, 2)
    assert len(set(asked)) == 1, "whoever counts is asked in one thread"


def test_it_holds_a_limit_on_calls_and_one_on_tokens(upstream: Upstream, opened: Open) -> None:
    gateway = opened()
    gateway.allow(requests=2)
    assert [ask(gateway)[0] for _ in range(3)] == [200, 200, 400]
    assert gateway.limit_reached == "TurnLimit"
    gateway = opened()
    gateway.allow(tokens=50)
    assert [ask(gateway)[0] for _ in range(3)] == [200, 200, 400]
    assert gateway.limit_reached == "TokenLimit"


@pytest.mark.parametrize(("counted", "tokens"), [(True, None), (False, 1_000)])
def test_it_goes_on_asking_no_provider_whose_usage_cannot_be_counted(
    counted: bool, tokens: int | None, upstream: Upstream, opened: Open
) -> None:
    gateway = opened(counted=counted)
    gateway.allow(tokens=tokens)
    upstream.answer = answering(200, json.dumps({"choices": [], "usage": {"prompt_tokens": 5}}).encode())
    assert [ask(gateway)[0] for _ in range(5)] == [200, 200, 200, 400, 400]
    assert isinstance(gateway.refusal, ModelRefused)
    assert "reports no usage, so its cost is unknown: 3 answers" in str(gateway.refusal)
    assert (len(upstream.asked), gateway.uncounted) == (3, 3)


def test_it_asks_on_where_nothing_counts_on_what_is_told(upstream: Upstream, opened: Open) -> None:
    gateway = opened()
    upstream.answer = answering(200)
    assert [ask(gateway)[0] for _ in range(5)] == [200] * 5
    assert (gateway.uncounted, gateway.refusal) == (5, None)


def test_an_answer_that_the_provider_broke_off_is_none_that_tells_no_usage(upstream: Upstream, opened: Open) -> None:
    gateway = opened(counted=True)
    upstream.answer = answering(200, b"{", Content_Length="500")
    for _ in range(5):
        with pytest.raises(http.client.IncompleteRead):
            ask(gateway)
    assert (gateway.uncounted, gateway.broken_off, gateway.refusal) == (0, 5, None)


def test_an_error_in_the_middle_of_a_stream_is_the_providers_and_none_that_tells_no_usage(
    upstream: Upstream, opened: Open
) -> None:
    gateway, sound = opened(counted=True, wire="messages"), upstream.answer
    gateway.allow(requests=2)
    start = {"type": "message_start", "message": {"usage": {"input_tokens": 9, "output_tokens": 1}}}
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    events = b"".join(b"event: x\ndata: " + json.dumps(each).encode() + b"\n\n" for each in (start, error))
    upstream.answer = answering(200, events, Content_Type="text/event-stream")
    assert [ask(gateway, "/v1/messages")[1] for _ in range(5)] == [events] * 5
    assert str(gateway.trouble) == "the provider's answer ended in an error: overloaded_error"
    assert (gateway.uncounted, gateway.refusal, gateway.failed, gateway.usage) == (0, None, 5, Usage(45))
    upstream.answer = sound
    assert ask(gateway, "/v1/messages")[0] == 200
    assert gateway.trouble is None


def test_who_hangs_up_before_the_end_is_billed_to_the_end(upstream: Upstream, opened: Open) -> None:
    begun, gone, counted = threading.Event(), threading.Event(), threading.Event()

    def streaming(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.end_headers()
        handler.wfile.write(b'data: {"choices": []}\n\n')
        begun.set()
        gone.wait(20)
        for _ in range(50):
            handler.wfile.write(b'data: {"choices": []}\n\n' * 100)
            time.sleep(0.002)
        handler.wfile.write(b"data: " + json.dumps(ANSWER).encode() + b"\n\n")

    upstream.answer = streaming
    gateway: Any = opened(after_call=lambda usage: counted.set())
    url = urlsplit(gateway.url)
    connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=20)
    connection.request("POST", url.path + CALL, b'{"stream": true}')
    assert begun.wait(20)
    connection.close()
    gone.set()
    assert counted.wait(20)
    assert (gateway.usage, gateway.uncounted, gateway.trouble) == (Usage(30, 20, 4), 0, None)


def test_calls_that_the_provider_failed_use_up_no_turns(upstream: Upstream, opened: Open) -> None:
    gateway = opened()
    gateway.allow(requests=2)
    sound = upstream.answer
    upstream.answer = answering(429)
    assert [ask(gateway)[0] for _ in range(3)] == [429, 429, 429]
    upstream.answer = sound
    assert [ask(gateway)[0] for _ in range(3)] == [200, 200, 400]
    assert (gateway.requests, gateway.failed, gateway.limit_reached) == (5, 3, "TurnLimit")


def test_it_prices_each_call_and_tells_it(opened: Open) -> None:
    told: list[Usage] = []
    gateway = opened(after_call=told.append, price=lambda usage, written: (usage.input_tokens or 0) / 100)
    ask(gateway)
    ask(gateway)
    assert told == [Usage(30, 20, 4, 0.3)] * 2
    assert gateway.usage == Usage(60, 40, 8, 0.6)


def test_it_asks_nobody_before_what_is_no_model_call(upstream: Upstream, opened: Open) -> None:
    gateway = opened(lambda: pytest.fail("asked"))
    assert ask(gateway, "/v1/models", "GET")[0] == 200
    assert ask(gateway, "/v1/messages/count_tokens")[0] == 200
    assert (gateway.requests, gateway.refusal) == (0, None)


def test_it_caps_sizes_times_and_connections(upstream: Upstream, opened: Open) -> None:
    limits = GatewayLimits(request_bytes=10, answer_bytes=100, request_seconds=0.5, connections=2)
    gateway: Any = opened(limits=limits)
    assert ask(gateway)[0] == 413
    url = urlsplit(gateway.url)
    slow = [socket.create_connection((url.hostname, url.port), timeout=20) for _ in range(2)]
    time.sleep(0.1)
    with socket.create_connection((url.hostname, url.port), timeout=20) as third:
        assert third.recv(10) == b"", "no place: hung up at once"
    for connection in slow:
        assert connection.recv(10) == b"", "silent for too long"
        connection.close()
    upstream.answer = answering(200, b"a" * 1_000)
    received = raw(gateway, b"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
    assert not received.endswith(b"0\r\n\r\n"), "an answer that was cut off has no end"


def test_it_stops_at_once_even_in_the_middle_of_an_answer(upstream: Upstream, opened: Open) -> None:
    arrived, never = threading.Event(), threading.Event()

    def silent(handler: BaseHTTPRequestHandler) -> None:
        arrived.set()
        never.wait(20)

    upstream.answer = silent
    gateway: Any = opened()
    gone = (OSError, http.client.HTTPException)
    asking = threading.Thread(target=lambda: pytest.raises(gone, ask, gateway), daemon=True)
    asking.start()
    assert arrived.wait(20)
    began = time.monotonic()
    gateway.close()
    asking.join(15)
    never.set()
    assert not asking.is_alive()
    assert time.monotonic() - began < 15
    with pytest.raises(OSError):
        ask(gateway)
    gateway.close()


def test_it_counts_what_a_call_under_way_has_told_when_it_is_closed(upstream: Upstream, opened: Open) -> None:
    never = threading.Event()

    def begun(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.end_headers()
        usage = {"input_tokens": 9, "cache_read_input_tokens": 1, "output_tokens": 1}
        start = {"type": "message_start", "message": {"usage": usage}}
        handler.wfile.write(b"data: " + json.dumps(start).encode() + b"\n\n")
        handler.wfile.flush()
        never.wait(20)

    upstream.answer = begun
    told: list[Usage] = []
    gateway: Any = opened(after_call=told.append)
    url = urlsplit(gateway.url)
    connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=20)
    connection.request("POST", f"{url.path}/v1/messages", b"{}")
    assert b"message_start" in connection.getresponse().read1(1_000)
    gateway.close()
    never.set()
    assert gateway.usage == Usage(10, 1, None)
    assert told == [gateway.usage]
    assert gateway.trouble is None, "we hung up; the provider did nothing wrong"


def test_it_does_not_start_without_the_key(upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("A_KEY", raising=False)
    with pytest.raises(SetupError, match="A_KEY"):
        Gateway(Provider(upstream.url, "A_KEY")).start("127.0.0.1")
    for address in ("ftp://x", "https://user:pw@x", "https://x?y", "nothing"):
        with pytest.raises(SetupError, match="expected an address"):
            Gateway(Provider(address, None))


@pytest.mark.parametrize(
    ("beginning", "piece"),
    [(b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n"), (b"", b"HTTP/1.1 100 Continue\r\n\r\n"), (head(), b": still here\n\n")],
)
def test_no_answer_takes_longer_than_it_may_however_it_drips(
    opened: Open, upstream: Upstream, beginning: bytes, piece: bytes
) -> None:
    over = threading.Event()
    dripping = WireProvider(repeats(beginning, piece, lambda: over.wait(0.2)))
    upstream.url = dripping.url
    gateway = opened(limits=GatewayLimits(answer_seconds=1.5))
    with contextlib.suppress(http.client.IncompleteRead):
        ask(gateway, "/chat/completions")
    over.set()
    dripping.close()
    assert isinstance(gateway.trouble, ModelUnavailable)


def test_a_compressed_answer_is_not_passed_on(opened: Open, upstream: Upstream) -> None:
    """The key in it would not be masked, and what it used not counted."""
    upstream.answer = answering(200, gzip.compress(KEY.encode()), Content_Encoding="gzip")
    gateway = opened()
    status, content, _ = ask(gateway)
    assert (status, b"compressed" in content) == (400, True)
    assert isinstance(gateway.trouble, ModelRefused)


# --- the queue before the model's server ----------------------------------------------------------------------------


@pytest.fixture
def queue() -> Iterator[QueueHere]:
    found = QueueHere()
    use_queue(found)
    yield found
    use_queue(None)


def test_a_call_waits_for_a_free_slot_and_the_wait_is_counted(
    upstream: Upstream, opened: Open, queue: QueueHere
) -> None:
    queue.tickets.append("another's")
    gateway = opened(endpoint=ONE_SLOT)
    with ThreadPoolExecutor(1) as program:
        asked = program.submit(ask, gateway)
        time.sleep(0.6)
        assert not upstream.asked
        assert gateway.queued_seconds > 0.2, "also while it lasts"
        queue.tickets.remove("another's")
        assert asked.result()[0] == 200
    waited = gateway.queued_seconds
    assert 0.2 < waited < 5
    time.sleep(0.2)
    assert gateway.queued_seconds == waited
    assert queue.tickets == []


def test_waiting_behind_the_programs_own_call_is_the_programs_time(
    upstream: Upstream, opened: Open, queue: QueueHere
) -> None:
    """A program that asks twice at a time gets one answer after the other from any such server,
    with or without others."""
    over = threading.Event()
    upstream.answer = lambda handler: (over.wait(10), answering(200, b"{}")(handler))
    gateway = opened(endpoint=ONE_SLOT)
    with ThreadPoolExecutor(2) as program:
        both = [program.submit(ask, gateway) for _ in range(2)]
        time.sleep(1.0)
        over.set()
        assert [asked.result()[0] for asked in both] == [200, 200]
    assert gateway.queued_seconds < 0.7


def test_a_program_that_hangs_up_while_it_waits_leaves_the_queue(
    upstream: Upstream, opened: Open, queue: QueueHere
) -> None:
    queue.tickets.append("another's")
    gateway = opened(endpoint=ONE_SLOT)
    url = urlsplit(gateway.url)
    connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=20)
    connection.request("POST", url.path + CALL, b'{"model": "m"}')
    while len(queue.tickets) < 2:
        time.sleep(0.01)
    connection.close()
    until = time.monotonic() + 10
    while len(queue.tickets) > 1 and time.monotonic() < until:
        time.sleep(0.05)
    assert queue.tickets == ["another's"]
    assert not upstream.asked
    assert gateway.requests == 0


def test_closing_ends_a_wait(upstream: Upstream, opened: Open, queue: QueueHere) -> None:
    queue.tickets.append("another's")
    gateway = opened(endpoint=ONE_SLOT)
    with ThreadPoolExecutor(1) as program:
        program.submit(ask, gateway)
        while len(queue.tickets) < 2:
            time.sleep(0.01)
        gateway.close()
    assert queue.tickets == ["another's"]


def test_a_provider_that_cannot_be_reached_is_an_outage_until_its_next_answer(
    upstream: Upstream, opened: Open, queue: QueueHere
) -> None:
    upstream.answer = answering(503, b"{}")
    gateway = opened(endpoint=ONE_SLOT)
    ask(gateway)
    assert queue.outage is not None
    assert queue.outage[0] == "smol"
    upstream.answer = answering(200, b"{}")
    ask(gateway)
    assert queue.outage is None
