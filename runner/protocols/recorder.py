"""The runner's interface to its record: what it writes, and what it reads back.

An episode's history is the only state there is: `runner.protocols.next_step(plan, history)` rebuilds everything from
it. Each entry is written in the same transaction as its rows. Work (agent, author, verifier) runs between
two short calls, so a crash leaves either a started attempt that never finished, or a committed entry.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from runner.base.types import (
    AttemptResult,
    AuthorMode,
    Compaction,
    CompactionKind,
    Decision,
    DecisionStatus,
    Files,
    ModelReply,
    ModelRequest,
    Role,
    Step,
    Trajectory,
    TrialSlot,
    Usage,
    Verdict,
)

# The purpose of a call to a model on this machine.
AGENT_CALLS = "agent"
JUDGE = "judge"
AUTHOR = "author"
STUDENT = "student"  # the author's questions to its teacher
TEACHER = "teacher"  # the teacher's advice
GENERATOR = "generator"  # a program's run in the author's place
AUTHORING = (AUTHOR, STUDENT, TEACHER, GENERATOR)


@dataclass(frozen=True, slots=True)
class Seeded:
    """The family's curated skill entered the library (its canonical task was reached)."""

    family: str
    snapshot: str  # the library after it


@dataclass(frozen=True, slots=True)
class TrialDone:
    """A trial has its counting attempt."""

    slot: TrialSlot
    family: str
    role: Role | None
    success: bool | None
    snapshot: str  # the library the agent was given
    retrieved: tuple[TrialSlot, ...] = ()  # raw-trajectory: the trials whose rough compactions it was shown


@dataclass(frozen=True, slots=True)
class Decided:
    """An author's answer was judged."""

    number: int
    round: int
    family: str
    mode: AuthorMode
    after_trial: TrialSlot | None
    answer: int
    status: DecisionStatus
    snapshot: str  # the library after it


@dataclass(frozen=True, slots=True)
class Frozen:
    """The library was sealed. `seal` covers setup and files."""

    snapshot: str
    library_digest: str
    setup_digest: str
    seal: str


# The reason of a refusal that follows from the agent's actions in its sandbox.
AGENT_WROTE = "the agent changed its private copy of the library"


@dataclass(frozen=True, slots=True)
class Refused:
    """A refused write to the library: after the freeze, or by the agent to its private copy."""

    slot: TrialSlot | None
    paths: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Skipped:
    """An operator's decision to leave an open trial out; in acquisition it taints the episode."""

    slot: TrialSlot
    reason: str


Event = Seeded | TrialDone | Decided | Frozen | Refused | Skipped


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of an episode's history. Sequences run from 1 without gaps."""

    sequence: int
    event: Event


History = tuple[Entry, ...]


class Recorder(Protocol):
    """One episode's record. Implementations: a list (tests), JSON lines (command line), rows (benchapp).

    Every writing method raises LeaseLost, and leaves nothing behind, if another worker owns the episode. `seed` and
    `decide` raise FrozenLibrary, and write nothing, after the freeze (`history.EpisodeState.require_open_library`).
    """

    # reading
    def history(self) -> History: ...
    def library(self, snapshot: str) -> Files: ...
    def compaction(self, slot: TrialSlot, kind: CompactionKind) -> Compaction:
        """The compaction of the trial's counting attempt."""
        ...

    def verdict(self, slot: TrialSlot) -> Verdict | None: ...
    def trajectories(self, slot: TrialSlot) -> tuple[Trajectory, ...]:
        """The trajectories of the trial's counting attempt, the main one first."""
        ...

    def trials_set_aside(self) -> Collection[TrialSlot]:
        """Open trials that were set aside, in the order of the plan."""
        ...

    def reasons_set_aside(self) -> Mapping[TrialSlot, str]:
        """The same trials, each with its error."""
        ...

    def reply(self, key: str) -> ModelReply | None:
        """The reply committed under this key, so that an answer is never asked for twice."""
        ...

    # one trial
    def start_attempt(self, slot: TrialSlot, *, snapshot: str, retrieved: tuple[TrialSlot, ...]) -> str:
        """Open an attempt and return its id."""
        ...

    def attempt_number(self, attempt: str) -> int:
        """Count from 1, within its trial."""
        ...

    def note_sandbox(self, attempt: str, handle: dict[str, object]) -> None:
        """Note where the attempt's processes are, so that another worker can end them."""
        ...

    def live_step(self, attempt: str, step: Step) -> None:
        """Show a step as it happens. It is not part of the record."""
        ...

    def bill(self, attempt: str, usage: Usage, price_table: str) -> None:
        """Record a running attempt's usage so far, in case its process dies, and for episodes that share its budget."""
        ...

    def finish_attempt(self, attempt: str, result: AttemptResult) -> None:
        """Attempt, trajectories, verdict, compactions, TrialDone and any Refused: one transaction."""
        ...

    def abandon_attempt(self, attempt: str, error: BaseException, *, usage: Usage | None = None) -> None:
        """The machine failed: the attempt is kept and billed, never scored, and takes no sequence number.

        usage: from the steps seen so far, without a call that never returned.
        """
        ...

    def set_aside(self, slot: TrialSlot, error: BaseException) -> None:
        """Set the trial aside, because another attempt would fail like the latest. It stays open and is not tried
        until an operator says so. No entry: nothing about the episode's state depends on it."""
        ...

    # the library
    def seed(self, family: str, files: Files) -> None:
        """Record Seeded. `files` is the whole library after it."""
        ...

    def start_call(self, key: str, *, purpose: str, model: str, request: ModelRequest) -> None: ...
    def bill_call(self, key: str, usage: Usage, price_table: str) -> None:
        """Record what a started call has used so far, if it consists of many: as `bill` does for an attempt."""
        ...

    def finish_call(
        self,
        key: str,
        reply: ModelReply | None,
        error: BaseException | None = None,
        *,
        price_table: str = "",
        trajectories: tuple[Trajectory, ...] = (),
    ) -> None:
        """`trajectories`: of the agent that produced the reply. After an error, earlier bills remain."""
        ...

    def decide(self, decision: Decision, files: Files | None) -> None:
        """Record Decided. `files` is the whole library after an applied decision, None otherwise."""
        ...

    def freeze(self, frozen: Frozen) -> None: ...
    def refuse(self, refused: Refused) -> None: ...
