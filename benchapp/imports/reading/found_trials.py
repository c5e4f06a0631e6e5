"""Trials for readers whose sources are small files: what a trial's identity, digest and trajectory are made from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import orjson

from benchapp.imports.reading.documents import Document
from benchapp.imports.reading.found_sources import TrajectorySource, TrialSource
from benchapp.imports.reading.walking import Root
from runner.base.digests import digest_json
from runner.base.types import Check, CheckGroup, CheckStatus, JsonValue, Step, Verdict
from runner.trajectories.atif_values import ATIF_VERSION, step_to_json

MAX_OUTPUT = 10_000  # characters of a grader's output


@dataclass(slots=True)
class FoundRow:
    """A trial that a row of a file describes, or a few files (found_sources.FoundTrial). `ids`: the strongest first.
    `build` reads it. `row` and the bytes of `files` are all that decides what `build` returns."""

    root: Root
    path: str  # for people: `root.label` of its file or folder, and its place there
    ids: tuple[str, ...]
    order: tuple[str, ...]
    build: Callable[[], TrialSource]
    row: JsonValue = None
    files: tuple[Path, ...] = ()

    def digest(self) -> str:
        digest = hashlib.sha256(digest_json(self.row).encode())
        for path in self.files:
            digest.update(f"{path.name}\0{self.root.sha256(path) if self.root.is_file(path) else ''}\n".encode())
        return digest.hexdigest()

    def read(self) -> TrialSource:
        return self.build()


def of_messages(path: str, messages: Sequence[Mapping[str, JsonValue]]) -> TrajectorySource:
    """Build the trajectory of a conversation: messages with `role` and `content`, as chat models take them."""
    return of_bytes(path, dump_json(list(messages)), format="chat-messages")


def dump_json(value: object) -> bytes:
    """Return a value that was read from JSON as JSON, also with integers that the faster writer refuses."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value).encode()


def of_steps(path: str, steps: Iterable[Step], *, agent: str, version: str = "") -> TrajectorySource:
    """Build the trajectory of steps, numbered from 1. `agent`: the program that made them."""
    return of_atif(path, [step_to_json(step) for step in steps], agent=agent, version=version)


def of_atif(path: str, steps: Sequence[Mapping[str, JsonValue]], *, agent: str, version: str = "") -> TrajectorySource:
    """Build the trajectory of steps as ATIF writes them."""
    agent_info = {"name": agent, "version": version or "unknown"}
    whole = {"schema_version": ATIF_VERSION, "session_id": path, "agent": agent_info, "steps": list(steps)}
    return of_bytes(path, dump_json(whole), format="atif")


def of_bytes(path: str, content: bytes, *, format: str = "") -> TrajectorySource:
    """Build a trajectory from bytes in one of the formats that `runner.trajectories.readers` reads."""
    return TrajectorySource(path, lambda: BytesIO(content), len(content), format=format)


def graded(
    scores: Mapping[str, float],
    *,
    success: bool | None,
    reward: float | None,
    checks: Iterable[tuple[str, bool, str]] = (),
    output: str = "",
) -> Verdict:
    """Build the verdict of a tool's own grader. `checks`: (name, did it pass?, message)."""
    status = {True: CheckStatus.PASSED, False: CheckStatus.FAILED}
    made = tuple(Check(CheckGroup.TEST, name, status[passed], message) for name, passed, message in checks)
    return Verdict("grader", success, reward, checks=made, rewards=dict(scores), output=output[:MAX_OUTPUT])


def read_share(row: Document, key: str) -> float | None:
    """Return a score from 0 to 1; other values are reported. True is 1."""
    if isinstance(value := row.raw.get(key), bool):
        return float(value)
    found = row.number(key)
    if found is not None and not 0 <= found <= 1:
        row.report(key, "a score from 0 to 1", f"{found:.4g}; left out")
        return None
    return found
