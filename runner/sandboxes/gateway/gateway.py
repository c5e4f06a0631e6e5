"""A sandbox's only way out: an HTTP server on the host that forwards model calls to one provider.

The program in the sandbox gets this server's address as its provider. Each request is checked against an allow-list:
only model calls, only below the provider's base URL, only the models and tools of this attempt. It gets the key that
never enters the sandbox, and its answer is streamed back. Nothing is retried and no redirect is followed: the program
sees what the provider answered. Clients are hostile: sizes, times and connections are capped, framing is strict,
headers are checked, and a key in an answer is masked before it is passed on.
"""

from __future__ import annotations

import contextlib
import contextvars
import http.client
import json
import os
import secrets
import select
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from runner.base.errors import InfrastructureError, ModelRefused, ModelUnavailable, RunnerError, SetupError
from runner.base.hanging_up import HangUp
from runner.base.text import replace_unprintable
from runner.base.types import Usage
from runner.models.wire.call_slots import call_slot, note_answer, note_failure
from runner.models.wire.metering import Metered, UsageMeter
from runner.sandboxes.gateway.gateway_rules import (
    FINAL,
    LIMITS,
    NOT_RETURNED,
    GatewayLimits,
    KeyMask,
    RequestRefused,
    Target,
    base_of,
    bound_output,
    check_body,
    error_in_answer,
    headers_sent,
    is_compressed,
    key_header,
    target_of,
    trouble_of,
)
from runner.sandboxes.needs import Needs, Provider

UNCOUNTED_ALLOWED = 3  # answers without usage in one attempt, if a limit needs the usage
MAX_REFUSALS = 20  # kinds of refusals counted separately
# These hosts' newer models insist on the newer name of a chat's limit on output. Elsewhere the older one works.
_NEW_NAMES = ("api.openai.com", ".openai.azure.com")


class Gateway:
    """One per attempt. Use: `start`, then read the fields, then `close`; closing twice is harmless.

    requests  model calls forwarded to the provider; `failed` of them met an error
    usage     what they used, as the provider reports it. `uncounted`: whole answers without input or output tokens.
              `broken_off`: answers that may have used more than they report
    close     hangs up on calls in progress and counts the usage that their answers reported until then
    refusal   the exception of `before_call` (BudgetSpent, ...), or ModelRefused after UNCOUNTED_ALLOWED answers without
              usage, if it is `counted` by a budget or a limit on tokens; from then on every call is refused
    trouble   why the latest model call got no answer: ModelUnavailable or ModelRefused; None after an answer
    refused   requests that were not forwarded: the message that the program got -> how often
    lowered   calls that asked for a longer answer than was left of a limit on output, and were forwarded with less

    `online`: the task has network, so tools that the provider runs itself (search, code, MCP) may be used.
    `before_call`, `after_call` (given the usage of one call) and `price` run one at a time, in a thread of their own.
    """

    def __init__(
        self,
        provider: Provider,
        before_call: Callable[[], None] | None = None,
        *,
        after_call: Callable[[Usage], None] | None = None,
        price: Callable[[Usage, int], float | None] | None = None,
        online: bool = False,
        counted: bool = False,
        limits: GatewayLimits = LIMITS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.provider, self.online, self.limits, self.clock = provider, online, limits, clock
        self.base = base_of(provider)
        self.requests = self.failed = self.uncounted = self.broken_off = self.lowered = 0
        self.usage = Usage()
        self.refused: Counter[str] = Counter()
        self.watch: Callable[[int, Usage], None] | None = None  # given number and usage of each answered call
        self.limit_reached: str | None = None  # TurnLimit or TokenLimit, after a call was refused for it
        self.refusal: Exception | None = None
        self.trouble: RunnerError | None = None
        self._counted = counted
        self.allow()
        self._before_call, self._after_call, self._price = before_call, after_call, price
        self._callbacks = ThreadPoolExecutor(1, thread_name_prefix="gateway-callbacks")
        self._lock, self._line = threading.Lock(), threading.Lock()
        self._output = self._granted = 0  # tokens made so far, and those that the call in progress may make
        self._open: set[socket.socket] = set()
        self._is_closing = False
        self._context = contextvars.copy_context()  # of the attempt: threads of the server begin with an empty one
        self._waiting = self._under_way = 0  # calls
        self._queued, self._counted_to = 0.0, clock()
        self._server: Server | None = None
        # Part of the address, so that a neighbour who can reach the port cannot use it.
        self.secret = secrets.token_hex(16)

    @classmethod
    def of_needs(cls, needs: Needs, *, online: bool) -> Gateway:
        """Make one from an agent's needs. SetupError if they name no provider."""
        if needs.provider is None:
            raise SetupError("no provider is named that a gateway could forward to")
        return cls(
            needs.provider,
            needs.before_call,
            after_call=needs.after_call,
            price=needs.price,
            online=online,
            counted=needs.counted,
        )

    def start(self, host: str) -> str:
        """Listen on `host` (an address of this machine) and return the URL that replaces the provider's base URL.

        SetupError if the key is missing, OSError if the address is not ours.
        """
        self.key()
        self._server = Server((host, 0), self)
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
            self._is_closing = True
            left = list(self._open)
        for connection in left:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        # Calls in progress report their usage; one that hangs is not waited for long.
        until = time.monotonic() + self.limits.closing_seconds
        while self._open and time.monotonic() < until:
            time.sleep(0.005)
        self._callbacks.shutdown()

    def key(self) -> str | None:
        """The provider's key, read for each request, so that a changed key takes effect and none is kept here."""
        name = self.provider.key_variable
        if name is None:
            return None
        value = os.environ.get(name, "").strip()
        if not value:
            raise SetupError(f"the environment variable {name}, which holds the provider's key, is not set")
        if not value.isascii() or not value.isprintable():
            raise SetupError(f"the environment variable {name} holds characters that no key has")
        return value

    def allow(self, requests: int | None = None, tokens: int | None = None, output: int | None = None) -> None:
        """Limit the successful model calls, and refuse calls after this many tokens were used (sent and made).

        `output`: total of tokens made. Each call may make no more than what is left, so calls wait for one another. An
        answer of unknown length counts as long as it could be. None: no limit.
        """
        self._requests_allowed, self._tokens_allowed, self._output_allowed = requests, tokens, output

    @contextlib.contextmanager
    def slot(self, is_gone: Callable[[], bool]) -> Iterator[None]:
        """Hold one of the model server's slots for a call. `is_gone`: the client no longer waits for the answer."""

        def pause(seconds: float) -> None:
            if self._is_closing or is_gone():
                raise RequestRefused(FINAL, "nobody waits for this call any more")
            time.sleep(seconds)

        with contextlib.ExitStack() as stack:
            self._count_calls(waiting=1)
            try:
                stack.enter_context(call_slot(self.provider.endpoint, pause))
            except InfrastructureError as error:
                self.refusal = self.refusal or error
                raise RequestRefused(FINAL, "the queue of calls to the model cannot be reached") from error
            finally:
                self._count_calls(waiting=-1)
            self._count_calls(under_way=1)
            stack.callback(self._count_calls, under_way=-1)
            yield

    def _count_calls(self, waiting: int = 0, under_way: int = 0) -> None:
        with self._lock:
            self._queued, self._counted_to = self._sum_queued(), self.clock()
            self._waiting += waiting
            self._under_way += under_way

    def _sum_queued(self) -> float:
        is_idle = self._waiting and not self._under_way and self.provider.endpoint.at_a_time
        return self._queued + (self.clock() - self._counted_to if is_idle else 0.0)

    @property
    def queued_seconds(self) -> float:
        """Seconds so far when calls waited for a free slot of the model's server, and none was in progress."""
        with self._lock:
            return self._sum_queued()

    def in_line(self) -> contextlib.AbstractContextManager[object]:
        """Serialise model calls: two in parallel could not both get what is left of a limit on output."""
        return contextlib.nullcontext() if self._output_allowed is None else self._line

    def bound_answer(self, body: bytes, address: str, wire: str) -> bytes:
        """Limit the answer of a model call to what is left of a limit on output. Return the changed body."""
        if self._output_allowed is None:
            return body
        self._granted = max(self._output_allowed - self._output, 0)
        if not self._granted:
            return body  # `ask` refuses it
        newer = (self.base.hostname or "").endswith(_NEW_NAMES)
        bounded, is_lowered = bound_output(body, address, wire, self._granted, newer_name=newer)
        self.lowered += is_lowered
        return bounded

    def note_refusal(self, message: str) -> None:
        """Count a refusal. Texts in it may be the program's."""
        message = replace_unprintable(message)[:200]
        with self._lock:
            more = message not in self.refused and len(self.refused) >= MAX_REFUSALS
            self.refused["other requests" if more else message] += 1

    def ask(self) -> None:
        """Allow one more call, or raise the refusal. Run by `in_turn`."""
        if (
            self.refusal is None
            and self.uncounted >= UNCOUNTED_ALLOWED
            and (self._counted or self._tokens_allowed is not None)
        ):
            self.refusal = ModelRefused(
                f"the provider reports no usage, so its cost is unknown: {self.uncounted} answers reported none, and "
                "the run has a budget or a limit on tokens"
            )
        if self.refusal is None and self._before_call is not None:
            try:
                self._before_call()
            except Exception as error:  # raised again when the attempt ends
                self.refusal = error
        if self.refusal is not None:
            raise RequestRefused(FINAL, "no further model call is allowed in this attempt")
        limits = {
            "TurnLimit": (self.requests - self.failed, self._requests_allowed),
            "TokenLimit": (self.usage.known_tokens, self._tokens_allowed),
            "OutputLimit": (self._output, self._output_allowed),
        }
        self.limit_reached = next((name for name, (at, end) in limits.items() if end is not None and at >= end), None)
        if self.limit_reached:
            raise RequestRefused(FINAL, "the attempt's model calls are used up")
        self.requests += 1

    def count(self, metered: Metered, whole: bool) -> None:
        """Count an answered model call. An error while counting ends the attempt like a refusal. Run by `in_turn`."""
        usage = metered.usage
        self._output += self._granted if usage.output_tokens is None else usage.output_tokens
        self.uncounted += whole and None in (usage.input_tokens, usage.output_tokens)
        self.broken_off += not whole
        try:
            if self._price is not None:
                usage = replace(usage, cost_usd=self._price(usage, metered.cache_written))
            self.usage += usage
            if self._after_call is not None:
                self._after_call(usage)
            if self.watch is not None:
                self.watch(self.requests, usage)
        except Exception as error:
            self.refusal = self.refusal or error

    def in_turn(self, work: Callable[[], None]) -> None:
        """Run one at a time and always in the same thread: the counter may hold a connection to a database."""
        try:
            future = self._callbacks.submit(work)
        except RuntimeError as error:  # closed
            raise RequestRefused(FINAL, "this attempt is over") from error
        future.result()

    def note_outcome(self, trouble: RunnerError | None, before: RunnerError | None = None) -> None:
        """Note how a model call ended. A failed one is not a turn: an outage must not use up the agent's turns.

        `before` is the outcome by its status, if its body says more. A connection that we close does not count
        against the provider.
        """
        with self._lock:
            if self._is_closing:
                return
            self.trouble = trouble
            self.failed += (trouble is not None) - (before is not None)
        context = self._context.copy()
        if isinstance(trouble, ModelUnavailable):
            context.run(note_failure, self.provider.endpoint, str(trouble))
        else:
            context.run(note_answer, self.provider.endpoint)

    def track(self, connection: socket.socket, is_open: bool) -> None:
        with self._lock:
            (self._open.add if is_open else self._open.discard)(connection)


CHUNK = 64 * 1024


class Server(ThreadingHTTPServer):
    """The listening socket: one thread per connection, up to a limit."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], gateway: Gateway) -> None:
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

    target: Target
    headers: tuple[tuple[str, str], ...]
    body: bytes | None


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
        return _Forward(target, (*headers, *key_header(provider, gateway.key())), body)

    def _body(self) -> bytes:
        limits, header = self.server.gateway.limits, self.headers.get("content-length", "")
        if not (header.isascii() and header.isdigit() and len(header) < 12):
            raise RequestRefused(411, "send the body with a Content-Length")
        length, deadline = int(header), time.monotonic() + limits.request_seconds
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
        gateway = self.server.gateway
        if not request.target.is_call:
            self._send_on(request)
            return
        with gateway.in_line(), gateway.slot(self._hung_up):
            body = gateway.bound_answer(request.body or b"", request.target.address, request.target.wire)
            gateway.in_turn(gateway.ask)
            self._send_on(replace(request, body=body))

    def _hung_up(self) -> bool:
        """Did the program close its connection? It sends nothing more until it has its answer."""
        try:
            return bool(select.select([self.connection], [], [], 0)[0]) and not self.connection.recv(1, socket.MSG_PEEK)
        except OSError:
            return True

    def _send_on(self, request: _Forward) -> None:
        gateway, secure = self.server.gateway, self.server.gateway.base.scheme != "http"
        host, port, silence = gateway.base.hostname or "", gateway.base.port, gateway.limits.silence_seconds
        made = http.client.HTTPConnection(host, port, timeout=silence)
        if secure:
            made = http.client.HTTPSConnection(host, port, timeout=silence, context=ssl.create_default_context())
        with HangUp(gateway.limits.answer_seconds) as hang_up, contextlib.closing(made) as connection:
            try:
                self._exchange(request, connection, hang_up)
            finally:
                if self._upstream is not None:
                    gateway.track(self._upstream, False)

    def _exchange(self, request: _Forward, connection: http.client.HTTPConnection, hang_up: HangUp) -> None:
        gateway = self.server.gateway
        answer = self._answer(connection, request, hang_up)
        trouble = trouble_of(answer, gateway.provider) if request.target.is_call else None
        if request.target.is_call:
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
            connection.putrequest(self.command, request.target.address, skip_accept_encoding=True)
            for name, value in request.headers:
                connection.putheader(name, value)
            connection.putheader("Accept-Encoding", "identity")
            if request.body is not None:
                connection.putheader("Content-Length", str(len(request.body)))
            connection.endheaders(request.body)
            return connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            if request.target.is_call:
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
        meter = UsageMeter(request.target.address, answer.getheader("content-type") or "")
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
            if request.target.is_call:
                gateway.note_outcome(ModelUnavailable(f"the provider's answer broke off: {error}"), trouble)
            return
        finally:
            metered = meter.total()
            if (
                request.target.is_call
                and meter.broken is not None
                and (message := error_in_answer(meter.broken, answer.status))
            ):
                gateway.note_outcome(message, trouble)
            if request.target.is_call and answer.status < 300:
                gateway.in_turn(lambda: gateway.count(metered, whole and meter.broken is None))
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

    def log_message(self, format: str, *args: object) -> None: ...

    def refuse(self, refusal: RequestRefused) -> None:
        error = {"type": "gateway_refusal", "message": refusal.message, "code": refusal.status}
        content = json.dumps({"type": "error", "error": error}).encode()
        self.send_response(refusal.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)


class BrokenOff(Exception):
    """The provider's answer was cut off."""


def _pieces(answer: http.client.HTTPResponse, gateway: Gateway) -> Iterator[bytes]:
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
