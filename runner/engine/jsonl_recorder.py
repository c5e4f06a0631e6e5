"""A recorder that keeps an episode in one file of JSON lines, for the command line.

One line is one transaction, written with a single write and synced before the engine continues. A process killed in
the middle of a write leaves an incomplete line; opening the file again drops that line and continues from there.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import cast

from runner.base.encoding import Undecodable, decode, encode
from runner.base.errors import LeaseLost, SetupError
from runner.base.types import JsonValue
from runner.engine.list_recorder import ListRecorder
from runner.engine.toolbox import utc_now
from runner.engine.transactions import Transaction
from runner.protocols.plan import EpisodePlan
from runner.sandboxes import sandbox_kind

FORMAT = "skillglass-episode/1"


class JsonLinesRecorder(ListRecorder):
    """Opens `path`, reads it and appends to it.

    LeaseLost if another process has the file open; SetupError, with file and line, if the file cannot be read or
    belongs to an episode with another setup.
    """

    def __init__(self, path: Path, plan: EpisodePlan, clock: Callable[[], datetime] = utc_now) -> None:
        super().__init__(plan, clock)
        self.path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._file)
            raise LeaseLost(f"{path}: another process is writing to this episode") from error
        try:
            self._read()
        except BaseException:
            os.close(self._file)
            raise

    def close(self) -> None:
        os.close(self._file)

    def end_interrupted(self) -> None:
        """End the attempts that a killed process left running. They stay in the record as interrupted."""
        for attempt in self.list_interrupted():
            if attempt in self.handles:
                sandbox_kind(self.plan.sandbox).end_processes(self.handles[attempt])

    def commit(self, transaction: Transaction) -> None:
        self._write(encode(transaction))
        self.apply(transaction)

    def _read(self) -> None:
        content = self.path.read_bytes()
        whole = content.rfind(b"\n") + 1
        lines = content[:whole].splitlines()
        if not lines:
            self._begin(content)
            return
        if _json(self.path, 1, lines[0]) != self._head():
            raise SetupError(
                f"{self.path}: line 1: this episode was started with another plan (expected {self._head()})"
            )
        for number, line in enumerate(lines[1:], start=2):
            try:
                self.apply(decode(cast("type[Transaction]", Transaction), _json(self.path, number, line)))
            except Undecodable as error:
                raise SetupError(f"{self.path}: line {number}: {error}") from error
        os.ftruncate(self._file, whole)

    def _begin(self, torn: bytes) -> None:
        """Start the file. An existing file may only contain the beginning of its first line."""
        if not _line(self._head()).startswith(torn):
            raise SetupError(f"{self.path}: line 1: not the record of an episode (expected {self._head()})")
        os.ftruncate(self._file, 0)
        self._write(self._head())

    def _head(self) -> dict[str, JsonValue]:
        return {
            "format": FORMAT,
            "episode": self.plan.episode,
            "condition": self.plan.condition.name,
            "run_seed": self.plan.run_seed,
            "setup_digest": self.plan.setup_digest,
        }

    def _write(self, value: JsonValue) -> None:
        data = memoryview(_line(value))
        while data:
            data = data[os.write(self._file, data) :]
        os.fsync(self._file)


def _line(value: JsonValue) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace") + b"\n"  # a lone surrogate becomes its JSON escape


def _json(path: Path, number: int, line: bytes) -> object:
    try:
        value: object = json.loads(line)
        return value
    except ValueError as error:
        raise SetupError(f"{path}: line {number}: not JSON ({error}); expected one recorded transaction") from error
