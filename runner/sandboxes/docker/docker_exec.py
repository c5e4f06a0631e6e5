"""One command in a running container: its output streamed and capped, its time limited."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import IO

from docker import APIClient
from docker.errors import APIError, NotFound

from runner.base.text import join_ends
from runner.sandboxes.docker.docker_engine import FAILURES, engine_errors

# The shell prints its process id first, then becomes the command's shell. The engine makes each command the leader of a
# session of its own, so the id names the session too. $1: command, $2: folder.
_WRAPPED = 'echo $$; cd "$2" || cd /; exec /bin/sh -c "$1"'
# Kill everything in the session $1, twice: it may have forked in between. Built-in commands only.
_END_SESSION = """
for round in 1 2; do
  kill -9 -- -"$1"
  for stat in /proc/[0-9]*/stat; do
    read -r line < "$stat" || continue
    pid=${line%% *}; rest=${line##*) }
    set -- "$1" $rest
    [ "$5" = "$1" ] && kill -9 "$pid"
  done
done
"""
_READ_BYTES = 1 << 16
_STANDARD_OUTPUT = 1  # in the engine's stream
# The engine may report a command's end two seconds late if an earlier one left a child that holds its output.
_SLOWEST_NEWS = 6.0
_LONGEST_FIRST = 4_096  # bytes; without a process id in these it is not our shell, and they are output
_MOMENT = 1.0  # the engine may report a command's end before it delivers the last output
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 1.0  # between two looks at whether a silent command still runs


@dataclass(frozen=True, slots=True)
class Executed:
    """`exit_code` None: the time limit, or the container stopped. `started`: the engine could start the shell."""

    exit_code: int | None
    text: str
    timed_out: bool
    truncated: bool
    started: bool


class CommandOutput:
    """The beginning and the end of a stream of bytes. The middle is counted and dropped."""

    def __init__(self, characters: int) -> None:
        self.limit = characters
        self.total = 0
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0

    def add(self, piece: bytes) -> None:
        self.total += len(piece)
        room = 2 * self.limit - len(self._head)
        self._head += piece[:room] if room > 0 else b""
        rest = piece[max(0, room) :]
        if rest:
            self._tail.append(rest)
            self._tail_bytes += len(rest)
        while self._tail and self._tail_bytes - len(self._tail[0]) >= 2 * self.limit:
            self._tail_bytes -= len(self._tail.popleft())

    def text(self) -> tuple[str, bool]:
        """(as text, was something left out?)."""
        head, tail = bytes(self._head), b"".join(self._tail)
        missing = self.total - len(head) - len(tail)
        if not missing:  # decoded as one: a character may cross the boundary
            head, tail = head + tail, b""
        return join_ends(head.decode("utf-8", "replace"), tail.decode("utf-8", "replace"), missing, self.limit)


class Frames:
    """Splits the engine's stream: eight bytes of header (which stream, how long), then that many bytes.

    The engine copies the two streams in parallel: output of one may overtake earlier output of the other.
    """

    def __init__(self) -> None:
        self._buffer = b""
        self._source = self._left = 0

    def feed(self, content: bytes) -> list[tuple[int, bytes]]:
        """(1 for standard output, 2 for standard error; bytes)."""
        found: list[tuple[int, bytes]] = []
        content = self._buffer + content
        self._buffer = b""
        while content:
            if not self._left:
                if len(content) < 8:
                    self._buffer = content
                    break
                self._source, self._left = content[0], int.from_bytes(content[4:8], "big")
                content = content[8:]
            piece, content = content[: self._left], content[self._left :]
            self._left -= len(piece)
            if piece:
                found.append((self._source, piece))
        return found


def close_stream(stream: IO[bytes] | socket.socket) -> None:
    """Close the connection, too: the package keeps it in a cycle with its response, so it would stay open until garbage
    is collected, and a container whose output nobody reads cannot be removed."""
    with contextlib.suppress(OSError):
        if response := getattr(stream, "_response", None):
            response.close()
        stream.close()


class RunningCommand:
    """One command. Start it, then `follow` it to its end or its deadline."""

    def __init__(
        self, client: APIClient, container: str, command: str, *, folder: str, user: str, environment: Mapping[str, str]
    ) -> None:
        """Raises APIError with status 409 if the container does not run."""
        self.client, self.container = client, container
        argv = ["/bin/sh", "-c", _WRAPPED, "sh", command, folder]
        made = client.exec_create(container, argv, environment=dict(environment), user=user, stdin=False)
        self.id = str(made["Id"])
        self.stream = client.exec_start(self.id, socket=True)
        self._ahead = read_ahead(self.stream)
        self.pid: int | None = None
        self._has_no_pid = False
        self._frames = Frames()
        self._first = b""

    def follow(self, output_characters: int, deadline: float, more: Callable[[], float] = lambda: 0.0) -> Executed:
        """`more`: seconds that the command has beyond its deadline. They may grow while it runs."""
        output = CommandOutput(output_characters)
        try:
            late = self._read(output, lambda: deadline + more())
            if late:
                self._end()
                self._read_rest(output)
        finally:
            close_stream(self.stream)
        if self.pid is None and not self._has_no_pid:
            output.add(self._first)  # no shell: the output is the engine's own message
        code = None if late else self._exit_code()
        text, truncated = output.text()
        return Executed(code, text, late, truncated, self.pid is not None)

    def _read(self, output: CommandOutput, deadline: Callable[[], float]) -> bool:
        """Read until the command ends, or return True at the deadline. A remaining child may hold the stream open."""
        pause, looked = _FIRST_PAUSE, time.monotonic()
        poll = _poll(self.stream)
        self._add(self._ahead, output)
        while True:
            now = time.monotonic()
            left = deadline() - now
            if left <= 0:
                return True
            if poll.poll(1000 * min(pause, left)):
                if not self._take(output):
                    return False
                if now - looked < _LONGEST_PAUSE:
                    continue
            looked = time.monotonic()
            if not self._runs():
                self._read_rest(output)
                return False
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _read_rest(self, output: CommandOutput) -> None:
        """Read to the stream's end, but only for a moment: a child that stays may hold it open, or keep writing."""
        until = time.monotonic() + _MOMENT
        poll = _poll(self.stream)
        while (left := until - time.monotonic()) > 0:
            if poll.poll(1000 * left) and not self._take(output):
                return

    def _take(self, output: CommandOutput) -> bool:
        """Read one piece of the stream. False at its end."""
        try:
            content = (
                self.stream.recv(_READ_BYTES)
                if hasattr(self.stream, "recv")
                else os.read(self.stream.fileno(), _READ_BYTES)
            )
        except OSError:
            return False
        self._add(content, output)
        return bool(content)

    def _add(self, content: bytes, output: CommandOutput) -> None:
        for source, piece in self._frames.feed(content):
            passes = source != _STANDARD_OUTPUT or self.pid is not None or self._has_no_pid
            output.add(piece if passes else self._without_pid(piece))

    def _without_pid(self, piece: bytes) -> bytes:
        self._first += piece
        number, newline, rest = self._first.partition(b"\n")
        if newline and number.isdigit() and len(number) < 20:
            self.pid = int(number)
            self._first = b""
            return rest
        if len(self._first) < _LONGEST_FIRST:
            return b""
        self._has_no_pid = True  # a program that the agent put in the shell's place may write without end
        return self._first

    def _runs(self) -> bool:
        """A command has an exit code after its end. A busy engine opens the stream well before the command starts."""
        try:
            found = self.client.exec_inspect(self.id)
        except NotFound:
            return False
        return bool(found["Running"]) or found["ExitCode"] is None

    def _exit_code(self) -> int | None:
        """The engine knows it a moment after the stream ended."""
        for pause in (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 3.0):
            time.sleep(pause)
            try:
                found = self.client.exec_inspect(self.id)
            except NotFound:  # the container is gone, and its commands with it
                return None
            if not found["Running"]:
                code = found["ExitCode"]
                return None if code is None else int(code)
        return None

    def _end(self) -> None:
        """End the command's session or, if that fails, everything in the container."""
        if self.pid is not None:
            with contextlib.suppress(*FAILURES):
                argv = ["/bin/sh", "-c", _END_SESSION, "sh", str(self.pid)]
                ending = self.client.exec_create(self.container, argv, user="0", stdin=False)["Id"]
                with contextlib.closing(self.client.exec_start(ending, socket=True)) as stream:
                    _await_end(stream, _SLOWEST_NEWS)
            if self._ends_within(_SLOWEST_NEWS):
                return
        with engine_errors("ending a command at its time limit"), contextlib.suppress(APIError):
            self.client.kill(self.container)

    def _ends_within(self, seconds: float) -> bool:
        until = time.monotonic() + seconds
        while self._runs():
            if time.monotonic() > until:
                return False
            time.sleep(0.02)
        return True


def _poll(stream: IO[bytes] | socket.socket) -> select.poll:
    poll = select.poll()
    poll.register(stream.fileno(), select.POLLIN | select.POLLHUP | select.POLLERR)
    return poll


def read_ahead(stream: object) -> bytes:
    """Data that came with the head of the engine's answer: the client's HTTP reader took it off the stream and keeps
    it. Usually nothing. On a busy machine, the whole output of a short command."""
    response = getattr(stream, "_response", None)
    if response is None:
        return b""
    reader = response.raw._fp.fp
    connection = reader.raw._sock
    before = connection.gettimeout()
    connection.setblocking(False)  # an empty reader would wait
    try:
        return bytes(reader.read1(_READ_BYTES) or b"")
    except OSError:
        return b""
    finally:
        connection.settimeout(before)


def await_output(stream: IO[bytes] | socket.socket, seconds: float) -> None:
    """Wait until something was written, or the stream was closed, but no longer than that."""
    if not read_ahead(stream):
        _poll(stream).poll(1000 * seconds)


def _await_end(stream: IO[bytes] | socket.socket, seconds: float) -> None:
    """Wait until the stream is closed, but no longer than that: the agent may have replaced the shell."""
    until = time.monotonic() + seconds
    poll = _poll(stream)
    while (left := until - time.monotonic()) > 0:
        if poll.poll(1000 * left) and not os.read(stream.fileno(), _READ_BYTES):
            return
