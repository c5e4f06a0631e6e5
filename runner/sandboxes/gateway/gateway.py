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
import os
import secrets
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from runner.base.errors import InfrastructureError, ModelRefused, ModelUnavailable, RunnerError, SetupError
from runner.base.text import replace_unprintable
from runner.base.types import Usage
from runner.models.wire.call_slots import call_slot, note_answer, note_failure
from runner.models.wire.metering import Metered
from runner.sandboxes.gateway.gateway_rules import FINAL, RequestRefused, base_of, bound_output
from runner.sandboxes.gateway.gateway_server import LIMITS, GatewayLimits, Server
from runner.sandboxes.needs import Needs, Provider

UNTOLD_ALLOWED = 3  # answers without usage in one attempt, if a limit needs the usage
MAX_REFUSALS = 20  # kinds of refusals counted separately
# These hosts' newer models insist on the newer name of a chat's limit on output. Elsewhere the older one works.
_NEW_NAMES = ("api.openai.com", ".openai.azure.com")


class Gateway:
    """One per attempt. Use: `start`, then read the fields, then `close`; closing twice is harmless.

    requests  model calls forwarded to the provider; `failed` of them met an error
    usage     what they used, as the provider reports it. `untold`: whole answers without input or output tokens.
              `broken_off`: answers that may have used more than they report
    close     hangs up on calls in progress and counts the usage that their answers reported until then
    refusal   the exception of `before_call` (BudgetSpent, ...), or ModelRefused after UNTOLD_ALLOWED answers without
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
        self.requests = self.failed = self.untold = self.broken_off = self.lowered = 0
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
            _hang_up(connection)
        self._wait_for_the_last()
        self._callbacks.shutdown()

    def _wait_for_the_last(self) -> None:
        """Wait until calls in progress have reported their usage, but not long for one that hangs."""
        until = time.monotonic() + self.limits.closing_seconds
        while time.monotonic() < until:
            with self._lock:
                if not self._open:
                    return
            time.sleep(0.005)

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

    @contextlib.contextmanager
    def in_line(self) -> Iterator[None]:
        """Serialise model calls: two in parallel could not both get what is left of a limit on output."""
        with contextlib.nullcontext() if self._output_allowed is None else self._line:
            yield

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
        """Allow one more call, or raise the refusal."""
        self._in_turn(self._ask)

    def note_answer(self, metered: Metered, whole: bool = True) -> None:
        """Count an answered model call. An error while counting ends the attempt like a refusal."""
        self._in_turn(lambda: self._count(metered, whole))

    def _ask(self) -> None:
        if self.refusal is None and self._cannot_count():
            self.refusal = ModelRefused(
                f"the provider reports no usage, so its cost is unknown: {self.untold} answers reported none, and "
                "the run has a budget or a limit on tokens"
            )
        if self.refusal is None and self._before_call is not None:
            try:
                self._before_call()
            except Exception as error:  # raised again when the attempt ends
                self.refusal = error
        if self.refusal is not None:
            raise RequestRefused(FINAL, "no further model call is allowed in this attempt")
        used = self.usage.known_tokens
        limits = {
            "TurnLimit": (self.requests - self.failed, self._requests_allowed),
            "TokenLimit": (used, self._tokens_allowed),
            "OutputLimit": (self._output, self._output_allowed),
        }
        self.limit_reached = next((name for name, (at, end) in limits.items() if end is not None and at >= end), None)
        if self.limit_reached:
            raise RequestRefused(FINAL, "the attempt's model calls are used up")
        self.requests += 1

    def _cannot_count(self) -> bool:
        return self.untold >= UNTOLD_ALLOWED and (self._counted or self._tokens_allowed is not None)

    def _count(self, metered: Metered, whole: bool) -> None:
        usage = metered.usage
        self._output += self._granted if usage.output_tokens is None else usage.output_tokens
        self.untold += whole and None in (usage.input_tokens, usage.output_tokens)
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

    def _in_turn(self, work: Callable[[], None]) -> None:
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


def _hang_up(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
