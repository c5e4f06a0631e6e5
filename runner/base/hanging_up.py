"""Ending a connection when its time is over, even in the middle of an operation."""

from __future__ import annotations

import contextlib
import os
import socket
import threading


class HangUp:
    """A limit on one exchange as a whole. Use: `with HangUp(seconds) as hang_up`, then `watch` its connection.

    A limit on each read alone lets the other side send forever, for instance headers byte by byte. After `is_done`,
    what looks like the end of an answer may be our timeout.
    """

    def __init__(self, seconds: float) -> None:
        self.is_done = False
        self._sockets: list[socket.socket] = []
        self._lock = threading.Lock()
        self._timer = threading.Timer(seconds, self._hang_up)
        self._timer.daemon = True

    def __enter__(self) -> HangUp:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        with self._lock:
            for each in self._sockets:
                each.close()
            self._sockets.clear()

    def watch(self, connection: socket.socket) -> None:
        """Keep a second handle of the connection, which stays valid when TLS wraps the first."""
        with self._lock:
            self._sockets.append(socket.socket(fileno=os.dup(connection.fileno())))
            if self.is_done:
                self._shut(self._sockets[-1])

    def _hang_up(self) -> None:
        with self._lock:
            self.is_done = True
            for each in self._sockets:
                self._shut(each)

    def _shut(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
