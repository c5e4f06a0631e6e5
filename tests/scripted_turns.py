"""What a local provider answers to an agent program, turn by turn, whatever its wire format; and what it counted."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any


@dataclass(frozen=True)
class Call:
    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Turn:
    """One reply. input_tokens holds cached_tokens, output_tokens holds thinking_tokens."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    input_tokens: int = 1_000
    cached_tokens: int = 0
    output_tokens: int = 50
    thinking: str = ""
    thinking_tokens: int = 0


DONE = Turn("All done.", input_tokens=10, output_tokens=2)


@dataclass
class Count:
    """What the provider sent: its own count, which the record must equal."""

    replies: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0

    def add(self, turn: Turn) -> None:
        self.replies += 1
        self.input_tokens += turn.input_tokens
        self.cached_tokens += turn.cached_tokens
        self.output_tokens += turn.output_tokens


@dataclass(frozen=True)
class Question:
    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]


@dataclass
class ScriptedProvider:
    """Answers each request with the next turn, at the end with DONE. A subclass speaks one wire format.

    `fails_with` answers every request with that status instead.
    """

    turns: list[Turn] = field(default_factory=list)
    fails_with: int | None = None

    def __post_init__(self) -> None:
        self.asked: list[Question] = []
        self.count = Count()
        self.lock = Lock()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self.answer))
        Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def next_turn(self) -> Turn:
        with self.lock:
            turn = self.turns.pop(0) if self.turns else DONE
            self.count.add(turn)
            return turn

    def answer(self, question: Question) -> tuple[int, str, bytes]:
        """Status, content type and body."""
        self.asked.append(question)
        if self.fails_with is not None:
            return self.fails_with, "application/json", self.error(self.fails_with)
        return self.reply(question)

    def error(self, status: int) -> bytes:
        return json.dumps({"error": {"message": f"refused with {status}", "code": status}}).encode()

    def reply(self, question: Question) -> tuple[int, str, bytes]:
        raise NotImplementedError

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def events(parts: list[Mapping[str, Any]], end: str = "") -> bytes:
    """Server-sent events, one JSON object each."""
    return ("".join(f"data: {json.dumps(part)}\n\n" for part in parts) + end).encode()


def _handler(answer: Callable[[Question], tuple[int, str, bytes]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self._body()
            question = Question(self.path, dict(self.headers), json.loads(body) if body else {})
            status, kind, content = answer(question)
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
                pieces = []
                while size := int(self.rfile.readline().split(b";")[0], 16):
                    pieces.append(self.rfile.read(size))
                    self.rfile.readline()
                self.rfile.readline()
                return b"".join(pieces)
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))

        def log_message(self, *args: object) -> None:
            pass

    return Handler
