"""One `driver.py` for all of Harbor's environments of this process: questions out, answers in."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NoAnswer
from pathlib import Path
from typing import cast

from runner.base.errors import SandboxError
from runner.sandboxes.harbor.harbor_jobs import find_harbor, find_python, make_environment

_PROGRAM = Path(__file__).with_name("driver.py")
_PATIENCE = 180.0  # seconds for an answer on top of the time that the work itself may take
_MESSAGE = 2_000  # characters kept of an error


class HarborFailed(SandboxError):
    """Harbor raised an error."""


class Driver:
    """The process, and the questions that are still open. Any thread may ask."""

    def __init__(self) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (as long as the process)
        self._numbers = itertools.count(1)
        self._open: dict[int, Future[dict[str, object]]] = {}
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [*find_python(find_harbor()), "-P", str(_PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=make_environment(),
            start_new_session=True,  # an interrupt of the worker must not stop it before it has removed everything
            text=True,
        )
        threading.Thread(target=self._read, daemon=True, name="harbor-driver").start()

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, do: str, *, seconds: float, **details: object) -> Mapping[str, object]:
        """Ask, and wait for the answer. `seconds`: how long the work may take.

        HarborFailed with Harbor's message if it fails, SandboxError without an answer in time.
        """
        number, answer = next(self._numbers), Future[dict[str, object]]()
        question = json.dumps({"id": number, "do": do, "seconds": seconds, **details})
        with self._lock:
            self._open[number] = answer
            try:
                assert self._process.stdin is not None
                self._process.stdin.write(question + "\n")
                self._process.stdin.flush()
            except OSError as error:
                del self._open[number]
                raise SandboxError(f"Harbor's driver has ended: {self._last_words()}") from error
        try:
            found = answer.result(seconds + _PATIENCE)
        except NoAnswer as error:
            self._open.pop(number, None)
            raise SandboxError(f"Harbor did not answer within {seconds + _PATIENCE:.0f} s ({do})") from error
        if "error" in found:
            raise HarborFailed(f"Harbor: {str(found['error']).strip()[-_MESSAGE:]}")
        return cast("Mapping[str, object]", found["done"])

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            found = json.loads(line)
            if waiting := self._open.pop(found["id"], None):
                waiting.set_result(found)
        self._process.wait()
        with self._lock:
            left, self._open = self._open, {}
        for waiting in left.values():
            waiting.set_exception(SandboxError(f"Harbor's driver has ended: {self._last_words()}"))

    def _last_words(self) -> str:
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - _MESSAGE))
        return self._errors.read().decode(errors="replace").strip() or f"exit code {self._process.poll()}"


_driver: tuple[int, Driver] | None = None
_starting = threading.Lock()


def driver() -> Driver:
    """The driver of this process, started if it is missing or has ended."""
    global _driver
    with _starting:
        if _driver is None or _driver[0] != os.getpid() or not _driver[1].is_alive:
            _driver = (os.getpid(), Driver())
        return _driver[1]
