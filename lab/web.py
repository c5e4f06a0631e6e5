"""A web worker of its own for a benchmark."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Web:
    address: str
    pid: int

    def peak_megabytes(self) -> float:
        """The largest resident set of the worker so far (Linux)."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return max(_peak(int(child)) for child in children)


def _peak(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


@contextmanager
def serve() -> Iterator[Web]:
    """gunicorn with one worker on a free port, on the record of the present environment."""
    for command in (["migrate", "-v0"], ["collectstatic", "--noinput", "-v0"]):
        subprocess.run([sys.executable, "manage.py", *command], cwd=ROOT, check=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{probe.getsockname()[1]}"
    command = [sys.executable, "-m", "gunicorn", "benchapp.wsgi", "-b", place, "-w", "1", "--log-level", "error"]
    server = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "SINGLE_USER": "1"})
    try:
        _wait(f"http://{place}/index.json")
        yield Web(f"http://{place}", server.pid)
    finally:
        server.terminate()
        server.wait()


def _wait(address: str) -> None:
    for _ in range(120):
        try:
            urllib.request.urlopen(address).close()
            return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.5)
    raise SystemExit(f"{address} does not answer")
