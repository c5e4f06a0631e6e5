"""What a recorder commits: one value per transaction, in the order of `runner.protocols.recorder.Recorder`'s methods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from runner.base.types import AttemptResult, Decision, File, ModelReply, ModelRequest, TrialSlot, Usage
from runner.protocols.recorder import Decided, Frozen, Refused, Seeded, Skipped, TrialDone


@dataclass(frozen=True, slots=True)
class AttemptStarted:
    attempt: str
    slot: TrialSlot
    snapshot: str
    retrieved: tuple[TrialSlot, ...]
    at: datetime


@dataclass(frozen=True, slots=True)
class SandboxOpened:
    attempt: str
    handle: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class AttemptFinished:
    attempt: str
    result: AttemptResult
    events: tuple[TrialDone | Refused, ...]


@dataclass(frozen=True, slots=True)
class AttemptAbandoned:
    attempt: str
    error_type: str
    message: str
    usage: Usage = Usage()


@dataclass(frozen=True, slots=True)
class CallStarted:
    key: str
    purpose: str
    model: str
    request: ModelRequest
    at: datetime


@dataclass(frozen=True, slots=True)
class CallFinished:
    key: str
    reply: ModelReply | None
    error: str | None
    at: datetime
    price_table: str = ""  # the price list behind the reply's cost


@dataclass(frozen=True, slots=True)
class LibrarySeeded:
    event: Seeded
    files: Mapping[str, File]


@dataclass(frozen=True, slots=True)
class DecisionMade:
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
