"""What can come next in an episode, and how an author is sampled."""

from __future__ import annotations

from dataclasses import dataclass

from runner.base.types import AuthorMode, Role, TrialSlot, derive_seed


@dataclass(frozen=True, slots=True)
class AuthorSampling:
    """The sampling of an author, its teacher and its student, which is part of the setup as the agent's is. All
    other model parameters are in the preset."""

    temperature: float | None = 0.2  # None: none is sent
    max_tokens: int = 16_384  # of one answer


AUTHOR_SAMPLING = AuthorSampling()  # unless the experiment says otherwise


@dataclass(frozen=True, slots=True)
class SeedSkill:
    """The family's curated skill enters the library."""

    family: str


@dataclass(frozen=True, slots=True)
class SeedLibrary:
    """A recorded library enters whole, without any decision. `family`: of the first task it is tried on."""

    family: str
    snapshot: str


@dataclass(frozen=True, slots=True)
class RunTrial:
    """An attempt at a trial is due."""

    slot: TrialSlot
    family: str
    role: Role | None
    snapshot: str  # the library the agent may read
    retrieved: tuple[TrialSlot, ...] = ()  # the trials whose compactions it is shown, oldest first
    library: bool = False  # is the agent shown a library?


@dataclass(frozen=True, slots=True)
class Ask:
    """One answer is wanted from the skill author."""

    mode: AuthorMode
    family: str
    after_trial: TrialSlot | None  # None: before the family's first trial
    answer: int
    tier3_required: bool = False
    evidence: tuple[TrialSlot, ...] = ()  # trials shown to the author, oldest first
    task: str = ""  # key of the task whose text the author is shown; "": of none
    further: tuple[str, ...] = ()  # keys of further tasks of the same kind whose texts it is shown

    @property
    def key(self) -> str:
        """Name the model call of this answer, so that a committed reply is found again after a crash."""
        return f"{self.mode}/{self.family}/{self.after_trial or 'start'}/{self.answer}"

    def seed(self, run_seed: int) -> int:
        return derive_seed(run_seed, self.key, "author")


@dataclass(frozen=True, slots=True)
class Freeze:
    """The library is due to be sealed."""


NextStep = SeedSkill | SeedLibrary | RunTrial | Ask | Freeze
