"""A sandbox's only way out: an HTTP server on this side that forwards model calls to one provider.

The program in the sandbox is told this server's address as its provider. Each request is held against an allow-list
(only the calls a model is asked by, only below the provider's base URL), gets the key that never enters the sandbox,
and its answer is streamed back. Nothing is retried and no redirect followed: the program sees what the provider said.
Who knocks is hostile: sizes, times and connections are capped, framing is strict, headers are checked, and should an
answer hold the key, it is masked before it is passed on.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import secrets
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from runner.errors import ModelUnavailable, RunnerError, SetupError
from runner.sandboxes import Provider
from runner.sandboxes.gateway_rules import (
    NOT_RETURNED,
    KeyMask,
    Refusal,
    base_of,
    headers_sent,
    key_header,
    target_of,
    trouble_of,
)

CHUNK = 64 * 1024


@dataclass(frozen=True, slots=True)
class GatewayLimits:
    request_bytes: int = 32 * 1024 * 1024
    answer_bytes: int = 256 * 1024 * 1024
    request_seconds: float = 60.0  # to receive one request
    silence_seconds: float = 600.0  # of the provider, before and between pieces of an answer
    answer_seconds: float = 3_600.0
    connections: int = 32  # at once


LIMITS = GatewayLimits()


class Gateway:
    """One per attempt. Use: `start`, then read what it learned, then `close`; closing twice is harmless.

    requests  model calls forwarded to the provider
    refusal   what `before_call` raised (BudgetSpent, ...); from then on every call is refused
    trouble   why the latest model call got no answer: ModelUnavailable or ModelRefused; None after an answer
    """

    def __init__(
        self,
        provider: Provider,
        before_call: Callable[[], None] | None = None,
        *,
        limits: GatewayLimits = LIMITS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.provider, self.limits, self.clock = provider, limits, clock
        self.base = base_of(provider)
        self.requests = 0
        self.refusal: Exception | None = None
        self.trouble: RunnerError | None = None
        self._before_call = before_call
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._server: _Server | None = None
        # Part of the address, so that a neighbour who can reach the port cannot use it.
        self.secret = secrets.token_hex(16)

    def start(self, host: str) -> str:
        """Listens on `host` (an address of this machine) and returns the URL that stands for the provider's base URL.

        SetupError when the key is missing, OSError when the address is not ours.
        """
        self.key()
        self._server = _Server((host, 0), self)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True, name="gateway").start()
        name = f"[{host}]" if ":" in host else host
        return f"http://{name}:{self._server.server_port}/{self.secret}"

    def close(self) -> None:
        server, self._server = self._server, None
        if server is None:
            return
        server.shutdown()
        server.server_close()
        with self._lock:
            left = list(self._open)
        for connection in left:
            _hang_up(connection)

    def key(self) -> str | None:
        """Read anew for each request, so that a changed key takes effect and none is kept here."""
        name = self.provider.key_variable
        if name is None:
            return None
        value = os.environ.get(name, "").strip()
        if not value:
            raise SetupError(
                f"the environment variable {name}, which holds the key of {self.base.geturl()}, is not set"
            )
        if not value.isascii() or not value.isprintable():
            raise SetupError(f"the environment variable {name} holds characters that no key has")
        return value

    def ask(self) -> None:
        """May one more call be made? Refusal when not. One at a time: who counts must not be asked twice at once."""
        with self._lock:
            if self.refusal is None and self._before_call is not None:
                try:
                    self._before_call()
                except Exception as error:  # raised again where the attempt ends
                    self.refusal = error
            if self.refusal is not None:
                raise Refusal(402, "no further model call is allowed in this attempt")
            self.requests += 1

    def heard(self, trouble: RunnerError | None) -> None:
        self.trouble = trouble

    def track(self, connection: socket.socket, is_open: bool) -> None:
        with self._lock:
            (self._open.add if is_open else self._open.discard)(connection)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], gateway: Gateway) -> None:
        self.gateway = gateway
        self._places = threading.BoundedSemaphore(gateway.limits.connections)
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        """Without the look-up of this machine's name that the base class makes, which can hang without a network."""
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

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away in the middle is nothing to tell; what matters is in `Gateway.trouble`."""


@dataclass(frozen=True, slots=True)
class _Forward:
    """A request as it goes to the provider."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes | None
    is_call: bool


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "gateway", ""
    server: _Server

    def setup(self) -> None:
        self.request.settimeout(self.server.gateway.limits.request_seconds)
        super().setup()

    def handle_one_request(self) -> None:
        """One request a connection: what may follow on it is never looked at, so nothing can be smuggled behind it."""
        self.close_connection = True
        self.raw_requestline = self.rfile.readline(65_537)
        if len(self.raw_requestline) > 65_536:
            self.command, self.request_version = "", "HTTP/1.1"
            self.refuse(Refusal(414, "the address is too long"))
        elif self.raw_requestline and self.parse_request():
            self.close_connection = True
            try:
                self.forward(self.checked())
            except Refusal as refusal:
                self.refuse(refusal)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the base class finds wrong with a request, told like everything else."""
        self.refuse(Refusal(code, message or "the request cannot be read"))

    def checked(self) -> _Forward:
        """The request as it may be forwarded, or Refusal."""
        gateway = self.server.gateway
        target, is_call = target_of(self.command, self.path, base=gateway.base, secret=gateway.secret)
        names = [name.lower() for name in self.headers]
        if self.headers.defects or "transfer-encoding" in names or names.count("content-length") > 1:
            raise Refusal(400, "send the body with one Content-Length and no Transfer-Encoding")
        headers = tuple(headers_sent(self.headers))
        body = self._body() if self.command == "POST" else None
        key = gateway.key()
        return _Forward(self.command, target, (*headers, *key_header(gateway.provider, key)), body, is_call)

    def _body(self) -> bytes:
        limits, told = self.server.gateway.limits, self.headers.get("content-length", "")
        if not (told.isascii() and told.isdigit() and len(told) < 12):
            raise Refusal(411, "send the body with a Content-Length")
        length, deadline = int(told), time.monotonic() + limits.request_seconds
        if length > limits.request_bytes:
            raise Refusal(413, f"a request has at most {limits.request_bytes:,} bytes")
        body = bytearray()
        while len(body) < length:
            piece = self.rfile.read1(min(CHUNK, length - len(body)))
            if not piece or time.monotonic() > deadline:
                raise Refusal(408, "the request did not come in time")
            body += piece
        return bytes(body)

    def forward(self, request: _Forward) -> None:
        gateway = self.server.gateway
        if request.is_call:
            gateway.ask()
        connection = _connect(gateway)
        try:
            answer = self._answer(connection, request)
            trouble = trouble_of(answer, gateway.provider) if request.is_call else None
            if request.is_call:
                gateway.heard(trouble)
            if answer.status in (401, 403):
                raise Refusal(answer.status, "the provider refused the key or what it may do")
            if 300 <= answer.status < 400 or answer.status < 200:
                raise Refusal(502, f"the provider answered {answer.status}, which is not followed")
            self._pass_on(answer, request.is_call)
        finally:
            if connection.sock is not None:
                gateway.track(connection.sock, False)
            connection.close()

    def _answer(self, connection: http.client.HTTPConnection, request: _Forward) -> http.client.HTTPResponse:
        gateway = self.server.gateway
        try:
            connection.connect()
            gateway.track(connection.sock, True)
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
                gateway.heard(ModelUnavailable(f"{gateway.base.geturl()}: {type(error).__name__}: {error}"))
            raise Refusal(502, "the provider cannot be reached") from error

    def _pass_on(self, answer: http.client.HTTPResponse, is_call: bool) -> None:
        """Streams the answer in chunks; one that breaks off has no last chunk, so the program can tell."""
        gateway = self.server.gateway
        mask = KeyMask(gateway.key())
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in NOT_RETURNED:
                self.send_header(name, mask.whole(value.encode("latin-1", "replace")).decode("latin-1"))
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            for piece in _pieces(answer, gateway):
                self._chunk(mask.feed(piece))
        except (http.client.HTTPException, TimeoutError, ConnectionError) as error:
            if is_call:
                gateway.heard(
                    ModelUnavailable(f"{gateway.base.geturl()}: the answer broke off: {type(error).__name__}")
                )
            return
        self._chunk(mask.rest())
        self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, content: bytes) -> None:
        if content:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(content), content))
            self.wfile.flush()

    def refuse(self, refusal: Refusal) -> None:
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


def _connect(gateway: Gateway) -> http.client.HTTPConnection:
    host, port = gateway.base.hostname or "", gateway.base.port
    if gateway.base.scheme == "http":
        return http.client.HTTPConnection(host, port, timeout=gateway.limits.silence_seconds)
    return http.client.HTTPSConnection(
        host, port, timeout=gateway.limits.silence_seconds, context=ssl.create_default_context()
    )


class BrokenOff(Exception):
    """The provider's answer has no end. Apart from the errors of a program that went away while it was written to."""


def _pieces(answer: http.client.HTTPResponse, gateway: Gateway) -> Iterator[bytes]:
    """The body as it arrives. BrokenOff when it stops short, grows too long or takes too long."""
    length = answer.length  # None where the provider does not say
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


def _hang_up(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
