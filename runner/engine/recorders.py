"""A recorder that keeps an episode in memory, and one that keeps it in one file of JSON lines, for the command line.

In the file, one line is one transaction, written with a single write and synced before the engine continues. A
process killed in the middle of a write leaves an incomplete line; opening the file again drops that line and
continues from there."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import cast

from runner.base.digests import EMPTY_LIBRARY, library_digest
from runner.base.encoding import Undecodable, decode, encode
from runner.base.errors import LeaseLost, RunnerError, SetupError
from runner.base.types import (
    AttemptResult,
    Compaction,
    CompactionKind,
    Decision,
    File,
    Files,
    JsonValue,
    ModelReply,
    ModelRequest,
    Step,
    Trajectory,
    TrialSlot,
    Usage,
    Verdict,
)
from runner.engine.toolbox import utc_now
from runner.protocols.history import fold
from runner.protocols.plan import EpisodePlan
from runner.protocols.recorder import (
    AGENT_WROTE,
    Decided,
    Entry,
    Event,
    Frozen,
    History,
    Refused,
    Seeded,
    Skipped,
    TrialDone,
)
from runner.sandboxes import sandbox_kind


@dataclass(frozen=True, slots=True)
class AttemptStarted:
    """`Recorder.start_attempt`."""

    attempt: str
    slot: TrialSlot
    snapshot: str
    retrieved: tuple[TrialSlot, ...]
    at: datetime


@dataclass(frozen=True, slots=True)
class SandboxOpened:
    """`Recorder.note_sandbox`."""

    attempt: str
    handle: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class AttemptFinished:
    """`Recorder.finish_attempt`."""

    attempt: str
    result: AttemptResult
    events: tuple[TrialDone | Refused, ...]


@dataclass(frozen=True, slots=True)
class AttemptAbandoned:
    """`Recorder.abandon_attempt`."""

    attempt: str
    error_type: str
    message: str
    usage: Usage = Usage()


@dataclass(frozen=True, slots=True)
class CallStarted:
    """`Recorder.start_call`."""

    key: str
    purpose: str
    model: str
    request: ModelRequest
    at: datetime


@dataclass(frozen=True, slots=True)
class CallFinished:
    """`Recorder.finish_call`."""

    key: str
    reply: ModelReply | None
    error: str | None
    at: datetime
    price_table: str = ""  # the price list behind the reply's cost
    trajectories: tuple[Trajectory, ...] = ()  # of an agent that produced the reply


@dataclass(frozen=True, slots=True)
class LibrarySeeded:
    """`Recorder.seed`."""

    event: Seeded
    files: Mapping[str, File]


@dataclass(frozen=True, slots=True)
class DecisionMade:
    """`Recorder.decide`."""

    event: Decided
    decision: Decision
    files: Mapping[str, File] | None


@dataclass(frozen=True, slots=True)
class Noted:
    """An event without further rows."""

    event: Frozen | Refused | Skipped


Transaction = (
    AttemptStarted
    | SandboxOpened
    | AttemptFinished
    | AttemptAbandoned
    | CallStarted
    | CallFinished
    | LibrarySeeded
    | DecisionMade
    | Noted
)


class ListRecorder:
    """Every write is one transaction through `commit`; everything readable is built from the transactions."""

    def __init__(self, plan: EpisodePlan, clock: Callable[[], datetime] = utc_now) -> None:
        self.plan = plan
        self.clock = clock
        self.transactions: list[Transaction] = []
        self.started: dict[str, AttemptStarted] = {}
        self.handles: dict[str, dict[str, object]] = {}
        self.results: dict[TrialSlot, AttemptResult] = {}
        self.abandoned: list[AttemptAbandoned] = []
        self.calls: list[CallStarted] = []
        self.sessions: dict[str, tuple[Trajectory, ...]] = {}  # by the call's key
        self.decisions: list[Decision] = []
        self._history: list[Entry] = []
        self._libraries: dict[str, Files] = {EMPTY_LIBRARY: {}}
        self._replies: dict[str, ModelReply] = {}
        self._ended: set[str] = set()
        self._aside: dict[TrialSlot, str] = {}  # until the process ends: a restart tries them again

    # reading

    def history(self) -> History:
        return tuple(self._history)

    def library(self, snapshot: str) -> Files:
        if snapshot not in self._libraries:
            raise RunnerError(f"no library with digest {snapshot} was recorded in {self.plan.episode}")
        return self._libraries[snapshot]

    def compaction(self, slot: TrialSlot, kind: CompactionKind) -> Compaction:
        return next(compaction for compaction in self._result(slot).compactions if compaction.kind is kind)

    def verdict(self, slot: TrialSlot) -> Verdict | None:
        return self._result(slot).verdict

    def trajectories(self, slot: TrialSlot) -> tuple[Trajectory, ...]:
        return tuple(self._result(slot).trajectories)

    def trials_set_aside(self) -> Collection[TrialSlot]:
        return self._aside

    def reasons_set_aside(self) -> Mapping[TrialSlot, str]:
        return self._aside

    def reply(self, key: str) -> ModelReply | None:
        return self._replies.get(key)

    def list_interrupted(self) -> tuple[str, ...]:
        """List attempts that were started and neither finished nor abandoned."""
        return tuple(attempt for attempt in self.started if attempt not in self._ended)

    def _result(self, slot: TrialSlot) -> AttemptResult:
        if slot not in self.results:
            raise RunnerError(f"trial {slot} has no counting attempt in {self.plan.episode}")
        return self.results[slot]

    # one trial

    def start_attempt(self, slot: TrialSlot, *, snapshot: str, retrieved: tuple[TrialSlot, ...]) -> str:
        number = 1 + sum(started.slot == slot for started in self.started.values())
        attempt = f"{slot.phase}-{slot.task}-{slot.sample}-attempt-{number}"
        self.commit(AttemptStarted(attempt, slot, snapshot, retrieved, self.clock()))
        return attempt

    def attempt_number(self, attempt: str) -> int:
        slot = self.started[attempt].slot
        return 1 + [name for name, started in self.started.items() if started.slot == slot].index(attempt)

    def note_sandbox(self, attempt: str, handle: dict[str, object]) -> None:
        self.commit(SandboxOpened(attempt, handle))

    def live_step(self, attempt: str, step: Step) -> None:
        """Do nothing: a finished attempt has all its steps."""

    def bill(self, attempt: str, usage: Usage, price_table: str) -> None:
        """Do nothing: nothing else spends from the same budget, and an attempt's usage is recorded when it ends."""

    def finish_attempt(self, attempt: str, result: AttemptResult) -> None:
        started = self.started[attempt]
        if started.slot in self.results:
            raise RunnerError(f"trial {started.slot} already has its counting attempt")
        task = self.plan.task(started.slot.task)
        success = None if result.verdict is None else result.verdict.success
        done = TrialDone(started.slot, task.family, task.role, success, started.snapshot, started.retrieved)
        writes = result.library_writes
        refused = (Refused(started.slot, writes, AGENT_WROTE),) if writes else ()
        self.commit(AttemptFinished(attempt, result, (done, *refused)))

    def abandon_attempt(self, attempt: str, error: BaseException, *, usage: Usage | None = None) -> None:
        self.commit(AttemptAbandoned(attempt, type(error).__name__, str(error), usage or Usage()))

    def set_aside(self, slot: TrialSlot, error: BaseException) -> None:
        self._aside[slot] = f"{type(error).__name__}: {error}"

    # the library

    def seed(self, family: str, files: Files) -> None:
        fold(self.history()).require_open_library(f"seed of {family}")
        self.commit(LibrarySeeded(Seeded(family, library_digest(files)), dict(files)))

    def start_call(self, key: str, *, purpose: str, model: str, request: ModelRequest) -> None:
        self.commit(CallStarted(key, purpose, model, request, self.clock()))

    def bill_call(self, key: str, usage: Usage, price_table: str) -> None:
        """Do nothing: nothing else spends from the same budget, and a call's usage is recorded when it ends."""

    def finish_call(
        self,
        key: str,
        reply: ModelReply | None,
        error: BaseException | None = None,
        *,
        price_table: str = "",
        trajectories: tuple[Trajectory, ...] = (),
    ) -> None:
        message = None if error is None else f"{type(error).__name__}: {error}"
        self.commit(CallFinished(key, reply, message, self.clock(), price_table, trajectories))

    def decide(self, decision: Decision, files: Files | None) -> None:
        fold(self.history()).require_open_library(f"decision {decision.number}")
        event = Decided(
            number=decision.number,
            round=decision.round,
            family=decision.family,
            mode=decision.mode,
            after_trial=decision.after_trial,
            answer=decision.answer,
            status=decision.status,
            snapshot=decision.after,
        )
        self.commit(DecisionMade(event, decision, None if files is None else dict(files)))

    def freeze(self, frozen: Frozen) -> None:
        self.commit(Noted(frozen))

    def refuse(self, refused: Refused) -> None:
        self.commit(Noted(refused))

    def skip(self, skipped: Skipped) -> None:
        """Leave a trial out, as an operator decided."""
        self._aside.pop(skipped.slot, None)
        self.commit(Noted(skipped))

    # transactions

    def commit(self, transaction: Transaction) -> None:
        self.apply(transaction)

    def apply(self, transaction: Transaction) -> None:
        """Apply a committed transaction to the readable state."""
        self.transactions.append(transaction)
        match transaction:
            case AttemptStarted():
                self.started[transaction.attempt] = transaction
            case SandboxOpened():
                self.handles[transaction.attempt] = dict(transaction.handle)
            case AttemptFinished():
                self._ended.add(transaction.attempt)
                self.results[self.started[transaction.attempt].slot] = transaction.result
                self._append(*transaction.events)
            case AttemptAbandoned():
                self._ended.add(transaction.attempt)
                self.abandoned.append(transaction)
            case CallStarted():
                self.calls.append(transaction)
            case CallFinished():
                if transaction.reply is not None:
                    self._replies[transaction.key] = transaction.reply
                    self.sessions[transaction.key] = transaction.trajectories
            case LibrarySeeded():
                self._libraries[transaction.event.snapshot] = transaction.files
                self._append(transaction.event)
            case DecisionMade():
                if transaction.files is not None:
                    self._libraries[transaction.event.snapshot] = transaction.files
                self.decisions.append(transaction.decision)
                self._append(transaction.event)
            case Noted():
                self._append(transaction.event)

    def _append(self, *events: Event) -> None:
        for event in events:
            self._history.append(Entry(len(self._history) + 1, event))


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
            # An existing file may only contain the beginning of its first line.
            if not _line(self._head()).startswith(content):
                raise SetupError(f"{self.path}: line 1: not the record of an episode (expected {self._head()})")
            os.ftruncate(self._file, 0)
            self._write(self._head())
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
