"""The pool of connections of a worker with many threads."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).resolve().parents[3]
ASK = """
import time
import django
django.setup()
from django.db import OperationalError, connection
from benchapp.record.pooling import give_back, share_connections
share_connections()
while True:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        print("answered", flush=True)
    except OperationalError:
        pass
    give_back()
    time.sleep(0.1)
"""


class Way:
    """To a server, by an address of its own. It can be cut."""

    def __init__(self, host: str, port: int) -> None:
        self.target, self.cut, self.open = (host, port), False, set[socket.socket]()
        self.door = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            near, _ = self.door.accept()
            if self.cut:
                near.close()
                continue
            far = socket.create_connection(self.target)
            self.open |= {near, far}
            for pair in ((near, far), (far, near)):
                threading.Thread(target=self._pass, args=pair, daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while part := source.recv(65_536):
                target.sendall(part)
        target.close()

    def break_off(self) -> None:
        self.cut = True
        for each in self.open:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


@pytest.mark.slow
@pytest.mark.postgresql
def test_threads_go_on_soon_after_a_server_that_was_gone_for_long() -> None:
    url = urlsplit(os.environ["TEST_POSTGRESQL_URL"])
    way = Way(url.hostname or "", url.port or 5432)
    login = url.netloc.rpartition("@")[0]
    near = url._replace(netloc=f"{login}@127.0.0.1:{way.door.getsockname()[1]}").geturl()
    environment = {**os.environ, "DATABASE_URL": near, "DJANGO_SETTINGS_MODULE": "benchapp.settings"}
    process = subprocess.Popen(
        [sys.executable, "-c", ASK], cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout
    try:
        assert process.stdout.readline() == b"answered\n"
        way.break_off()
        time.sleep(20)  # without a limit the pool tries after 1, 3, 7, 15 and 31 seconds
        os.set_blocking(process.stdout.fileno(), False)
        while process.stdout.read():  # its output so far
            pass
        os.set_blocking(process.stdout.fileno(), True)
        way.cut, began = False, time.monotonic()
        assert process.stdout.readline() == b"answered\n"
        assert time.monotonic() - began < 7
    finally:
        process.kill()
        process.wait()
