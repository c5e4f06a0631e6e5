"""Everything one episode needs to know beforehand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from runner.agents import Limits
from runner.authoring.occasion import FeedbackLevel, Profile
from runner.base.errors import SetupError
from runner.base.types import Environment, Family, Task
from runner.protocols.conditions import Condition
from runner.protocols.instruction import Notice
from runner.protocols.registry import protocol_module
from runner.protocols.steps import AUTHOR_SAMPLING, AuthorSampling
from runner.protocols.task_rules import Rule

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
    rules: Mapping[str, Rule] | None = None  # of the protocol `qualification` alone, by the names of task_rules.CHECKS

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
        return next(task for family in self.environment.families for task in family.tasks if task.key == key)
