"""The HTTP side of a gateway: one request a connection, checked, forwarded, its answer streamed back."""

from __future__ import annotations

import contextlib
import http.client
import json
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol
from urllib.parse import SplitResult

from runner.base.errors import ModelUnavailable, RunnerError
from runner.base.hanging_up import HangUp
from runner.models.wire.metering import Metered, UsageMeter
from runner.sandboxes.gateway.gateway_rules import (
    FINAL,
    NOT_RETURNED,
    KeyMask,
    RequestRefused,
    check_body,
    headers_sent,
    is_compressed,
    key_header,
    target_of,
    trouble_of,
    trouble_told,
)
from runner.sandboxes.needs import Provider

CHUNK = 64 * 1024


@dataclass(frozen=True, slots=True)
class GatewayLimits:
    """Sizes, times and connections of one gateway."""

    request_bytes: int = 32 * 1024 * 1024
    answer_bytes: int = 256 * 1024 * 1024
    request_seconds: float = 60.0  # to receive one request
    silence_seconds: float = 600.0  # of the provider, before and between pieces of an answer
    answer_seconds: float = 3_600.0
    connections: int = 32  # at once
    closing_seconds: float = 5.0  # to count what calls in progress have used


LIMITS = GatewayLimits()


class CallPolicy(Protocol):
    """What the server asks of its gateway (`runner.sandboxes.gateway.gateway`), which documents each method."""

    provider: Provider
    base: SplitResult
    secret: str
    online: bool
    limits: GatewayLimits
    clock: Callable[[], float]

    def key(self) -> str | None: ...
    def in_line(self) -> contextlib.AbstractContextManager[None]: ...
    def slot(self, is_gone: Callable[[], bool]) -> contextlib.AbstractContextManager[None]: ...
    def bound_answer(self, body: bytes, address: str, wire: str) -> bytes: ...
    def ask(self) -> None: ...
    def note_refusal(self, message: str) -> None: ...
    def note_answer(self, metered: Metered, whole: bool = True) -> None: ...
    def note_outcome(self, trouble: RunnerError | None, before: RunnerError | None = None) -> None: ...
    def track(self, connection: socket.socket, is_open: bool) -> None: ...


class Server(ThreadingHTTPServer):
    """The listening socket: one thread per connection, up to a limit."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], gateway: CallPolicy) -> None:
        self.gateway = gateway
        self._places = threading.BoundedSemaphore(gateway.limits.connections)
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        """Skip the base class's look-up of this machine's name, which can hang without a network."""
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._places.acquire(blocking=False):
            self.gateway.track(request, True)
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.gateway.track(request, False)
            self._places.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a client that disconnects in the middle; what matters is in `Gateway.trouble`."""


@dataclass(frozen=True, slots=True)
class _Forward:
    """A request as it goes to the provider."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes | None
    is_call: bool
    wire: str


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "gateway", ""
    server: Server
    _upstream: socket.socket | None = None
    _is_gone = False  # the program disconnected before it had its whole answer

    def setup(self) -> None:
        self.request.settimeout(self.server.gateway.limits.request_seconds)
        super().setup()

    def handle_one_request(self) -> None:
        """Handle one request a connection: anything after it is never read, so nothing can be smuggled behind it."""
        self.close_connection = True
        self.raw_requestline = self.rfile.readline(65_537)
        if len(self.raw_requestline) > 65_536:
            self.command, self.request_version = "", "HTTP/1.1"
            self.refuse(RequestRefused(414, "the address is too long"))
        elif self.raw_requestline and self.parse_request():
            self.close_connection = True
            try:
                self.forward(self.check_request())
            except RequestRefused as refusal:
                self.server.gateway.note_refusal(refusal.message)
                self.refuse(refusal)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer what the base class rejects in the form of every other refusal."""
        self.refuse(RequestRefused(code, message or "the request cannot be read"))

    def check_request(self) -> _Forward:
        """Return the request to forward, or raise RequestRefused."""
        gateway = self.server.gateway
        provider = gateway.provider
        target = target_of(self.command, self.path, base=gateway.base, secret=gateway.secret, wire=provider.wire)
        names = [name.lower() for name in self.headers]
        if self.headers.defects or "transfer-encoding" in names or names.count("content-length") > 1:
            raise RequestRefused(400, "send the body with one Content-Length and no Transfer-Encoding")
        headers = tuple(headers_sent(self.headers))
        body = None
        if self.command == "POST":
            body = check_body(self._body(), target, provider, online=gateway.online)
            headers = (*headers, ("Content-Type", "application/json"))
        keyed = (*headers, *key_header(provider, gateway.key()))
        return _Forward(self.command, target.address, keyed, body, target.is_call, target.wire)

    def _body(self) -> bytes:
        limits, told = self.server.gateway.limits, self.headers.get("content-length", "")
        if not (told.isascii() and told.isdigit() and len(told) < 12):
            raise RequestRefused(411, "send the body with a Content-Length")
        length, deadline = int(told), time.monotonic() + limits.request_seconds
        if length > limits.request_bytes:
            raise RequestRefused(413, f"a request has at most {limits.request_bytes:,} bytes")
        body = bytearray()
        while len(body) < length:
            piece = self.rfile.read1(min(CHUNK, length - len(body)))
            if not piece or time.monotonic() > deadline:
                raise RequestRefused(408, "the request did not come in time")
            body += piece
        return bytes(body)

    def forward(self, request: _Forward) -> None:
        if not request.is_call:
            self._send_on(request)
            return
        gateway = self.server.gateway
        with gateway.in_line(), gateway.slot(self._hung_up):
            body = gateway.bound_answer(request.body or b"", request.target, request.wire)
            gateway.ask()
            self._send_on(replace(request, body=body))

    def _hung_up(self) -> bool:
        """Did the program close its connection? It sends nothing more until it has its answer."""
        try:
            return bool(select.select([self.connection], [], [], 0)[0]) and not self.connection.recv(1, socket.MSG_PEEK)
        except OSError:
            return True

    def _send_on(self, request: _Forward) -> None:
        gateway = self.server.gateway
        with HangUp(gateway.limits.answer_seconds) as hang_up, contextlib.closing(_connect(gateway)) as connection:
            try:
                self._exchange(request, connection, hang_up)
            finally:
                if self._upstream is not None:
                    gateway.track(self._upstream, False)

    def _exchange(self, request: _Forward, connection: http.client.HTTPConnection, hang_up: HangUp) -> None:
        gateway = self.server.gateway
        answer = self._answer(connection, request, hang_up)
        trouble = trouble_of(answer, gateway.provider) if request.is_call else None
        if request.is_call:
            gateway.note_outcome(trouble)
        if answer.status in (401, 403):
            raise RequestRefused(FINAL, f"the provider answered {answer.status}: it refused the key")
        if 300 <= answer.status < 400 or answer.status < 200:
            raise RequestRefused(502, f"the provider answered {answer.status}, which is not followed")
        if is_compressed(answer):
            raise RequestRefused(FINAL, "the provider's answer is compressed, though it was asked not to be")
        self._pass_on(answer, request, trouble, hang_up)

    def _answer(
        self, connection: http.client.HTTPConnection, request: _Forward, hang_up: HangUp
    ) -> http.client.HTTPResponse:
        gateway = self.server.gateway
        try:
            connection.connect()
            self._upstream = connection.sock  # the connection drops it when no further request is possible
            gateway.track(connection.sock, True)
            hang_up.watch(connection.sock)
            connection.putrequest(request.method, request.target, skip_accept_encoding=True)
            for name, value in request.headers:
                connection.putheader(name, value)
            connection.putheader("Accept-Encoding", "identity")
            if request.body is not None:
                connection.putheader("Content-Length", str(len(request.body)))
            connection.endheaders(request.body)
            return connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            if request.is_call:
                gateway.note_outcome(ModelUnavailable(f"the provider cannot be reached: {type(error).__name__}"))
            raise RequestRefused(502, "the provider cannot be reached") from error

    def _pass_on(
        self, answer: http.client.HTTPResponse, request: _Forward, trouble: RunnerError | None, hang_up: HangUp
    ) -> None:
        """Stream the answer in chunks. One that breaks off has no last chunk, so the program can see that.

        The call's usage is counted before its end, so that the program cannot ask again earlier. A program that
        disconnects in the middle does not change what it used: the answer is still read to its end.
        """
        gateway = self.server.gateway
        meter = UsageMeter(request.target, answer.getheader("content-type") or "")
        mask = KeyMask(gateway.key())
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in NOT_RETURNED:
                self.send_header(name, mask.whole(value.encode("latin-1", "replace")).decode("latin-1"))
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("Connection", "close")
        whole = False
        try:
            self._write(self.end_headers)
            for piece in _pieces(answer, gateway):
                meter.feed(piece)
                self._chunk(mask.feed(piece))
            if hang_up.is_done:
                raise BrokenOff("it takes too long")
            whole = True
        except BrokenOff as error:
            if request.is_call:
                gateway.note_outcome(ModelUnavailable(f"the provider's answer broke off: {error}"), trouble)
            return
        finally:
            metered = meter.total()
            if request.is_call and meter.broken is not None and (told := trouble_told(meter.broken, answer.status)):
                gateway.note_outcome(told, trouble)
            if request.is_call and answer.status < 300:
                gateway.note_answer(metered, whole and meter.broken is None)
        self._chunk(mask.rest())
        self._write(lambda: self.wfile.write(b"0\r\n\r\n"))

    def _chunk(self, content: bytes) -> None:
        if content:
            self._write(lambda: self.wfile.write(b"%x\r\n%b\r\n" % (len(content), content)))

    def _write(self, write: Callable[[], object]) -> None:
        """Write nothing more to a program that disconnected, or that reads nothing."""
        if not self._is_gone:
            try:
                write()
            except OSError:
                self._is_gone = True

    def refuse(self, refusal: RequestRefused) -> None:
        error = {"type": "gateway_refusal", "message": refusal.message, "code": refusal.status}
        content = json.dumps({"type": "error", "error": error}).encode()
        self.send_response(refusal.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass


def _connect(gateway: CallPolicy) -> http.client.HTTPConnection:
    host, port = gateway.base.hostname or "", gateway.base.port
    if gateway.base.scheme == "http":
        return http.client.HTTPConnection(host, port, timeout=gateway.limits.silence_seconds)
    return http.client.HTTPSConnection(
        host, port, timeout=gateway.limits.silence_seconds, context=ssl.create_default_context()
    )


class BrokenOff(Exception):
    """The provider's answer was cut off."""


def _pieces(answer: http.client.HTTPResponse, gateway: CallPolicy) -> Iterator[bytes]:
    """The body as it arrives. BrokenOff if it stops short, grows too long or takes too long."""
    length = answer.length  # None if the provider does not say
    total, deadline = 0, gateway.clock() + gateway.limits.answer_seconds
    while True:
        try:
            piece = answer.read1(CHUNK)
        except (http.client.HTTPException, OSError) as error:
            raise BrokenOff(type(error).__name__) from error
        total += len(piece)
        if total > gateway.limits.answer_bytes or gateway.clock() > deadline:
            raise BrokenOff("it is too long")
        if not piece:
            break
        yield piece
    if length is not None and total < length:
        raise BrokenOff(f"{length - total:,} bytes are missing")
