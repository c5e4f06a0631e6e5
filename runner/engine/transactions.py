"""The transactions of a recorder: one value each, in the order of `runner.protocols.recorder.Recorder`'s methods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from runner.base.types import AttemptResult, Decision, File, ModelReply, ModelRequest, Trajectory, TrialSlot, Usage
from runner.protocols.recorder import Decided, Frozen, Refused, Seeded, Skipped, TrialDone


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
    """An entry that stands for itself."""

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
