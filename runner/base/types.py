"""The values that pass between the runner's modules. Frozen, typed, with hardly any behaviour.

Words are those of the design: a *trial* is a planned slot, an *attempt* one execution of it, a *decision* one
answer of the skill author, a *snapshot* one state of an episode's library. Texts are str, times are aware UTC
datetimes, durations are seconds, costs are US dollars, and None always means "unknown", never zero.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar

from runner.base.encoding import WRITTEN_IF_SET


class Phase(StrEnum):
    """The part of an episode that a trial belongs to."""

    ACQUISITION = "acquisition"
    DEPLOYMENT = "deployment"
    REPLAY = "replay"
    EVALUATION = "evaluation"


class Role(StrEnum):
    """SkillEvolBench's six roles (paper section 3.2); T1 to T6 of a family, in this order."""

    CANONICAL = "canonical"
    ENRICHED = "enriched"
    VARIANT = "variant"
    CONTEXT_SHIFT = "context-shift"
    ADVERSARIAL = "adversarial"
    COMPOSITION = "composition"


ACQUISITION_ROLES = (Role.CANONICAL, Role.ENRICHED, Role.VARIANT)
DEPLOYMENT_ROLES = (Role.CONTEXT_SHIFT, Role.ADVERSARIAL, Role.COMPOSITION)


@dataclass(frozen=True, slots=True)
class File:
    """One file of a library or fixture. Only the executable bit of the mode counts: 0o644 or 0o755."""

    content: bytes
    mode: int = 0o644


# A tree of files: POSIX path relative to the tree's root -> file. A library's first path part is the skill's slug.
Files = Mapping[str, File]


# A JSON value: as read from a file or a reply, not yet validated.
JsonObject: TypeAlias = "dict[str, JsonValue]"
JsonValue: TypeAlias = "str | int | float | bool | None | list[JsonValue] | dict[str, JsonValue]"


# --- suites -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Volume:
    """A folder that containers share under its name, filled from the task's folder `source` if it has one. Without a
    name: a copy of the task's file `source`."""

    target: str  # absolute, in the container
    name: str = ""
    source: Path | None = None


@dataclass(frozen=True, slots=True)
class Service:
    """A container of a task that has several, as described in its compose file, without settings considered harmful."""

    name: str
    image: str = ""  # MAIN_IMAGE: that of the agent's container; empty: built in `context`
    context: Path | None = None
    dockerfile: str = "Dockerfile"
    environment: Mapping[str, str] = field(default_factory=dict)  # values as in Machine.environment
    networks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # name -> other names of the service there
    volumes: tuple[Volume, ...] = ()
    settings: Mapping[str, JsonValue] = field(default_factory=dict)  # in Compose's words: command, healthcheck, ...


MAIN_IMAGE = "the image of the agent's container"  # not a valid name of an image


@dataclass(frozen=True, slots=True)
class Services:
    """The containers that run next to the agent's own. For that one, `main`, only networks and volumes count here."""

    main: Service
    others: tuple[Service, ...] = ()
    closed: frozenset[str] = frozenset()  # networks without a way out


@dataclass(frozen=True, slots=True)
class Machine:
    """What a task asks of the machine it runs in (task.toml, [environment]). Sizes in MiB, times in seconds.

    With a build context or a ready image the image brings the task's files. Without either, `environment/` is copied
    into the working directory of the sandbox's own base image.
    """

    context: Path | None = None  # folder with the Dockerfile
    image: str | None = None  # a ready image; with a context too, the context is built if this image is not available
    cpus: float = 1.0
    memory_mb: int = 2_048
    storage_mb: int = 10_240
    network: bool = False  # may the task's processes reach the outside?
    build_timeout_seconds: float = 600.0
    environment: Mapping[str, str] = field(default_factory=dict)  # of every process; values may be ${NAME:-default}
    host_variables: tuple[str, ...] = ()  # names the task asks of the host; see runner/base/host_variables.py
    blank_folders: tuple[str, ...] = ()  # below environment/, created or emptied
    skills_dir: str = ""  # absolute folder of the image for the task's own skills; they are left out
    workdir: str = ""  # absolute; empty: the image's own
    services: Services | None = None
    worker_labels: tuple[str, ...] = ()  # that a worker must have to run it ([metadata])

    @property
    def brings_files(self) -> bool:
        return self.context is not None or self.image is not None


@dataclass(frozen=True, slots=True)
class KeyPoint:
    """What a good skill or trajectory of a task contains: a judge is asked about it, an agent never sees it."""

    kind: str  # "skill", "trajectory" or "oracle"
    ordinal: int  # place in the list it was read from, from 0
    text: str
    reason: str = ""
    reference: str = ""  # the quoted source text


@dataclass(frozen=True, slots=True)
class VerifierPlace:
    """A container of its own for the verifier. `artifacts`: absolute paths copied from the agent's container."""

    machine: Machine
    has_tests: bool  # does its image bring /tests?
    artifacts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Stage:
    """One of several steps of a task, worked on one after the other in one container.

    `task`: with the instruction, solution and tests of this step. `min_reward`: the task ends here if one of these is
    not reached.
    """

    name: str
    task: Task
    min_reward: Mapping[str, float] = field(default_factory=dict)


# Attribute -> values, such as "difficulty" -> ("easy",): what people group results by.
TaskGroups: TypeAlias = Mapping[str, tuple[str, ...]]


class DeclaredEvaluation(Protocol):
    """How a task is judged without a tests/test.sh. `runner.evaluating.declaration` has the two ways."""

    source: ClassVar[str]  # of the verdicts


@dataclass(frozen=True, slots=True)
class Task:
    """One task revision as read from a suite. `folder` holds instruction, fixture, tests and solution on disk."""

    key: str  # unique in the suite, e.g. "E1-LS1-T1"
    title: str
    environment: str  # key of the environment
    family: str  # key of the family
    role: Role | None
    ordinal: int  # place inside the family, from 1
    instruction: str
    digest: str  # over every file of the task
    folder: Path
    agent_timeout_seconds: float = 120.0
    verifier_timeout_seconds: float = 60.0
    requires: tuple[str, ...] = ()  # families a composition task draws on, its own included
    machine: Machine = Machine()
    shared_tests: tuple[Path, ...] = ()  # files, or folders of them, that are added to the task's own tests
    verifier_environment: Mapping[str, str] = field(default_factory=dict)  # values as in Machine.environment
    solution_environment: Mapping[str, str] = field(default_factory=dict)
    evaluation: DeclaredEvaluation | None = None  # declared in tests/evaluation.toml; None: tests/test.sh decides
    key_points: tuple[KeyPoint, ...] = ()  # excluded from the digest: they do not affect the run
    practice: bool = False  # for gathering experience before a library is sealed; never among the tasks that count
    groups: TaskGroups = field(default_factory=dict)  # in no digest or prompt; see suites/tasks/task_groups.py
    verifier_place: VerifierPlace | None = None
    stages: tuple[Stage, ...] = ()
    last_stage_decides: bool = False  # else the mean of all verified stages


@dataclass(frozen=True, slots=True)
class Family:
    """Tasks that need the same skill."""

    key: str  # e.g. "E1-LS1"
    slug: str  # the slug its first skill takes
    name: str
    description: str  # all that a zero-shot author is given
    environment: str
    tasks: tuple[Task, ...]
    curated: Files = field(default_factory=dict)  # "<slug>/SKILL.md", ...; empty where none is provided


class CorpusKind(StrEnum):
    """Where a skill's procedure comes from (SkillGenBench section 3.1)."""

    REPOSITORY = "repository"
    CODE_DOCUMENT = "code-document"
    DOMAIN_DOCUMENT = "domain-document"


@dataclass(frozen=True, slots=True)
class Corpus:
    """The source material of an environment: a repository snapshot or a bundle of documents, as plain files."""

    kind: CorpusKind
    folder: Path  # on this machine; the author may read everything below it
    digest: str  # over every file of the folder


@dataclass(frozen=True, slots=True)
class Environment:
    """Families that share one library. An episode is planned over one environment."""

    key: str
    name: str
    families: tuple[Family, ...]
    corpus: Corpus | None = None

    @property
    def tasks(self) -> list[Task]:
        return [task for family in self.families for task in family.tasks]

    def family(self, key: str) -> Family:
        return next(family for family in self.families if family.key == key)


# --- slots and seeds --------------------------------------------------------------------------------------------


def derive_seed(run_seed: int, key: str, purpose: str) -> int:
    """63 bits from the run's seed and the key of a trial or call, so that a redo after a crash sees the same dice."""
    return int.from_bytes(hashlib.sha256(f"{run_seed}:{key}:{purpose}".encode()).digest()[:8], "big") >> 1


@dataclass(frozen=True, slots=True, order=True)
class TrialSlot:
    """The identity of a trial inside its episode."""

    written_as: ClassVar[str] = "Slot"
    phase: Phase
    task: str
    sample: int = 0

    def __str__(self) -> str:
        return f"{self.phase}/{self.task}/{self.sample}"

    @classmethod
    def read(cls, text: str) -> TrialSlot:
        """Parse a slot. ValueError says what was expected."""
        phase, _, rest = text.partition("/")
        task, _, sample = rest.rpartition("/")
        if phase not in set(Phase) or not task or not (sample.isascii() and sample.isdigit() and len(sample) < 9):
            raise ValueError(f"{text[:100]!r}: expected phase/task/sample, as in acquisition/E1-LS1-T1/0")
        return cls(Phase(phase), task, int(sample))

    def seed(self, run_seed: int, purpose: str = "agent") -> int:
        """Return a seed that depends only on the run's seed and the slot, so a redone attempt sees the same dice."""
        return derive_seed(run_seed, str(self), purpose)


# --- usage ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and cost. input_tokens includes cached_tokens.

    A sum is unknown if one part used something but does not give the amount: its input or output tokens are None, and
    `input_at_least` or `output_at_least` sums the known parts. In the same way, the cost is None if one part has tokens
    and no cost; `priced_usd` sums the known costs. A part without any data changes nothing: see `in_part` for a call
    that is known to have used tokens.
    """

    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    priced_usd: float | None = None  # the known part of an unknown cost
    input_at_least: int | None = None  # the same for tokens
    output_at_least: int | None = None
    # Input that the provider wrote to its cache, if a log reports it: only for estimates of cost.
    cache_written: int | None = field(default=None, compare=False, metadata=WRITTEN_IF_SET)

    def __add__(self, other: Usage) -> Usage:
        read, written, cost = self.input_tokens, self.output_tokens, self.cost_usd
        more_read, more_written, more_cost = other.input_tokens, other.output_tokens, other.cost_usd
        if read is None or written is None or cost is None:
            return self._add_in_part(other)
        if more_read is None or more_written is None or more_cost is None:
            return self._add_in_part(other)
        # True of most calls, and a trajectory has hundreds.
        cached = _sum(self.cached_tokens, other.cached_tokens)
        put = _sum(self.cache_written, other.cache_written)
        return Usage(read + more_read, cached, written + more_written, cost + more_cost, cache_written=put)

    def _add_in_part(self, other: Usage) -> Usage:
        if self == NO_USAGE:
            return other
        if other == NO_USAGE:
            return self
        read = _sum(self.known_input, other.known_input)
        written = _sum(self.known_output, other.known_output)
        cost = _sum(self.known_usd, other.known_usd)
        reads_whole = None not in (self.input_tokens, other.input_tokens)
        writes_whole = None not in (self.output_tokens, other.output_tokens)
        is_priced = not (self.is_unpriced or other.is_unpriced)
        return Usage(
            input_tokens=read if reads_whole else None,
            cached_tokens=_sum(self.cached_tokens, other.cached_tokens),
            output_tokens=written if writes_whole else None,
            cost_usd=cost if is_priced else None,
            priced_usd=None if is_priced else cost,
            input_at_least=None if reads_whole else read,
            output_at_least=None if writes_whole else written,
            cache_written=_sum(self.cache_written, other.cache_written),
        )

    def in_part(self) -> Usage:
        """The same plus a call without usage data, whose tokens and cost are missing from the sums."""
        return Usage(
            cached_tokens=self.cached_tokens,
            priced_usd=self.known_usd,
            input_at_least=self.known_input,
            output_at_least=self.known_output,
            cache_written=self.cache_written,
        )

    @property
    def known_input(self) -> int | None:
        """Lower bound of the tokens read: what a limit on tokens counts."""
        return self.input_at_least if self.input_tokens is None else self.input_tokens

    @property
    def known_output(self) -> int | None:
        return self.output_at_least if self.output_tokens is None else self.output_tokens

    @property
    def known_tokens(self) -> int:
        return (self.known_input or 0) + (self.known_output or 0)

    @property
    def known_usd(self) -> float | None:
        """Lower bound of the cost: what a budget in money counts."""
        return self.priced_usd if self.cost_usd is None else self.cost_usd

    @property
    def is_unpriced(self) -> bool:
        """Was something used whose cost is unknown, at least in part?"""
        return self.cost_usd is None and bool(self.known_tokens or self.priced_usd)


NO_USAGE = Usage()  # everything unknown


N = TypeVar("N", int, float)


def _sum(first: N | None, second: N | None) -> N | None:
    """Missing plus a number is the number."""
    return second if first is None else first if second is None else first + second


# --- trajectories -----------------------------------------------------------------------------------------------


class Source(StrEnum):
    """Who wrote a step."""

    SYSTEM = "system"
    USER = "user"
    AGENT = "agent"


UNREADABLE = "unreadable"  # the one argument of a call whose arguments are not a JSON object: the model's text


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool, as the model made it. Its result is an `Observation` with the same id."""

    id: str
    name: str
    arguments: Mapping[str, Any]
    extra: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """One result. source_call_id names a tool call of the same step; None if the source does not say which."""

    content: str
    source_call_id: str | None = None
    is_error: bool = False
    extra: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One step in the sense of ATIF (Harbor's trajectory format, 1.0 to 1.8). Numbers run from 1 without gaps."""

    number: int
    source: Source
    message: str = ""
    reasoning: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    observations: tuple[Observation, ...] = ()
    timestamp: str | None = None  # verbatim; a naive one stays naive
    model: str | None = None
    usage: Usage | None = None  # of the model call that made this step, counted once per call
    is_copied_context: bool = False
    extra: Mapping[str, Any] | None = None


class TrajectoryKind(StrEnum):
    """How a trajectory relates to the agent's main line of work."""

    MAIN = "main"
    SUBAGENT = "subagent"
    CONTINUATION = "continuation"
    STAGE = "stage"


@dataclass(frozen=True, slots=True)
class TrajectoryHead:
    """What is known of a trajectory besides its steps."""

    kind: TrajectoryKind = TrajectoryKind.MAIN
    name: str = "main"  # unique within the attempt
    parent: str | None = None  # name of the trajectory that started this one
    source_format: str = "ATIF-v1.8"  # "claude-stream-json", "codex-jsonl", "plain-text", ...
    agent_name: str | None = None
    agent_version: str | None = None
    model: str | None = None
    session_id: str | None = None
    skills_listed: tuple[str, ...] = ()  # skills the harness announced to the agent
    extra: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Trajectory:
    """All steps of one agent or sub-agent in one attempt."""

    head: TrajectoryHead
    steps: tuple[Step, ...]
    usage: Usage = Usage()
    source: str | None = None  # the log it was read from, as the program wrote it; None where we made the steps


class CompactionKind(StrEnum):
    """RICH is made for an author, ROUGH for another agent."""

    RICH = "rich"
    ROUGH = "rough"


@dataclass(frozen=True, slots=True)
class Span:
    """A kept piece of one field of one step: field is "message", "reasoning", "tool_calls/0", "observations/0", ...

    start and end are character offsets into the field's text as `runner.trajectories.fields` renders it.
    reason: why it was kept ("head", "tail", "signal").
    """

    step: int
    field: str
    start: int
    end: int
    length: int  # of the whole field, so that a cut is visible without the trajectory
    reason: str


@dataclass(frozen=True, slots=True)
class Compaction:
    """A bounded rendering of one trajectory (paper appendix C.2, table 8). tokens = ceil(characters / 4)."""

    kind: CompactionKind
    version: str
    text: str
    tokens: int
    spans: tuple[Span, ...]
    steps_total: int
    steps_kept: int


class UseKind(StrEnum):
    """What an agent did with a skill, from weakest to strongest."""

    MOUNTED = "mounted"
    READ = "read"
    INVOKED = "invoked"  # through a harness' own skill tool
    EXECUTED = "executed"  # a script of the skill was run


@dataclass(frozen=True, slots=True)
class SkillUse:
    """One use of one skill, found in a trajectory."""

    skill: str  # slug
    kind: UseKind
    step: int | None = None  # None for mounted
    path: str | None = None  # file of the skill, where one was named
    trajectory: str = "main"


# --- verdicts ---------------------------------------------------------------------------------------------------


class CheckGroup(StrEnum):
    """Who may see a check, or what it examines."""

    PUBLIC = "public"
    HIDDEN = "hidden"
    PROCESS = "process"
    TEST = "test"  # a verifier that does not say which


class CheckStatus(StrEnum):
    """How a check ended. ERROR: it could not be carried out."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Check:
    """One check of a verifier."""

    group: CheckGroup
    name: str
    status: CheckStatus
    message: str = ""
    duration_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Dimension:
    """One rubric dimension: score out of max_score, with its weight in the whole."""

    name: str
    score: float
    max_score: float = 1.0
    weight: float = 1.0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A verifier's result. success is None if it gave none. outcome, process and overall are in 0..1.

    notes: unreadable parts of the reports that come with the reward, a sentence each, with file and place.
    """

    source: str  # "suite", "execution", "artifact", "harbor", "judge:..."
    success: bool | None
    reward: float | None = None
    outcome: float | None = None
    process: float | None = None
    overall: float | None = None
    checks: tuple[Check, ...] = ()
    dimensions: tuple[Dimension, ...] = ()
    rewards: Mapping[str, float | None] = field(default_factory=dict)  # None: the value is not a number
    output: str = ""
    verifier_digest: str = ""
    duration_seconds: float | None = None
    notes: tuple[str, ...] = ()

    def decided_by(self, scorer: str) -> Verdict:
        """Decide by this one of its rewards: success from 1 on, unknown if it is not a number."""
        reward = self.rewards[scorer]
        return replace(self, reward=reward, success=is_success(reward))

    def with_texts(self, change: Callable[[str], str]) -> Verdict:
        """The verdict with `change` applied to every text in it: a task or its agent wrote them."""
        checks = (replace(one, name=change(one.name), message=change(one.message)) for one in self.checks)
        dimensions = (replace(one, name=change(one.name), reason=change(one.reason)) for one in self.dimensions)
        return replace(
            self,
            output=change(self.output),
            checks=tuple(checks),
            dimensions=tuple(dimensions),
            rewards={change(name): value for name, value in self.rewards.items()},
            notes=tuple(map(change, self.notes)),
        )


def choose_reward(rewards: Mapping[str, float | None]) -> float | None:
    """Return the reward named "reward", else the only one. None if that is not a number, or if there are several:
    nothing says which of them decides whether the task is solved."""
    return rewards.get("reward", next(iter(rewards.values())) if len(rewards) == 1 else None)


FULL_REWARD = 1.0 - 1e-9  # a mean of ones may miss 1 by the last digits


def is_success(reward: float | None) -> bool | None:
    """Does this reward solve the task? None if it is unknown."""
    return None if reward is None else reward >= FULL_REWARD


# --- attempts ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Failure:
    """Something that ended an agent early and is part of the measurement, such as its time limit."""

    type: str
    message: str
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """Everything one finished attempt leaves behind. Recorded in one transaction with its spine entry."""

    trajectories: tuple[Trajectory, ...]
    verdict: Verdict | None
    compactions: tuple[Compaction, ...]
    skill_uses: tuple[SkillUse, ...]
    usage: Usage
    turns: int | None
    started_at: datetime
    finished_at: datetime
    agent_seconds: float | None = None
    verifier_seconds: float | None = None
    failure: Failure | None = None
    library_writes: tuple[str, ...] = ()  # library paths the agent changed in its private copy; never kept
    price_table: str = ""  # the price list behind usage.cost_usd, with its version
    files_digest: str = ""  # of a script's output in the workspace, before the verifier ran; "" if a model worked
    stage_verdicts: tuple[Verdict, ...] = ()  # of a task in stages, each with a source of its own
    queued_seconds: float = field(default=0.0, metadata=WRITTEN_IF_SET)  # of the attempt, in queues before models


# --- authoring --------------------------------------------------------------------------------------------------


class AuthorMode(StrEnum):
    """What an author is asked to write. The protocol decides which modes occur."""

    ZERO_SHOT = "zero-shot"
    INDUCE = "induce"
    REVISE = "revise"
    EVOLVE = "evolve"  # SkillFlow's: any change that the latest trial asks for, in a library that belongs to one family
    # SkillLearnBench's, in a library learned from one seed instance:
    WRITE = "write"  # from the text of the seed task, before anybody worked on it
    REFLECT = "reflect"  # from its own trial, without a verdict
    CORRECT = "correct"  # after a failed trial, with a teacher's advice
    CRAFT = "craft"  # from the task's text, by a guide to writing skills
    # SkillGenBench's, in a library generated from a corpus:
    DISTILL = "distill"  # from the corpus, in one pass
    REFINE = "refine"  # its own draft, with what a program found in it (also SkillLearnBench's skill-creator)
    CONSOLIDATE = "consolidate"  # from the corpus and trials without skills
    OUTSIDE = "outside"  # a program that is not ours writes the skills

    @property
    def names_skills(self) -> bool:
        """Does the author choose the number and names of the skills? Its patch has no operation then."""
        return self not in (AuthorMode.ZERO_SHOT, AuthorMode.INDUCE, AuthorMode.REVISE)


class DecisionStatus(StrEnum):
    """The outcome of an author's answer."""

    APPLIED = "applied"
    NO_OP = "no-op"
    REJECTED = "rejected"
    FAILED = "failed"  # no usable answer: the call failed, or the reply has no valid patch


@dataclass(frozen=True, slots=True)
class Patch:
    """An author's answer after parsing, before it is checked against the contract."""

    summary: str
    operation_type: str  # revise | narrow | replace | create
    upsert_files: Mapping[str, str]
    delete_paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule of the contract that a patch breaks (severity "error": rejected) or bends ("warning": kept)."""

    rule: str  # stable id, e.g. "path-confinement"
    path: str
    message: str  # names what was found and what was expected
    severity: str = "error"


@dataclass(frozen=True, slots=True)
class Evidence:
    """One trial the author was shown, with the compaction it saw."""

    slot: TrialSlot
    compaction: CompactionKind = CompactionKind.RICH


@dataclass(frozen=True, slots=True)
class Decision:
    """One answer of the author, numbered in order for any outcome. `after` is the library it leaves behind."""

    number: int
    round: int  # rounds completed after this decision; grows only if the library changed
    family: str
    mode: AuthorMode
    after_trial: TrialSlot | None
    answer: int  # 1 for the first answer to this occasion, 2 for the first retry, ...
    status: DecisionStatus
    operation_type: str
    summary: str
    patch: Patch | None
    findings: tuple[Finding, ...]
    evidence: tuple[Evidence, ...]
    call: str | None  # key of the model call that gave the answer
    before: str  # snapshot digests
    after: str
    error: str = ""


# --- models -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One completion request in the shape of the OpenAI chat format, as litellm takes it."""

    messages: tuple[Mapping[str, Any], ...]
    tools: tuple[Mapping[str, Any], ...] = ()
    temperature: float | None = None
    max_tokens: int | None = None
    seed: int | None = None  # providers are sent its low 31 bits
    json_object: bool = False


@dataclass(frozen=True, slots=True)
class FailedTry:
    """A try without a reply, before the one that succeeded."""

    reason: str
    seconds: float  # its duration plus the pause after it
    usage: Usage | None = None  # known tokens; None if it used none


def sum_lost_usage(tries: Iterable[FailedTry]) -> Usage | None:
    """Known tokens of these tries, or None if they used none."""
    lost = [each.usage for each in tries if each.usage is not None]
    return sum(lost, Usage()) if lost else None


# Finish reasons that the runner acts on, under one name for every provider. All others are the provider's own.
TOO_LONG = "context_length"  # the conversation has outgrown the model's window
FILTERED = "content_filter"  # the provider or the model withheld the reply


@dataclass(frozen=True, slots=True)
class ModelReply:
    """A model's answer, with every try that was needed to get it."""

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()  # of the try that was answered
    finish_reason: str = "stop"
    model: str = ""
    reasoning: str | None = None
    failed_tries: tuple[FailedTry, ...] = ()
    carried: Mapping[str, Any] | None = (
        None  # what the provider wants back with this turn: see runner.models.wire.carried
    )
    not_sent: tuple[str, ...] = ()  # requested settings that this model does not accept, each with the reason
    notes: tuple[str, ...] = ()  # changes to the request that were needed to get the reply, a sentence each
    queued_seconds: float = field(default=0.0, metadata=WRITTEN_IF_SET)  # before its server had a free slot

    @property
    def delay_seconds(self) -> float:
        """Time that is not the agent's: failed tries with the pauses after them, and the wait for a free slot."""
        return sum(each.seconds for each in self.failed_tries) + self.queued_seconds

    @property
    def lost_usage(self) -> Usage | None:
        """Known tokens of failed tries, or None if they used none."""
        return sum_lost_usage(self.failed_tries)
