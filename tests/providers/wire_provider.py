"""A server on this machine that writes its replies to the socket by itself, byte for byte: for replies that no honest
server would give."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterable
from typing import Any

Writer = Callable[[socket.socket], None]


class WireProvider:
    """`answers`: what is done with the connection once a request was read, the last one for ever.
    `asked`: (path, body)."""

    def __init__(self, *answers: Writer) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            try:
                self.asked.append(_read_request(connection))
                answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                answer(connection)
            except OSError:
                pass


def _read_request(connection: socket.socket) -> tuple[str, dict[str, Any]]:
    file = connection.makefile("rb")
    path = file.readline().split()[1].decode()
    length = 0
    while (line := file.readline().strip()) != b"":
        name, _, value = line.partition(b":")
        length = int(value) if name.lower() == b"content-length" else length
    return path, json.loads(file.read(length) or b"{}")


def head(kind: str = "text/event-stream", *lines: str, status: str = "200 OK") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", f"Content-Type: {kind}", "Connection: close", *lines, "", ""]).encode()


def sends(*pieces: bytes) -> Writer:
    def write(connection: socket.socket) -> None:
        for piece in pieces:
            connection.sendall(piece)

    return write


def repeats(beginning: bytes, piece: bytes, pause: Callable[[], object] = lambda: None) -> Writer:
    """Until the other side hangs up."""

    def write(connection: socket.socket) -> None:
        connection.sendall(beginning)
        while True:
            connection.sendall(piece)
            pause()

    return write


def events(*values: Any, done: bool = False) -> bytes:
    """Server-sent events of these JSON values."""
    return b"".join(f"data: {json.dumps(value)}\n\n".encode() for value in values) + (
        b"data: [DONE]\n\n" if done else b""
    )


def named_events(values: Iterable[dict[str, Any]]) -> bytes:
    return b"".join(f"event: {value['type']}\ndata: {json.dumps(value)}\n\n".encode() for value in values)


def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    """One event of a streamed chat."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "r", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice], **more}
