"""A server on 127.0.0.1 that answers model calls from a script, for tests that drive real agent programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any

Event = tuple[str | None, Mapping[str, Any]]  # name and data of a server-sent event


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call the model makes, in the names of the program that is driven."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer of the model, with what it is billed for. `fresh` input tokens are those that no cache held."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    fresh: int = 100
    cached: int = 0
    output: int = 10
    status: int = 200  # anything else is an error of the provider


@dataclass
class ScriptedServer:
    """Base: `events_of` turns a Turn into the events of one wire format, `is_main` says whose calls the script answers.

    Calls beside the agent's own line of work (titles, summaries of files) get `aside`. What was asked and what was
    answered is kept, so that a test can compare tokens, calls and keys with what the program and we counted.
    """

    script: list[Turn] = field(default_factory=list)
    asked: list[dict[str, Any]] = field(default_factory=list)
    asides: list[dict[str, Any]] = field(default_factory=list)
    answered: list[Turn] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    before: Callable[[], None] = lambda: None
    aside = Turn("aside", fresh=7, output=3)

    key_header = "authorization"

    def __post_init__(self) -> None:
        self._lock = Lock()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.server.daemon_threads = True
        Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def events_of(self, turn: Turn, number: int, request: dict[str, Any]) -> Iterable[Event]:
        raise NotImplementedError

    def is_main(self, path: str, request: dict[str, Any]) -> bool:
        return bool(request.get("tools"))

    def is_call(self, path: str) -> bool:
        raise NotImplementedError

    def other(self, path: str, request: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """What else the program may ask for."""
        return 404, {"error": {"message": f"no such path {path}"}}

    def reply(self, path: str, request: dict[str, Any], key: str) -> tuple[Turn, int]:
        with self._lock:
            self.keys.append(key)
            if not self.is_main(path, request):
                self.asides.append(request)
                self.answered.append(self.aside)
                return self.aside, 1_000 + len(self.asides)
            self.before()
            self.asked.append(request)
            turn = self.script[min(len(self.asked), len(self.script)) - 1]
            if turn.status == 200:
                self.answered.append(turn)
            return turn, len(self.asked)

    @property
    def billed(self) -> list[tuple[int, int, int]]:
        """(input with cache, of it cached, output) of every answer."""
        return [(turn.fresh + turn.cached, turn.cached, turn.output) for turn in self.answered]

    @property
    def totals(self) -> tuple[int, int, int]:
        sent, cached, made = zip(*self.billed, strict=True)
        return sum(sent), sum(cached), sum(made)


def _handler(owner: ScriptedServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            owner.paths.append(f"GET {self.path}")
            self.send_json(*owner.other(self.path.partition("?")[0], {}))

        def do_POST(self) -> None:
            owner.paths.append(f"POST {self.path}")
            path = self.path.partition("?")[0]
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            request = json.loads(raw or b"{}")
            if not owner.is_call(path):
                self.send_json(*owner.other(path, request))
                return
            turn, number = owner.reply(path, request, self.headers.get(owner.key_header, ""))
            if turn.status != 200:
                self.send_json(turn.status, {"type": "error", "error": {"type": "api_error", "message": turn.text}})
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            for name, data in owner.events_of(turn, number, request):
                head = f"event: {name}\n" if name else ""
                self.wfile.write(f"{head}data: {json.dumps(data)}\n\n".encode())
                self.wfile.flush()
            self.close_connection = True

        def send_json(self, status: int, value: Mapping[str, Any]) -> None:
            content = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: object) -> None:
            pass

    return Handler
