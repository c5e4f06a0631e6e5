"""A recorder that keeps an episode in memory, and the base of the one that keeps it in a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from runner.base.digests import EMPTY_LIBRARY, library_digest
from runner.base.errors import RunnerError
from runner.base.types import (
    AttemptResult,
    Compaction,
    CompactionKind,
    Decision,
    Files,
    ModelReply,
    ModelRequest,
    Step,
    Trajectory,
    TrialSlot,
    Usage,
    Verdict,
)
from runner.engine.toolbox import utc_now
from runner.engine.transactions import (
    AttemptAbandoned,
    AttemptFinished,
    AttemptStarted,
    CallFinished,
    CallStarted,
    DecisionMade,
    LibrarySeeded,
    Noted,
    SandboxOpened,
    Transaction,
)
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

    def aside(self) -> Mapping[TrialSlot, str]:
        return self._aside

    def reply(self, key: str) -> ModelReply | None:
        return self._replies.get(key)

    def list_interrupted(self) -> tuple[str, ...]:
        """Attempts that were started and neither finished nor abandoned."""
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
        """Nothing to do: a finished attempt holds all its steps."""

    def bill(self, attempt: str, usage: Usage, price_table: str) -> None:
        """Nothing else spends from the same budget: an attempt's usage is recorded when it ends."""

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
        """Nothing else spends from the same budget: a call's usage is recorded when it ends."""

    def finish_call(
        self,
        key: str,
        reply: ModelReply | None,
        error: BaseException | None = None,
        *,
        price_table: str = "",
        trajectories: tuple[Trajectory, ...] = (),
    ) -> None:
        told = None if error is None else f"{type(error).__name__}: {error}"
        self.commit(CallFinished(key, reply, told, self.clock(), price_table, trajectories))

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
