"""The way from a sandbox that only runs commands to the model gateway in this process.

`relay.js` listens inside. One command waits for what it received and prints it, for a connection of ours to the
gateway; another hands in what the gateway answers. So it needs no network, and keys stay here.
"""

from __future__ import annotations

import base64
import json
import logging
import secrets
import select
import shlex
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from runner.base.errors import SandboxError, SetupError
from runner.base.types import File
from runner.sandboxes.archives import pack_files

_RELAY = Path(__file__).with_name("relay.js")
_PIECE = 64 * 1024
_AT_ONCE = 1 << 20  # bytes that one command hands in
_INLINE = 60_000  # of them fit into its text
_PAUSE = 0.2  # seconds: pieces of an answer that come within it travel together
_WAIT = 30.0  # seconds for a command in which the relay waits for frames
_FAILURES = 5  # in a row; then the tunnel is given up
log = logging.getLogger(__name__)


class RunsCommands(Protocol):
    """A sandbox, as the tunnel uses it. Both raise SandboxError."""

    def run(self, script: str, *, seconds: float = ...) -> str: ...
    def put_archive(self, packed: bytes, place: str) -> None: ...


class Tunnel:
    """Open it to get `url`, the gateway's address inside. `node`: the program in the sandbox that runs the relay.

    A tunnel that fails again and again is closed: the program inside then gets no answer. SetupError if the relay does
    not start, SandboxError if the sandbox fails.
    """

    def __init__(self, sandbox: RunsCommands, node: str, gateway: str) -> None:
        address = urlsplit(gateway)
        self._sandbox, self._gateway = sandbox, (str(address.hostname), int(address.port or 0))
        self._folder = f"/tmp/.skillglass-relay-{secrets.token_hex(8)}"
        self._relay = f"{node} {self._folder}/{_RELAY.name}"
        self._connections: dict[int, socket.socket] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._wake, self._woken = socket.socketpair()
        self.url = f"http://127.0.0.1:{self._start_relay()}{address.path}"
        for work in (self._inside_out, self._outside_in):
            threading.Thread(target=self._repeat, args=(work,), daemon=True, name="tunnel").start()

    def _start_relay(self) -> int:
        """Start it in a session of its own, so that it outlives this command, and return its port."""
        self._sandbox.put_archive(pack_files({_RELAY.name: File(_RELAY.read_bytes())}), self._folder)
        printed = self._sandbox.run(
            f"umask 077; cd {self._folder}\n"
            f"$(command -v setsid || echo nohup) {self._relay} serve {self._folder} > port 2> errors < /dev/null &\n"
            "n=0; until [ -s port ] || [ $n -gt 50 ]; do sleep 0.2; n=$((n + 1)); done\n"
            "cat port errors"
        ).strip()
        port = printed.partition("\n")[0].removeprefix("@@").strip()
        if not port.isdigit():
            raise SetupError(f"the way to the model gateway cannot be opened in this image: {printed[-500:]}")
        return int(port)

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
                if self._closed.is_set():
                    return
                failures += 1
                if failures >= _FAILURES:
                    log.warning("the way to the model gateway is lost: %s", error)
                    self.close()
                # Frames may be lost: end every connection, so that the program asks again and does not wait.
                numbers = list(self._connections)
                for number in numbers:
                    self._drop(number)
                with suppress(SandboxError):
                    self._give("".join(json.dumps({"of": number, "end": True}) + "\n" for number in numbers))
                self._closed.wait(1.0)

    # --- from the program to the gateway ----------------------------------------------------------------------------

    def _inside_out(self) -> None:
        printed = self._sandbox.run(f"{self._relay} exchange {self._folder} take", seconds=_WAIT)
        for line in printed.splitlines():
            if line.startswith("@@"):
                self._pass_on(json.loads(line[2:]))

    def _pass_on(self, frame: dict[str, str]) -> None:
        number = int(frame["of"])
        with self._lock:
            if number not in self._connections and "data" in frame and not self._closed.is_set():
                self._connections[number] = socket.create_connection(self._gateway)
                self._wake.send(b"x")
            connection = self._connections.get(number)
        if connection is None:
            return
        with suppress(OSError):  # the gateway has closed it; the other direction ends the program's connection
            if "data" in frame:
                connection.sendall(base64.b64decode(frame["data"]))
            elif "end" in frame:
                connection.shutdown(socket.SHUT_WR)
            else:
                self._drop(number)

    def _drop(self, number: int) -> None:
        with self._lock:
            connection = self._connections.pop(number, None)
        if connection is not None:
            connection.close()

    # --- and back ---------------------------------------------------------------------------------------------------

    def _outside_in(self) -> None:
        with self._lock:
            numbers = {connection: number for number, connection in self._connections.items()}
        ready = select.select([self._woken, *numbers], [], [], 5.0)[0]
        if self._woken in ready:
            self._woken.recv(4096)
        if answers := [numbers[one] for one in ready if one in numbers]:
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

    def _give(self, frames: str) -> None:
        name, write = f"in-{secrets.token_hex(8)}", ""
        if len(frames) <= _INLINE:
            write = f"printf %s {shlex.quote(frames)} > {self._folder}/{name} && "
        else:
            self._sandbox.put_archive(pack_files({name: File(frames.encode())}), self._folder)
        self._sandbox.run(f"{write}{self._relay} exchange {self._folder} {self._folder}/{name}")
