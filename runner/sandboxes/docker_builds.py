"""Building an image within bounds: memory, share of the processors, time, and the room left on the engine's disk."""

from __future__ import annotations

import os
import re
import shutil
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from runner.errors import SandboxError
from runner.sandboxes.docker_build_errors import build_error
from runner.sandboxes.docker_contexts import Context
from runner.sandboxes.docker_engine import FAILURES, engine_errors, first_line, told
from runner.sandboxes.docker_limits import LIMITS
from runner.types import Machine

MAX_LOG_CHARS = 200_000
LEAST_MEMORY_MB = 4_096  # compilers and package managers need more than what they make
_SHARES = 512  # half of what an attempt has: it is attempts that are timed
_PAUSE = 0.5  # seconds between two looks at clock and disk


def build(client: Any, context: Context, machine: Machine, name: str, labels: dict[str, str]) -> None:
    """The image under its name on the engine. SandboxError, with the log, when it cannot be built within its bounds;
    ImageError where it never can."""
    log, memory = _Log(), max(machine.memory_mb, LEAST_MEMORY_MB)
    watch = BuildWatch(client, machine.build_timeout_seconds)
    if full := watch.full():
        raise SandboxError(f"{context.folder}: its image is not built: {full}")
    try:
        with watch:
            rows = client.build(
                fileobj=context.stream(),
                custom_context=True,
                tag=name,
                labels=labels,
                rm=True,
                forcerm=True,
                decode=True,
                timeout=machine.build_timeout_seconds,  # of silence, where the watch cannot end it
                container_limits={"memory": memory << 20, "memswap": memory << 20, "cpushares": _SHARES},
            )
            error = _follow(rows, log)
    except (*FAILURES, ValueError) as raised:
        error = str(getattr(raised, "explanation", None) or first_line(raised))
        if "timed out" in str(raised).lower():
            watch.breach = watch.breach or watch.late
    if watch.breach:
        raise SandboxError(f"{context.folder}: the image {watch.breach}", log.text)
    if error is not None:
        raise build_error(_why(context, error, memory), error, log.text)


class BuildWatch:
    """While it is entered, a thread ends the build at its time limit or when the engine's disk runs full, whether the
    build says something or not: the engine gives up a build whose asker is gone. `breach` then says why."""

    def __init__(self, client: Any, seconds: float) -> None:
        self.client, self.seconds = client, seconds
        self.late = f"was not built within {seconds:g} s"
        self.breach: str | None = None
        self._root = _engine_folder(client)
        self._responses: list[Any] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="build-watch", daemon=True)

    def __enter__(self) -> None:
        self._until = time.monotonic() + self.seconds
        self.client.hooks["response"].append(self._keep)
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self.client.hooks["response"].remove(self._keep)

    def _keep(self, response: Any, **_: object) -> None:
        self._responses.append(response)

    def full(self) -> str | None:
        """Is there too little room left? None also where the engine's disk cannot be seen from here."""
        if self._root is None or shutil.disk_usage(self._root).free >= LIMITS.free_bytes:
            return None
        return f"less than {LIMITS.free_bytes // 2**20:,} MiB are left on the engine's disk"

    def _watch(self) -> None:
        while not self._stop.wait(_PAUSE):
            if self.breach is None and time.monotonic() > self._until:
                self.breach = self.late
            if self.breach is None and (full := self.full()):
                self.breach = f"was not built to its end: {full}"
            if self.breach is not None and self._leave():
                return

    def _leave(self) -> bool:
        """False while the context is still on its way: there is no answer yet to turn away from."""
        if not self._responses:
            return False
        with suppress(OSError, AttributeError):  # it ended by itself
            stream = self.client._get_raw_response_socket(self._responses[-1])
            getattr(stream, "_sock", stream).shutdown(socket.SHUT_RDWR)
        return True


def _engine_folder(client: Any) -> Path | None:
    """Where the engine keeps its images, if that can be read from here."""
    with engine_errors("asking the engine for its folder"):
        folder = str(client.info().get("DockerRootDir") or "")
    return Path(folder) if folder and os.access(folder, os.R_OK | os.X_OK) else None


def _follow(rows: Any, log: _Log) -> str | None:
    """The engine's messages to the end. What it says went wrong, or None."""
    for row in rows:
        log.add(str(row.get("stream") or row.get("status") or row.get("error") or ""))
        if "error" in row:
            return str(row["error"])
    return None


_NO_BASE = re.compile(
    r"pull access denied|manifest .*(unknown|not found)|lookup .*no such host|dial tcp|i/o timeout", re.I
)


def _why(context: Context, error: str, memory: int) -> str:
    if _NO_BASE.search(error):
        bases = ", ".join(context.bases)
        return f"{context.folder}: an image that its Dockerfile builds on ({bases}) is not on the engine and cannot be fetched: {error}"
    if error.rstrip().endswith(": 137"):  # killed
        error += f" (a build has {memory:,} MiB of memory; it may need more, which memory_mb of task.toml gives)"
    return told(f"{context.folder}: its image cannot be built", error)


class _Log:
    """The last MAX_LOG_CHARS characters of what a build said."""

    def __init__(self) -> None:
        self.text = ""

    def add(self, piece: str) -> None:
        self.text = (self.text + piece)[-MAX_LOG_CHARS:]
