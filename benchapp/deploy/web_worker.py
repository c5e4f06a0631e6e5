"""A gunicorn worker that gives a thread only to complete requests.

gunicorn's threaded worker reads head and body in a thread, as slowly as the client sends them: a few clients that send
half a request each take every thread. Here the main loop collects the bytes, and a thread never waits for a client's
next byte. What waits is bounded in number, bytes and time; when the room is used up, the longest waiting connection is
closed. Bodies beyond `DATA_UPLOAD_MAX_MEMORY_SIZE` and bodies of unknown length are refused unread.

Built on gunicorn's ThreadWorker, whose threads still do the work: `accept` and `finish_request` are replaced.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import struct
import time
from concurrent.futures import Future
from functools import partial
from http import HTTPStatus
from typing import Any

from django.conf import settings
from gunicorn.http import RequestParser, get_parser
from gunicorn.http.body import LengthReader
from gunicorn.http.errors import NoMoreData
from gunicorn.workers.gthread import TConn, ThreadWorker

MAX_HEAD = 64 * 1024
MAX_WAITING = 64 * 1024 * 1024  # bytes of incomplete requests
REQUEST_SECONDS = 60  # from the first byte to the last
LINGER_SECONDS = 2  # for a client to read its answer before the connection is cut
SEND_SECONDS = 20  # for one piece of an answer to find room on its way
PIECE = 256 * 1024
END_OF_HEAD = b"\r\n\r\n"


class Connection(TConn):
    """`received`: of the next request. `total`: its length, 0 while its head is incomplete. `is_over`: nothing
    follows."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.received = bytearray()
        self.total = 0
        self.deadline = 0.0
        self.is_over = False


class WebWorker(ThreadWorker):
    """`waiting`: connections with an incomplete request, the longest waiting first."""

    def init_process(self) -> None:
        self.waiting: dict[Connection, None] = {}
        super().init_process()

    def accept(self, listener: socket.socket) -> None:
        """Accept a client; if all places are taken, the longest waiting one is closed."""
        try:
            client, address = listener.accept()
        except OSError:  # another worker was faster, the client is gone, or no file is left: the loop retries
            return
        self.nr_conns += 1
        if self.nr_conns >= self.worker_connections and self.waiting:
            self._drop(next(iter(self.waiting)))
        # Limit a thread's own reads and writes, so that a stalled client cannot hold it forever.
        for limit in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            client.setsockopt(socket.SOL_SOCKET, limit, struct.pack("ll", SEND_SECONDS, 0))
        self._wait(Connection(self.cfg, client, address, listener.getsockname()), REQUEST_SECONDS)

    def finish_request(  # type: ignore[override]  # `accept` makes no other connections
        self, conn: Connection, fs: Future[bool]
    ) -> None:
        """Wait, after an answer, for the next request, or for the client to read the last one to its end."""
        if fs.cancelled() or fs.exception() or not fs.result():
            self._end(conn)
        elif conn.received:
            self._wait(conn, REQUEST_SECONDS)
            self._look_at(conn)
        else:
            self._wait(conn, self.cfg.keepalive)

    def murder_pending(self) -> None:
        """Called by gunicorn once a second, also while it stops."""
        now = time.monotonic()
        for conn in list(self.waiting):
            if not self.alive:
                conn.deadline = min(conn.deadline, now + LINGER_SECONDS)
            if conn.deadline <= now:
                self._drop(conn)

    def _wait(self, conn: Connection, seconds: float) -> None:
        conn.sock.setblocking(False)
        conn.deadline = time.monotonic() + seconds
        self.waiting[conn] = None
        self.poller.register(conn.sock, selectors.EVENT_READ, partial(self._receive, conn))

    def _receive(self, conn: Connection, client: socket.socket) -> None:
        if conn not in self.waiting:  # dropped since the loop saw it
            return
        try:
            piece = client.recv(PIECE)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        if not piece:
            self._drop(conn)
        elif not conn.is_over:
            if not conn.received:
                conn.deadline = time.monotonic() + REQUEST_SECONDS
            conn.received += piece
            self._look_at(conn)

    def _look_at(self, conn: Connection) -> None:
        """Hand a complete request to a thread, and refuse one that never will be."""
        if not conn.total:
            end = conn.received.find(END_OF_HEAD, 0, MAX_HEAD)
            if end < 0 and len(conn.received) < MAX_HEAD:
                return
            refusal = (
                self._measure(conn, end + len(END_OF_HEAD)) if end >= 0 else HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
            )
            if refusal:
                self._refuse(conn, refusal)
                return
        if len(conn.received) >= conn.total:
            self._hand_over(conn)
        else:
            self._make_room()

    def _measure(self, conn: Connection, head: int) -> HTTPStatus | None:
        """Set the request's length as gunicorn's own parser finds it. Return the answer if its body is refused."""
        conn.total = head
        try:
            request = next(get_parser(self.cfg, iter([bytes(conn.received[:head])]), conn.client))
        except (NoMoreData, StopIteration):
            return HTTPStatus.BAD_REQUEST
        except Exception:  # the thread meets it again and reports it
            return None
        body = request.body.reader if request.body else None
        if not isinstance(body, LengthReader):
            return HTTPStatus.LENGTH_REQUIRED
        if body.length > settings.DATA_UPLOAD_MAX_MEMORY_SIZE:
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        conn.total += body.length
        if getattr(request, "_expected_100_continue", False) and len(conn.received) == head:
            _send(conn.sock, b"HTTP/1.1 100 Continue\r\n\r\n")
        return None

    def _hand_over(self, conn: Connection) -> None:
        self._stop_waiting(conn)
        conn.init()
        conn.data_ready = True
        assert isinstance(conn.parser, RequestParser)  # neither HTTP/2 nor uwsgi is served here
        conn.parser.unreader.unread(bytes(conn.received[: conn.total]))
        del conn.received[: conn.total]
        conn.total = 0
        self.enqueue_req(conn)

    def _make_room(self) -> None:
        held = sum(len(conn.received) for conn in self.waiting)
        for conn in list(self.waiting):
            if held <= MAX_WAITING:
                return
            held -= len(conn.received)
            if conn.received:
                self._drop(conn)

    def _refuse(self, conn: Connection, status: HTTPStatus) -> None:
        body = f"{status.phrase}\n"
        head = f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n"
        self.log.info("refused a request: %d %s", status.value, status.phrase)
        _send(conn.sock, f"{head}Connection: close\r\n\r\n{body}".encode())
        self._stop_waiting(conn)
        self._end(conn)

    def _end(self, conn: Connection) -> None:
        """Announce that nothing follows, and drain what still arrives: cut at once, the answer would be lost."""
        conn.is_over = True
        conn.received.clear()
        try:
            conn.sock.shutdown(socket.SHUT_WR)
            self._wait(conn, LINGER_SECONDS)
        except (OSError, ValueError):  # the client is gone
            self.nr_conns -= 1
            conn.close()

    def _stop_waiting(self, conn: Connection) -> None:
        del self.waiting[conn]
        self.poller.unregister(conn.sock)

    def _drop(self, conn: Connection) -> None:
        self._stop_waiting(conn)
        self.nr_conns -= 1
        conn.close()


def _send(client: socket.socket, answer: bytes) -> None:
    with contextlib.suppress(OSError):  # the client is gone, or reads nothing
        client.send(answer)
