"""What a command said is kept, also where the engine is late to hand it over."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

import pytest
from docker import APIClient

from runner.sandboxes.docker.docker_exec import RunningCommand


class EndedAtOnce:
    """An engine that reports each command as ended, and returns its output through `stream`. `begins`: when it starts
    the command."""

    def __init__(self, stream: socket.socket, begins: float = 0.0) -> None:
        self.stream, self.begins = stream, begins

    def exec_create(self, *_: Any, **__: Any) -> dict[str, str]:
        return {"Id": "e"}

    def exec_start(self, *_: Any, **__: Any) -> socket.socket:
        return self.stream

    def exec_inspect(self, _: str) -> dict[str, Any]:
        return {"Running": False, "ExitCode": 0 if time.monotonic() >= self.begins else None}


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The engine's end of a stream, and ours."""
    theirs, ours = socket.socketpair()
    yield theirs, ours
    theirs.close()
    ours.close()


def follow(stream: socket.socket, begins: float = 0.0) -> str:
    return run(cast(APIClient, EndedAtOnce(stream, begins)))


def run(client: APIClient) -> str:
    command = RunningCommand(client, "c", "ls", folder="/", user="0", environment={})
    return command.follow(1_000, time.monotonic() + 30).text


def say(stream: socket.socket, text: bytes) -> None:
    stream.sendall(struct.pack(">BxxxL", 1, len(text)) + text)


def test_what_comes_after_the_command_ended_is_kept(ends: tuple[socket.socket, socket.socket]) -> None:
    theirs, ours = ends

    def hand_over() -> None:
        time.sleep(0.3)  # longer than a look at the stream takes
        say(theirs, b"12\ntold\n")
        theirs.close()

    late = threading.Thread(target=hand_over)
    late.start()
    assert follow(ours) == "told\n"
    late.join()


def test_a_stream_that_a_child_holds_open_is_left(ends: tuple[socket.socket, socket.socket]) -> None:
    theirs, ours = ends
    say(theirs, b"12\ntold\n")
    assert follow(ours) == "told\n"


def test_a_command_that_the_engine_has_yet_to_start_has_not_ended(ends: tuple[socket.socket, socket.socket]) -> None:
    """It opens the stream first, and starts the command when it gets to it."""
    theirs, ours = ends

    def hand_over() -> None:
        time.sleep(1.6)  # longer than the moment that an ended command's stream is read on
        say(theirs, b"12\ntold\n")
        theirs.close()

    threading.Thread(target=hand_over).start()
    assert follow(ours, begins=time.monotonic() + 1.5) == "told\n"


class HastyEngine(BaseHTTPRequestHandler):
    """Docker's own addresses. The output comes in one piece with the head of the answer,
    as where the client is slow to read it."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path.endswith("/start"):
            head = b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
            self.wfile.write(head + struct.pack(">BxxxL", 1, 8) + b"12\ntold\n")
            self.close_connection = True
        else:
            self._answer({"Id": "e"})

    def do_GET(self) -> None:
        self._answer({"Running": False, "ExitCode": 0})

    def _answer(self, value: dict[str, Any]) -> None:
        content = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


def test_what_comes_with_the_head_of_the_answer_is_kept() -> None:
    """The client's HTTP reader takes it off the stream: a busy machine lost the whole output of a short command so."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), HastyEngine)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    client = APIClient(f"tcp://127.0.0.1:{server.server_port}", version="1.44")
    try:
        assert [run(client) for _ in range(5)] == ["told\n"] * 5
    finally:
        client.close()
        server.shutdown()
        server.server_close()
