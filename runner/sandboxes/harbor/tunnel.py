"""The way from a sandbox that only runs commands to the model gateway in this process.

`relay.js` listens inside. What it receives is fetched by a command that waits for it, and handed to a connection of
ours to the gateway; what the gateway answers goes back by another command. So it needs no network, and keys stay here.
"""

from __future__ import annotations

import base64
import json
import logging
import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

from runner.base.errors import SandboxError

_PIECE = 64 * 1024
_AT_ONCE = 1 << 20  # bytes that one command hands in
_PAUSE = 0.2  # seconds: pieces of an answer that come within it travel together
_FAILURES = 5  # in a row; then the tunnel is given up
log = logging.getLogger(__name__)


class Tunnel:
    """`take` returns the frames that wait inside, after a while an empty list; `give` hands frames in.

    Both raise SandboxError. A tunnel that fails again and again is closed: the program inside then gets no answer.
    """

    def __init__(
        self, gateway: tuple[str, int], take: Callable[[], list[str]], give: Callable[[str], None], name: str
    ) -> None:
        self._gateway, self._take, self._give = gateway, take, give
        self._connections: dict[int, socket.socket] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._wake, self._woken = socket.socketpair()
        for work in (self._inside_out, self._outside_in):
            threading.Thread(target=self._repeat, args=(work,), daemon=True, name=f"tunnel-{name}").start()

    def close(self) -> None:
        self._closed.set()
        self._wake.send(b"x")
        with self._lock:
            connections, self._connections = self._connections, {}
        for connection in connections.values():
            connection.close()

    def _repeat(self, work: Callable[[], None]) -> None:
        failures = 0
        while not self._closed.is_set():
            try:
                work()
                failures = 0
            except (SandboxError, OSError, ValueError) as error:
                failures += 1
                if failures >= _FAILURES and not self._closed.is_set():
                    log.warning("the way to the model gateway is lost: %s", error)
                    self.close()
                self._break_off()
                self._closed.wait(1.0)

    def _break_off(self) -> None:
        """Frames may be lost: end every connection, so that the program asks again and does not wait."""
        numbers = list(self._connections)
        for number in numbers:
            self._drop(number)
        with suppress(SandboxError):
            self._give("".join(json.dumps({"of": number, "end": True}) + "\n" for number in numbers))

    def _inside_out(self) -> None:
        for line in self._take():
            frame = json.loads(line)
            number = int(frame["of"])
            connection = self._connection(number, opens="data" in frame)
            if connection is None:
                continue
            with suppress(OSError):  # the gateway has closed it; the other direction ends the program's connection
                if "data" in frame:
                    connection.sendall(base64.b64decode(frame["data"]))
                elif "end" in frame:
                    connection.shutdown(socket.SHUT_WR)
                else:
                    self._drop(number)

    def _connection(self, number: int, *, opens: bool) -> socket.socket | None:
        with self._lock:
            if number not in self._connections and opens and not self._closed.is_set():
                self._connections[number] = socket.create_connection(self._gateway)
                self._wake.send(b"x")
            return self._connections.get(number)

    def _drop(self, number: int) -> None:
        with self._lock:
            connection = self._connections.pop(number, None)
        if connection is not None:
            connection.close()

    def _outside_in(self) -> None:
        with self._lock:
            numbers = {connection: number for number, connection in self._connections.items()}
        ready = select.select([self._woken, *numbers], [], [], 5.0)[0]
        if self._woken in ready:
            self._woken.recv(4096)
        answers = [numbers[one] for one in ready if one in numbers]
        if answers:
            self._closed.wait(_PAUSE)
            self._give("".join(frame + "\n" for number in answers for frame in self._frames(number)))

    def _frames(self, number: int) -> Iterator[str]:
        connection = self._connections.get(number)
        taken = 0
        while connection is not None and taken < _AT_ONCE:
            data = b""
            with suppress(OSError):
                data = connection.recv(_PIECE)
            taken += len(data)
            if not data:
                self._drop(number)
                yield json.dumps({"of": number, "end": True})
                return
            yield json.dumps({"of": number, "data": base64.b64encode(data).decode()})
            if not select.select([connection], [], [], 0)[0]:
                return
