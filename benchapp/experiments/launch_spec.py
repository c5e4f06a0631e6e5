"""The experiment file: its fields and their validation. Every error names the field and what was expected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails

from benchapp.stats.comparing.choices import NO_SKILL
from runner.agents import Limits
from runner.authoring.occasion import FeedbackLevel, Profile
from runner.base.errors import SetupError
from runner.prompts.roles import OWN, read_choice, write_choice
from runner.protocols.instruction import Notice
from runner.protocols.plan import AUTHOR_SAMPLING

DEFAULTS = Limits()
Order = Literal["interleaved", "one-by-one"]
# Fields added later. They are left out if they mean the earlier behaviour, so that older files stay unchanged.
_LATER = (
    *("prompts", "author_agents", "author_limits", "author_sampling", "judging", "hypotheses"),
    *("tasks", "qualification", "notice"),
)
SINGULAR = {
    "agent": "agents",
    "agent_model": "agent_models",
    "author_model": "author_models",
    "author_agent": "author_agents",
}
ADMITTED = (
    "admitted",
)  # as `tasks`: those that the suite's qualification admits; the launch writes their keys in its place
# Replaces an invalid field, so that the others are still checked.
PLACEHOLDERS: dict[str, object] = {"name": "unnamed", "suite": "starter", "conditions": ["no-skill"]}
# Pydantic errors that mention its own types, reworded for the author of the file.
SAID = {
    "missing": "expected, and not there",
    "string_too_short": "empty (expected at least 1 character)",
    "too_short": "expected at least one",
    "tuple_type": "expected a list",
    "int_type": "expected a whole number",
    "int_parsing": "expected a whole number",
    "float_type": "expected a number",
    "float_parsing": "expected a number",
    "string_type": "expected a text",
    "bool_type": "expected true or false",
    "bool_parsing": "expected true or false",
    "model_type": "expected a mapping of fields",
}


@dataclass(frozen=True, slots=True)
class SpecProblem:
    """What is wrong with one field of an experiment file."""

    field: str  # as the file names it: "agent_models", "limits.max_turns"
    message: str  # what is wrong, and what was expected

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class Unlaunchable(SetupError):
    """Everything that keeps an experiment file from being launched, at once."""

    def __init__(self, problems: Iterable[SpecProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("the experiment cannot be launched: " + "; ".join(map(str, self.problems)))


class LimitsSpec(BaseModel):
    """Limits of each trial; None: no limit, or the task's own."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_turns: int = Field(default=DEFAULTS.max_turns, ge=1, le=1_000)
    max_output_tokens: int = Field(default=DEFAULTS.max_output_tokens, ge=1)
    max_total_tokens: int | None = Field(default=DEFAULTS.max_total_tokens, ge=1, lt=2**62)
    timeout_seconds: float | None = Field(default=DEFAULTS.timeout_seconds, gt=0, allow_inf_nan=False)


class AuthorLimitsSpec(BaseModel):
    """Limits of each session of an author that is an agent. None: what the protocol's paper says, and no limit on total
    tokens."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_turns: int | None = Field(default=None, ge=1, le=1_000)
    max_output_tokens: int | None = Field(default=None, ge=1)
    max_total_tokens: int | None = Field(default=None, ge=1, lt=2**62)
    timeout_seconds: float | None = Field(default=None, gt=0, allow_inf_nan=False)


class AuthorSamplingSpec(BaseModel):
    """How authors are sampled. Any other model setting is in its preset."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    temperature: float | None = Field(default=AUTHOR_SAMPLING.temperature, ge=0, le=2, allow_inf_nan=False)
    max_tokens: int = Field(default=AUTHOR_SAMPLING.max_tokens, ge=100, le=1_000_000)


class BudgetSpec(BaseModel):
    """Budget of each run; None: no limit."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    tokens: int | None = Field(default=None, ge=1, lt=2**62)  # input and output together


class JudgingSpec(BaseModel):
    """A judge that passes over each run after it has ended (docs/explanation/judges.md). Limits are for each run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = Field(min_length=1, max_length=200)
    prompts: str = OWN
    metrics: tuple[str, ...] = ()  # empty: all
    calls: int | None = Field(default=None, ge=1, lt=2**31)
    usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)


class HypothesisSpec(BaseModel):
    """A difference declared before the run (docs/explanation/statistics.md, Several comparisons together)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    metric: str = Field(min_length=1, max_length=100)
    condition: str = Field(min_length=1, max_length=300)
    against: str = NO_SKILL  # the baseline that pages compare a condition with


class SolutionSpec(BaseModel):
    """All of these runs of a task's own solution pass."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    runs: int = Field(default=3, ge=1, le=100)


class UntouchedSpec(BaseModel):
    """None of these runs, which do nothing, passes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    runs: int = Field(default=2, ge=1, le=100)


class TrapSpec(UntouchedSpec):
    """None of these runs, which give the wrong answer that the task declares, passes."""


class NoSkillSpec(BaseModel):
    """At most this share of the runs passes; as SkillLearnBench, equation 1."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    runs: int = Field(default=10, ge=1, le=100)
    at_most: float = Field(default=0.5, ge=0, le=1, allow_inf_nan=False)


class NoCorpusSpec(BaseModel):
    """Less than this share of the runs passes; as SkillGenBench, stage 4, which does not say how many runs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    runs: int = Field(default=10, ge=1, le=100)
    below: float = Field(default=0.2, gt=0, le=1, allow_inf_nan=False)


class WithCorpusSpec(NoCorpusSpec):
    """The same with the corpus."""

    below: float = Field(default=0.5, gt=0, le=1, allow_inf_nan=False)


class ReferenceSpec(BaseModel):
    """At least this number of the runs passes; one success, as SkillLearnBench, section 3."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    runs: int = Field(default=3, ge=1, le=100)
    passes: int = Field(default=1, ge=1, le=100)

    @model_validator(mode="after")
    def _require_possible(self) -> Self:
        if self.passes > self.runs:
            raise ValueError(f"{self.passes} passes of {self.runs} runs (expected at most as many passes as runs)")
        return self


class QualificationSpec(BaseModel):
    """What a task must show to be admitted. null leaves a check out."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    solution: SolutionSpec | None = SolutionSpec()
    untouched: UntouchedSpec | None = UntouchedSpec()
    trap: TrapSpec | None = TrapSpec()  # of tasks that declare a wrong answer
    no_skill: NoSkillSpec | None = NoSkillSpec()
    no_corpus: NoCorpusSpec | None = NoCorpusSpec()  # in place of no_skill, for tasks with a corpus
    with_corpus: WithCorpusSpec | None = WithCorpusSpec()
    reference: ReferenceSpec | None = ReferenceSpec()


class ProbeSpec(BaseModel):
    """A recorded library, frozen from the start, and the tasks tried with it (`benchapp.experiments.probe_runs`)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    library: str = Field(pattern=r"^[0-9a-f]{64}$")
    tasks: tuple[str, ...] = Field(min_length=1)


class LaunchSpec(BaseModel):
    """One experiment: agents x agent models x authors' agents x author models x conditions x replicates, over a suite and a
    protocol."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1, max_length=300)
    key: str = ""  # launching the same file again returns its existing experiment
    suite: str
    protocol: str = "skillevolbench"
    environments: tuple[str, ...] = ()  # what the protocol's episodes are about; empty: all of them
    tasks: tuple[str, ...] = ()  # by key; empty: all of them
    agents: tuple[str, ...] = Field(default=("shell",), min_length=1)
    agent_models: tuple[str | None, ...] = Field(default=(None,), min_length=1)
    author_agents: tuple[str | None, ...] = Field(default=(None,), min_length=1)  # None: the model is asked once
    author_models: tuple[str | None, ...] = Field(default=(None,), min_length=1)
    judge_model: str | None = None  # for artifacts of tasks that ask for a judge (docs/reference/evaluation.md)
    judging: JudgingSpec | None = None  # of skills and attempts, after the runs
    hypotheses: tuple[HypothesisSpec, ...] = Field(default=(), max_length=50)
    prompts: tuple[str, ...] = Field(default=(OWN,), min_length=1, max_length=20)  # packs of the author's prompts
    conditions: tuple[str, ...] = Field(min_length=1)
    replicates: int = Field(default=3, ge=1, le=100)
    seed: int = Field(default=0, ge=0, lt=2**62)  # replicate r runs with seed + r - 1, in every cell
    order: Order = "interleaved"
    sandbox: str = "local"
    feedback: FeedbackLevel = "process"
    profile: Profile = "paper"
    notice: Notice | None = None  # None: the protocol's; of an experiment from before there was a choice: "ours"
    answers: int = Field(default=1, ge=1, le=10)
    samples: int = Field(default=1, ge=1, le=100)
    placebo_replay: bool = False
    record: bool = False  # keep every host-side model call, so that the runs can be replayed
    budget: BudgetSpec = BudgetSpec()
    limits: LimitsSpec = LimitsSpec()
    author_limits: AuthorLimitsSpec = AuthorLimitsSpec()
    author_sampling: AuthorSamplingSpec = AuthorSamplingSpec()
    qualification: QualificationSpec | None = None  # of the protocol of that name alone
    probe: ProbeSpec | None = None  # of a probe alone; no file that a person launches has it

    @model_validator(mode="before")
    @classmethod
    def _expand_singular(cls, value: object) -> object:
        """`agent: shell` is short for `agents: [shell]`."""
        if not isinstance(value, dict):
            return value
        both = [f"{one} and {many}" for one, many in SINGULAR.items() if one in value and many in value]
        if both:
            raise ValueError(f"{', '.join(both)}: expected one of the two")
        file = {SINGULAR.get(name, name): [item] if name in SINGULAR else item for name, item in value.items()}
        if file.get("protocol") == "qualification":
            file.setdefault("qualification", {})  # the defaults are kept with the experiment
        return file

    @field_validator("tasks", mode="before")
    @classmethod
    def _list_tasks(cls, value: object) -> object:
        return ADMITTED if value == ADMITTED[0] else value

    @field_validator("prompts", mode="before")
    @classmethod
    def _write_prompts(cls, value: object) -> object:
        return list(map(_write_prompts, list_prompts(value)))

    @field_validator(
        "environments", "tasks", "agents", "agent_models", "author_agents", "author_models", "prompts", "conditions"
    )
    @classmethod
    def _require_unique(cls, names: tuple[str | None, ...]) -> tuple[str | None, ...]:
        twice = sorted(str(name) for name, times in Counter(names).items() if times > 1)
        if twice:
            raise ValueError(f"{', '.join(twice)}: named twice (expected each once; `replicates` repeats a run)")
        return names

    @property
    def file(self) -> dict[str, object]:
        """Return the experiment file as JSON values: what was given and every default. Fields added later, such as
        judges, are left out if they mean the earlier behaviour."""
        unused = {name for name in ("probe", "judge_model") if getattr(self, name) is None}
        unused |= {name for name in _LATER if getattr(self, name) == type(self).model_fields[name].default}
        return self.model_dump(mode="json", exclude=unused)

    def narrow(self, **changes: object) -> Self:
        """Return the same file with some fields changed, validated again."""
        return type(self).model_validate({**self.file, **changes})


def list_prompts(value: object) -> list[object]:
    """Return one for every run or a list; each a name, or a mapping of roles to names, as `read_choice` reads it."""
    every = value if isinstance(value, list | tuple) else [value]
    return [
        "~".join(f"{role}.{name}" for role, name in each.items()) if isinstance(each, dict) else each for each in every
    ]


def _write_prompts(value: object) -> object:
    """Normalise a choice of prompts. Other types stay, for the check of the type."""
    try:
        return write_choice(read_choice(value)) if isinstance(value, str) else value
    except SetupError as error:
        raise ValueError(str(error)) from error


def describe_launched(file: Mapping[str, object]) -> dict[str, object]:
    """Return the file of a launched experiment, with the notice even if the file is older than that field."""
    return {**file, "notice": file.get("notice") or "ours"}


def read_spec(value: Mapping[str, object]) -> LaunchSpec:
    """Read a file. Unlaunchable lists every invalid field."""
    spec, problems = try_spec(value)
    if spec is None or problems:
        raise Unlaunchable(problems)
    return spec


def try_spec(value: object) -> tuple[LaunchSpec | None, list[SpecProblem]]:
    """Return the file as far as it can be read, and what is wrong with its shape. Faulty fields get their defaults."""
    try:
        return LaunchSpec.model_validate(value), []
    except ValidationError as error:
        problems = [_describe_problem(found) for found in error.errors(include_url=False)]
    faulty = {problem.field.partition(".")[0] for problem in problems}
    if not isinstance(value, dict):
        return None, problems
    rest = {
        name: item for name, item in value.items() if SINGULAR.get(name, name) not in faulty and name in _list_keys()
    }
    try:
        return LaunchSpec.model_validate({**PLACEHOLDERS, **rest}), problems
    except ValidationError:  # two fields that conflict
        return None, problems


def _describe_problem(found: ErrorDetails) -> SpecProblem:
    place = ".".join(map(str, found["loc"])) or "the whole file"
    if found["type"] == "extra_forbidden":
        return SpecProblem(place, _suggest_field(found["loc"]))
    shown = (
        ""
        if found["type"] in ("missing", "value_error") or found["input"] == ""
        else f" (found {found['input']!r:.100})"
    )
    told = SAID.get(found["type"]) or found["msg"].removeprefix("Value error, ")
    return SpecProblem(place, told.replace("Input should be ", "expected ", 1) + shown)


def _suggest_field(place: tuple[int | str, ...]) -> str:
    """Suggest a field with a similar name for an unknown one."""
    *outer, name = map(str, place)
    parts: dict[str, type[BaseModel]] = {
        "limits": LimitsSpec,
        "author_limits": AuthorLimitsSpec,
        "author_sampling": AuthorSamplingSpec,
        "budget": BudgetSpec,
        "judging": JudgingSpec,
        "hypotheses": HypothesisSpec,
        "qualification": QualificationSpec,
        **{f"qualification.{check}": model for check, model in _CHECKS.items()},
    }
    found = parts.get(".".join(part for part in outer if not part.isdigit()))
    known = sorted(found.model_fields if found else _list_keys() - {"probe"})
    alike = get_close_matches(name, known, n=1)
    return "there is no such field (expected " + (f"{alike[0]}?)" if alike else f"one of {', '.join(known)})")


_CHECKS: dict[str, type[BaseModel]] = {
    "solution": SolutionSpec,
    "untouched": UntouchedSpec,
    "trap": TrapSpec,
    "no_skill": NoSkillSpec,
    "no_corpus": NoCorpusSpec,
    "with_corpus": WithCorpusSpec,
    "reference": ReferenceSpec,
}


def _list_keys() -> set[str]:
    return {*LaunchSpec.model_fields, *SINGULAR}
