"""What a command said is kept, also where the engine is late to hand it over."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from typing import Any, cast

import pytest
from docker import APIClient

from runner.sandboxes.docker.docker_exec import RunningCommand


class EndedAtOnce:
    """An engine that says of each command that it has ended, and hands over its output through `stream`."""

    def __init__(self, stream: socket.socket) -> None:
        self.stream = stream

    def exec_create(self, *_: Any, **__: Any) -> dict[str, str]:
        return {"Id": "e"}

    def exec_start(self, *_: Any, **__: Any) -> socket.socket:
        return self.stream

    def exec_inspect(self, _: str) -> dict[str, Any]:
        return {"Running": False, "ExitCode": 0}


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The engine's end of a stream, and ours."""
    theirs, ours = socket.socketpair()
    yield theirs, ours
    theirs.close()
    ours.close()


def follow(stream: socket.socket) -> str:
    client = cast(APIClient, EndedAtOnce(stream))
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
