"""The HTTP under every model call of the host: bounded in size and time, streamed if possible.

A provider's key goes to the provider's address and nowhere else: no redirect is followed. The server may be hostile:
replies, headers included, are cut off at limits, no matter how slowly they arrive.
"""

from __future__ import annotations

import codecs
import contextlib
import json
import logging
import re
import ssl
import time
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import httpx

from runner.base.hanging_up import HangUp
from runner.base.types import JsonValue, Usage
from runner.models.wire.error_wording import iterate_causes
from runner.models.wire.metering import UsageMeter
from runner.models.wire.streams import BrokenStream, ErrorInStream, EventReader, Streamed, as_stream, error_in

log = logging.getLogger(__name__)

MAX_REPLY_BYTES = 32 * 1024 * 1024
CONNECT_SECONDS = 30.0
SILENCE_SECONDS = 180.0
WHOLE_FACTOR = 5  # a provider is silent while it makes a whole reply, so it may be silent 5 times longer
# A call asks for a whole reply after this many broken streams. From the source of llama-cpp-python 0.3.36: its server
# ends a stream when another request comes in (`interrupt_requests`, on by default), but not a whole reply.
MAX_BROKEN = 2
CALL_SECONDS = 3_600.0
_NO_END = "the provider did not end its reply in the time for the whole call"
_REPLIES = ("choices", "content", "output", "candidates", "message", "response")  # fields that hold a reply, by format
_NOT_RETURNED = frozenset({"content-length", "content-encoding", "transfer-encoding", "content-type"})


class CallProblem(Exception):
    """The reason why a call got no reply, other than an error status."""


class Away(CallProblem):
    """The server is not running, or not ready yet."""


class BrokenConnection(CallProblem):
    """The provider fell silent, or its reply was cut off. It may have used tokens."""


class TimeUp(CallProblem):
    """The time for the call with all its tries is used up."""


class Unacceptable(CallProblem):
    """A reply that is refused: too long, compressed, or a redirect. Another try would get the same."""


@dataclass(slots=True)
class BoundedCall:
    """One completion with all its tries, as the transport sees it. Times in seconds of time.monotonic.

    problem    what kept the latest try from its reply; None if the provider answered
    answering  the latest try reached the provider's model, as far as is visible from here
    replied    the latest try got a whole reply with a status of success
    used       known usage of the latest try, if it did not end in a reply
    broken     streams that were cut off, in all tries
    """

    silence_seconds: float = SILENCE_SECONDS
    ends_at: float = field(default_factory=lambda: time.monotonic() + CALL_SECONDS)
    problem: CallProblem | None = None
    answering: bool = False
    replied: bool = False
    used: Usage = Usage()
    broken: int = 0

    def begin_try(self) -> None:
        self.problem, self.answering, self.replied, self.used = None, False, False, Usage()


_call: ContextVar[BoundedCall | None] = ContextVar("model call", default=None)


@contextlib.contextmanager
def bound_calls(call: BoundedCall) -> Iterator[BoundedCall]:
    """Apply `call`'s limits to calls made inside, and record in it what happened."""
    token = _call.set(call)
    try:
        yield call
    finally:
        _call.reset(token)


def install(litellm: Any) -> None:
    """Route all of litellm's HTTP through here. Harmless if that is done already."""
    if litellm.client_session is None:
        client = httpx.Client(transport=BoundedTransport(), timeout=None)
        litellm.client_session, litellm.sync_transport = client, BoundedTransport()
        litellm.module_level_client.client = client


class BoundedTransport(httpx.BaseTransport):
    """Reads each reply to its end before passing it on, reassembled if it was streamed."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        call = _call.get() or BoundedCall()
        request.read()
        try:
            answer = _answer(request, call)
            call.replied = answer.is_success
            return answer
        except CallProblem as problem:
            call.problem = problem
            raise httpx.RemoteProtocolError(str(problem), request=request) from problem


# How servers are asked after their reaction to streams: (origin, path, model) -> habit.
_WHOLE, _STREAMED = "whole", "streamed"
_habits: dict[tuple[str, str, str], str] = {}


def _answer(request: httpx.Request, call: BoundedCall) -> httpx.Response:
    body = _json(request.content) if request.method == "POST" else None
    path = request.url.raw_path.decode("ascii")
    streamed = None if body is None or body.get("stream") is True else as_stream(path, body)
    if streamed is None:
        return _exchange(request, call)
    server = (f"{request.url.scheme}://{request.url.netloc.decode()}", path, str((body or {}).get("model", "")))
    if _habits.get(server) == _WHOLE or call.broken >= MAX_BROKEN:
        return _ask_whole(request, call, server)
    try:
        answer = _exchange(_build_streamed(request, streamed), call, streamed)
    except BrokenConnection:
        call.broken += 1
        raise
    if _refuses_streams(answer):
        answer = _exchange(request, call)
        if answer.is_success:
            log.info("%s does not stream this model: waiting for whole replies", server[0])
            _habits[server] = _WHOLE
    elif answer.is_success and server not in _habits and not _tells_usage(answer):
        log.info("%s reports no usage in streams: requesting the next reply whole", server[0])
        _habits[server] = _WHOLE
    return answer


def _ask_whole(request: httpx.Request, call: BoundedCall, server: tuple[str, str, str]) -> httpx.Response:
    try:
        answer = _exchange(request, call)
    except BrokenConnection:
        _habits.pop(server, None)
        raise
    if answer.is_success and not _tells_usage(answer):
        _habits[server] = _STREAMED  # a whole reply has no more usage data than a stream
    elif answer.is_success and call.broken:
        log.info("%s broke off its streams: requesting whole replies", server[0])
        _habits[server] = _WHOLE
    return answer


def _json(content: bytes) -> dict[str, JsonValue] | None:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _build_streamed(request: httpx.Request, streamed: Streamed) -> httpx.Request:
    headers = [(name, value) for name, value in request.headers.raw if name.lower() != b"content-length"]
    url = request.url.copy_with(raw_path=streamed.path.encode("ascii"))
    return httpx.Request(request.method, url, headers=headers, content=json.dumps(streamed.body).encode())


def _refuses_streams(answer: httpx.Response) -> bool:
    """Does the server refuse to stream?
    OpenAI refuses streams of some models to unverified accounts; other servers do not know stream_options."""
    return answer.status_code in (400, 403, 404, 405, 415, 422, 501) and b"stream" in answer.content.replace(
        b"upstream", b""
    )


def _tells_usage(answer: httpx.Response) -> bool:
    reply = _json(answer.content) or {}
    return any(reply.get(name) for name in ("usage", "usageMetadata", "eval_count"))


def _exchange(request: httpx.Request, call: BoundedCall, streamed: Streamed | None = None) -> httpx.Response:
    """Make one request and read its reply to the end. CallProblem."""
    left = call.ends_at - time.monotonic()
    if left <= 0:
        raise TimeUp("the time for the whole call is used up")
    silence = min(call.silence_seconds * (1 if streamed else WHOLE_FACTOR), left)
    request.headers["Accept-Encoding"] = "identity"
    timeouts = {"connect": min(CONNECT_SECONDS, silence), "read": silence, "write": silence, "pool": silence}
    request.extensions = {**request.extensions, "timeout": timeouts}

    def watch(event: str, found: Mapping[str, Any]) -> None:
        """Follow httpx's trace of the exchange."""
        if event == "connection.connect_tcp.complete":
            hang_up.watch(found["return_value"].get_extra_info("socket"))

    # A new connection for each try: that of a hung call is not reused. Proxies come from the environment.
    with HangUp(left) as hang_up, httpx.Client(verify=_trust_settings()) as client:
        request.extensions["trace"] = watch
        try:
            answer = client.send(request, stream=True, auth=None, follow_redirects=False)
            with contextlib.closing(answer):
                found = _read(answer, call, streamed)
            if not hang_up.is_done:  # else an apparent end may be our own timeout
                return found
            raise TimeUp(_NO_END)
        except BrokenConnection as error:
            if hang_up.is_done:
                raise TimeUp(_NO_END) from error
            raise
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            if hang_up.is_done:
                raise TimeUp(_NO_END) from error
            if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in iterate_causes(error)):
                raise Unacceptable(f"the provider's certificate is not trusted: {error}") from error
            raise Away(f"cannot connect to the provider: {error or type(error).__name__}") from error
        except (httpx.HTTPError, httpx.InvalidURL, ssl.SSLError, OSError) as error:
            call.answering = call.answering or isinstance(error, httpx.ReadTimeout)
            if hang_up.is_done:
                raise TimeUp(_NO_END) from error
            if isinstance(error, httpx.TimeoutException):
                raise BrokenConnection(f"the provider was silent for {silence:.0f} seconds") from error
            raise BrokenConnection(f"the connection broke: {error or type(error).__name__}") from error


@lru_cache(maxsize=1)
def _trust_settings() -> ssl.SSLContext:
    from litellm.llms.custom_httpx.http_handler import get_ssl_configuration  # SSL_VERIFY, SSL_CERT_FILE and the like

    found = get_ssl_configuration()
    return found if isinstance(found, ssl.SSLContext) else httpx.create_ssl_context(verify=found)


def _read(answer: httpx.Response, call: BoundedCall, streamed: Streamed | None) -> httpx.Response:
    _require_plain(answer)
    call.answering = answer.is_success
    headers = {name: value for name, value in answer.headers.items() if name.lower() not in _NOT_RETURNED}
    kind = answer.headers.get("content-type", "application/json")
    is_events = kind.partition(";")[0].strip().lower() in ("text/event-stream", "application/x-ndjson")
    is_stream = streamed is not None and answer.is_success and is_events
    content = b"" if is_stream else b"".join(_pieces(answer))
    reply: Mapping[str, object]
    try:
        if streamed is not None and is_stream:
            status, reply = answer.status_code, _put_together(_pieces(answer), call, streamed)
        elif answer.is_success and (found := _reply_in(content, call, streamed)) is not None:
            status, reply = answer.status_code, found
        else:
            return httpx.Response(answer.status_code, headers={**headers, "content-type": kind}, content=content)
    except ErrorInStream as error:
        status, reply = error.status, error.body
    except BrokenStream as error:
        raise BrokenConnection(f"the provider's reply broke off: {error}") from error
    headers["content-type"] = "application/json"
    return httpx.Response(status, headers=headers, content=json.dumps(reply).encode())


def _require_plain(answer: httpx.Response) -> None:
    if 300 <= answer.status_code < 400:
        try:  # the host as spelled, and whole: the caller must find a key in it
            host = re.sub(r":[0-9]*\Z", "", urlsplit(answer.headers.get("location", "")).netloc.rpartition("@")[2])
        except ValueError:
            host = ""
        to = f" to the host '{host}'" if host else ""
        raise Unacceptable(f"the provider answered {answer.status_code}, a redirect{to}, which is not followed")
    if answer.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise Unacceptable("the provider's reply is compressed, though it was asked not to be")


def _reply_in(content: bytes, call: BoundedCall, streamed: Streamed | None) -> dict[str, JsonValue] | None:
    """Reassemble a stream that has another content type. None for anything to pass on unchanged.

    ErrorInStream for an error with a status of success, as OpenRouter sends it, and BrokenStream.
    """
    whole = _json(content)
    if whole is not None:
        if (error := error_in(whole)) and not any(whole.get(name) for name in _REPLIES):
            raise ErrorInStream(error)
        return None
    is_stream = content.lstrip(codecs.BOM_UTF8 + b" \r\n").startswith((b"data:", b"event:", b":", b"{"))
    return _put_together([content], call, streamed) if streamed is not None and is_stream else None


def _put_together(pieces: Iterable[bytes], call: BoundedCall, streamed: Streamed) -> dict[str, JsonValue]:
    """Keep the usage that the stream has reported so far, in case it breaks off."""
    reader, meter = EventReader(streamed.assembler()), UsageMeter(streamed.path, "text/event-stream")
    try:
        for piece in pieces:
            meter.feed(piece)
            reader.feed(piece)
        return reader.whole()
    except BaseException:
        call.used = meter.total().usage.in_part()
        raise


def _pieces(answer: httpx.Response) -> Iterator[bytes]:
    size = 0
    for piece in answer.iter_raw():
        size += len(piece)
        if size > MAX_REPLY_BYTES:
            raise Unacceptable(f"the provider's reply is longer than {MAX_REPLY_BYTES // 1024**2} MiB")
        yield piece
