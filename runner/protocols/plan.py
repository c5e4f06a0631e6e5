"""Everything one episode needs to know beforehand, and what can come next in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import comb

from runner.agents import Limits
from runner.authoring.occasion import FeedbackLevel, Profile
from runner.base.errors import SetupError
from runner.base.types import AuthorMode, Environment, Family, Role, Task, TrialSlot, derive_seed
from runner.protocols.conditions import Condition
from runner.protocols.instruction import Notice
from runner.protocols.registry import protocol_module


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


# In reading order. `no_corpus` replaces `no_skill` if a task has a corpus.
CHECKS = ("solution", "untouched", "trap", "no_skill", "no_corpus", "with_corpus", "reference")


@dataclass(frozen=True, slots=True)
class Rule:
    """From `least` to `most` of `runs` runs pass."""

    runs: int
    least: int
    most: int

    def __str__(self) -> str:
        if self.least == self.most:
            return f"{self.least} of {self.runs}"
        return f"at least {self.least} of {self.runs}" if self.least else f"at most {self.most} of {self.runs}"

    def is_kept(self, passed: int, failed: int) -> bool | None:
        """None while runs without a verdict (still open, skipped, unscored) could decide it.

        A settled result is the result of all runs: stopping here adds no error to that of the rule itself.
        """
        left = self.runs - passed - failed
        if passed > self.most or passed + left < self.least:
            return False
        return True if passed >= self.least and passed + left <= self.most else None

    def chance(self, rate: float) -> float:
        """The probability that a task whose runs pass at this rate is found to keep the rule: the binomial."""
        counts = range(self.least, self.most + 1)
        return sum(comb(self.runs, k) * rate**k * (1 - rate) ** (self.runs - k) for k in counts)


# SkillLearnBench appendix M (100 steps) and N (1,800 seconds); tokens of one reply as SkillGenBench's appendix B.
AUTHOR_LIMITS = Limits(max_turns=100, max_output_tokens=16_384, timeout_seconds=1_800.0)


@dataclass(frozen=True, slots=True)
class Probe:
    """The request of the protocol `probe`: these tasks, with this library frozen from the start."""

    library: str  # digest of a recorded snapshot
    tasks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EpisodePlan:
    """A plan never changes while its episode runs: the history is read against it.

    `setup_digest` is computed at launch (`runner.engine.setup`). `answers` is how often the author may answer one
    occasion, 1 plus the retries. `samples` repeats deployment and replay trials; acquisition runs once, because its
    trials feed the author. SetupError if the parts contradict each other.
    """

    episode: str
    environment: Environment
    condition: Condition
    run_seed: int
    setup_digest: str
    agent: str
    agent_model: str | None = None
    author_model: str | None = None
    author_agent: str | None = None  # works for the author's answers; None: its model is asked once for each
    author_limits: Limits = AUTHOR_LIMITS  # of each session of the author's agent
    judge_model: str | None = None  # asked about artifacts of tasks that declare a judge
    sandbox: str = "local"
    protocol: str = "skillevolbench"
    feedback: FeedbackLevel = "process"
    profile: Profile = "paper"  # how the author's contract is enforced
    notice: Notice = "ours"  # what the agent reads about its library
    author_sampling: AuthorSampling = AUTHOR_SAMPLING
    answers: int = 1
    samples: int = 1
    placebo_replay: bool = False
    limits: Limits = Limits()
    record_calls: bool = False  # keep every call the agent makes on the host, for a recording of the run
    probe: Probe | None = None  # of the protocol `probe` alone
    rules: Mapping[str, Rule] | None = None  # of the protocol `qualification` alone, by the names of `CHECKS`

    def __post_init__(self) -> None:
        if self.answers < 1 or self.samples < 1:
            raise SetupError(f"answers and samples must be at least 1, not {self.answers} and {self.samples}")
        if self.probe is not None and self.protocol != "probe":
            raise SetupError(f"{self.protocol} learns its library: only a probe is given one")
        if (self.rules is not None) is not (self.protocol == "qualification"):
            raise SetupError(
                f"{self.protocol}: expected rules for tasks under the protocol qualification, and only there"
            )
        protocol_module(self.protocol).check(self)

    @property
    def shown(self) -> FeedbackLevel:
        """How much of a verdict the learner sees: the condition's own level if it has one."""
        return self.condition.feedback or self.feedback

    def family(self, key: str) -> Family:
        return self.environment.family(key)

    def task(self, key: str) -> Task:
        return next(task for task in self.environment.tasks if task.key == key)
