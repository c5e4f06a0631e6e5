"""The web process by itself, with real sockets: what a client leaves half-sent must not take the pages from others."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
HEAD = b"Host: 127.0.0.1\r\nCookie: csrftoken=" + b"a" * 32 + b"\r\n"
CROWD = 200
MIB = 1024 * 1024

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a gunicorn under the project's settings, with one process of two threads."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number = probe.getsockname()[1]
    own = {"SKILLGLASS_VAR": str(tmp_path_factory.mktemp("var")), "REDIS_URL": "redis://127.0.0.1:1/0"}
    own |= {"PORT": str(number), "WEB_PROCESSES": "1", "WEB_THREADS": "2", "SINGLE_USER": "0", "LOG_LEVEL": "WARNING"}
    command = [sys.executable, "-m", "gunicorn", "-c", "python:benchapp.gunicorn_settings", "benchapp.wsgi"]
    environment = {**os.environ, **own, "DJANGO_SETTINGS_MODULE": "benchapp.settings"}
    subprocess.run(
        [sys.executable, "manage.py", "collectstatic", "--noinput", "-v0"], cwd=ROOT, env=environment, check=True
    )
    web = subprocess.Popen(command, cwd=ROOT, env=environment)
    try:
        for _ in range(300):
            try:
                socket.create_connection(("127.0.0.1", number), timeout=1).close()
                break
            except OSError:
                time.sleep(0.1)
        yield number
    finally:
        web.kill()  # the workers notice that their parent is gone
        web.wait()


def talk(port: int, *pieces: bytes, pause: float = 0.0) -> bytes:
    """What is answered to these pieces until the server ends the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        try:
            for piece in pieces:
                client.sendall(piece)
                time.sleep(pause)
        except (BrokenPipeError, ConnectionResetError):  # refused while we were still sending
            pass
        answer = b""
        while piece := client.recv(65536):
            answer += piece
        return answer


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def healthz(port: int) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", "/healthz", headers={"Host": "127.0.0.1"})
        return connection.getresponse().status
    finally:
        connection.close()


def crowd(stack: ExitStack, port: int, sent: bytes, size: int = CROWD) -> None:
    """So many clients that sent this and nothing more, until the stack is left."""
    for _ in range(size):
        client = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
        client.sendall(sent)


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A", id="half-a-head"),
        pytest.param(b"POST /login/ HTTP/1.1\r\n" + HEAD + b"Content-Length: 5000\r\n\r\nusername=", id="half-a-body"),
        pytest.param(
            b"POST /login/ HTTP/1.1\r\n" + HEAD + b"Transfer-Encoding: chunked\r\n\r\nff\r\nabc", id="half-a-chunk"
        ),
        pytest.param(b"POST /login/ HTTP/1.1\r\n" + HEAD + b"Content-Length: 9999999999\r\n\r\n", id="a-huge-promise"),
        pytest.param(b"GET /healthz HTTP/1.1\r\n" + HEAD + b"\r\nGET /healthz HTTP/1.1\r\nHo", id="half-a-second"),
        pytest.param(b"GET /healthz HTTP/1.1\r\n" + HEAD + b"Connection: close\r\n\r\n", id="answers-nobody-fetches"),
    ],
)
def test_a_crowd_that_says_half_of_what_it_wants_keeps_nobody_else_out(port: int, sent: bytes) -> None:
    with ExitStack() as stack:
        crowd(stack, port, sent)
        assert healthz(port) == 200


def test_more_clients_than_there_are_places_keep_nobody_else_out(port: int) -> None:
    with ExitStack() as stack:
        crowd(stack, port, b"GET /healthz HTTP/1.1\r\n", size=800)
        assert healthz(port) == 200


def test_a_crowd_of_large_half_sent_bodies_keeps_no_body_out(port: int) -> None:
    with ExitStack() as stack:
        crowd(
            stack, port, b"POST /login/ HTTP/1.1\r\n" + HEAD + b"Content-Length: 4000000\r\n\r\n" + b"a" * MIB, size=90
        )
        whole = (
            b"POST /login/ HTTP/1.1\r\n"
            + HEAD
            + b"Connection: close\r\nContent-Length: 100000\r\n\r\n"
            + b"a" * 100_000
        )
        assert status(talk(port, whole)) == 403  # without the form's token


def test_a_request_in_small_pieces_is_answered(port: int) -> None:
    request = b"POST /login/ HTTP/1.1\r\n" + HEAD + b"Connection: close\r\nContent-Length: 11\r\n\r\nusername=ad"
    pieces = [request[start : start + 16] for start in range(0, len(request), 16)]
    assert status(talk(port, *pieces, pause=0.01)) == 403


def test_requests_sent_at_once_are_answered_one_after_the_other(port: int) -> None:
    first = b"GET /healthz HTTP/1.1\r\n" + HEAD + b"\r\n"
    last = b"GET /healthz HTTP/1.1\r\n" + HEAD + b"Connection: close\r\n\r\n"
    assert talk(port, first + first + last).count(b"HTTP/1.1 200 OK") == 3


def test_a_client_that_waits_for_leave_to_send_its_body_gets_it(port: int) -> None:
    head = (
        b"POST /login/ HTTP/1.1\r\n" + HEAD + b"Connection: close\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(head)
        assert client.recv(1024).startswith(b"HTTP/1.1 100 ")


@pytest.mark.parametrize("path", ["/login/", "/review/codebooks/new/", "/nowhere/"])
def test_a_body_over_the_limit_is_refused_before_it_is_read(port: int, path: str) -> None:
    head = b"POST " + path.encode() + b" HTTP/1.1\r\n" + HEAD
    assert status(talk(port, head + b"Content-Length: 6000000\r\n\r\n")) == 413
    assert status(talk(port, head + b"Content-Length: 6000000\r\n\r\n", *[b"a" * MIB] * 6)) == 413


def test_a_body_of_unknown_length_is_refused(port: int) -> None:
    head = b"POST /login/ HTTP/1.1\r\n" + HEAD
    assert status(talk(port, head + b"Transfer-Encoding: chunked\r\n\r\n", b"400\r\n" + b"a" * 1024 + b"\r\n")) == 411


def test_an_endless_head_is_refused(port: int) -> None:
    assert status(talk(port, b"GET /healthz HTTP/1.1\r\n", *[b"X-A: " + b"a" * 8000 + b"\r\n"] * 20)) == 431


@pytest.mark.parametrize("name", ["SCRIPT_NAME", "Script-Name", "PATH_INFO"])
def test_a_client_does_not_say_below_which_path_the_pages_lie(port: int, name: str) -> None:
    asked = f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n{name}: /elsewhere\r\n\r\n"
    assert status(talk(port, asked.encode())) == 200


def test_a_malformed_head_is_answered_as_one(port: int) -> None:
    assert status(talk(port, b"POST /login/ HTTP/1.1\r\n" + HEAD + b"Content-Length: many\r\n\r\n")) == 400
    assert status(talk(port, b"nonsense\r\n\r\n")) == 400
