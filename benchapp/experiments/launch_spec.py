"""The experiment file, YAML or JSON: its fields and their validation.
Every error names the field and what was expected."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, Self, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails
from yaml.composer import ComposerError
from yaml.constructor import ConstructorError

from benchapp.stats.comparing.choices import NO_SKILL
from runner.agents import Limits
from runner.authoring.occasion import FeedbackLevel, Profile
from runner.base.errors import SetupError
from runner.prompts.roles import OWN, read_choice, write_choice
from runner.protocols.instruction import Notice
from runner.protocols.plan import AUTHOR_SAMPLING

MAX_BYTES = 200_000
UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
# The order for readers; the rest follows as the spec lists it.
FIRST = ("name", "suite", "protocol", "conditions", "agents", "agent_models", "author_models", "replicates")


class PlainYaml(yaml.SafeLoader):
    """Reject aliases, because a few lines can unfold beyond memory, and duplicate names, because one would be lost."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise ComposerError(None, None, "aliases are not taken here", self.peek_event().start_mark)  # type: ignore[no-untyped-call]  # of the stubs
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        if twice := _find_repeated(key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            raise ConstructorError(None, None, f"{', '.join(twice)}: named twice", node.start_mark)
        return super().construct_mapping(node, deep)


def _find_repeated(names: Iterable[str]) -> list[str]:
    return sorted(name for name, times in Counter(names).items() if times > 1)


def _build_mapping(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if twice := _find_repeated(name for name, _ in pairs):
        raise ValueError(f"{', '.join(twice)}: named twice")
    return dict(pairs)


def read_file(path: Path) -> dict[str, object]:
    """Read a file. SetupError names the file and what was expected."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise SetupError(f"{path}: too long (expected at most {MAX_BYTES:,} bytes)")
        return read_text(path.read_text("utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise SetupError(f"{path}: {error} (expected YAML or JSON)") from error
    except SetupError as error:
        raise SetupError(f"{path}: {error}") from error


def read_text(text: str) -> dict[str, object]:
    """Read a mapping of fields, before validation (`benchapp.experiments.preparation`), or raise SetupError."""
    if len(text) > MAX_BYTES:
        raise SetupError(f"{len(text):,} characters (expected at most {MAX_BYTES:,})")
    try:
        value = _parse(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise SetupError(f"{error} (expected YAML or JSON)") from error
    if not isinstance(value, dict):
        raise SetupError("expected a mapping of fields such as name, suite, conditions")
    _require_storable(value)
    return {str(name): item for name, item in value.items()}


def _parse(text: str) -> object:
    """Parse JSON as JSON: YAML refuses its tabs and takes an escaped pair of surrogates for two half characters."""
    if text.lstrip().startswith("{"):
        with suppress(json.JSONDecodeError):
            return json.loads(text, object_pairs_hook=_build_mapping)
    return yaml.load(text, PlainYaml)  # noqa: S506 - a SafeLoader


def _require_storable(value: object) -> None:
    """Raise SetupError for YAML values that no database or page can hold: NUL, half characters, huge numbers."""
    if isinstance(value, str) and UNSTORABLE.search(value):
        raise SetupError(f"{value!r:.100}: expected text without NUL and without halves of characters")
    if isinstance(value, int) and abs(value) >= 2**63:
        raise SetupError(f"a number of {value.bit_length():,} bits (expected at most 63)")
    items = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list | set) else ()
    for item in items:
        _require_storable(item)


DEFAULTS = Limits()
Order = Literal["interleaved", "one-by-one"]
# Fields added later. They are left out if they mean the earlier behaviour, so that older files stay unchanged.
_LATER = (
    *("prompts", "author_agents", "author_limits", "author_sampling", "judging", "hypotheses"),
    *("tasks", "qualification", "notice", "worker_labels"),
)
SINGULAR = {
    "agent": "agents",
    "agent_model": "agent_models",
    "author_model": "author_models",
    "author_agent": "author_agents",
}
# Of workers. A worker with n labels takes from 2**n queues (benchapp.experiments.work.worker_labels).
LABEL = re.compile(r"[a-z0-9][a-z0-9._=-]{0,39}")
MOST_LABELS = 5
# as `tasks`: those that the suite's qualification admits; the launch writes their keys in its place
ADMITTED = ("admitted",)
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
    """Lists everything that keeps an experiment file from being launched, at once."""

    def __init__(self, problems: Iterable[SpecProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("the experiment cannot be launched: " + "; ".join(map(str, self.problems)))


class SpecPart(BaseModel):
    """A part of the file, without other fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class LimitsSpec(SpecPart):
    """Limits of each trial; None: no limit, or the task's own."""

    max_turns: int = Field(default=DEFAULTS.max_turns, ge=1, le=1_000)
    max_output_tokens: int = Field(default=DEFAULTS.max_output_tokens, ge=1)
    max_total_tokens: int | None = Field(default=DEFAULTS.max_total_tokens, ge=1, lt=2**62)
    timeout_seconds: float | None = Field(default=DEFAULTS.timeout_seconds, gt=0, allow_inf_nan=False)


class AuthorLimitsSpec(SpecPart):
    """Limits of each session of an author that is an agent. None: what the protocol's paper says, and no limit on total
    tokens."""

    max_turns: int | None = Field(default=None, ge=1, le=1_000)
    max_output_tokens: int | None = Field(default=None, ge=1)
    max_total_tokens: int | None = Field(default=None, ge=1, lt=2**62)
    timeout_seconds: float | None = Field(default=None, gt=0, allow_inf_nan=False)


class AuthorSamplingSpec(SpecPart):
    """How authors are sampled. Any other model setting is in its preset."""

    temperature: float | None = Field(default=AUTHOR_SAMPLING.temperature, ge=0, le=2, allow_inf_nan=False)
    max_tokens: int = Field(default=AUTHOR_SAMPLING.max_tokens, ge=100, le=1_000_000)


class BudgetSpec(SpecPart):
    """Budget of each run; None: no limit."""

    usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    tokens: int | None = Field(default=None, ge=1, lt=2**62)  # input and output together


class JudgingSpec(SpecPart):
    """A judge that passes over each run after it has ended (docs/explanation/judges.md). Limits are for each run."""

    model: str = Field(min_length=1, max_length=200)
    prompts: str = OWN
    metrics: tuple[str, ...] = ()  # empty: all
    calls: int | None = Field(default=None, ge=1, lt=2**31)
    usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)


class HypothesisSpec(SpecPart):
    """A difference declared before the run (docs/explanation/statistics.md, Several comparisons together)."""

    metric: str = Field(min_length=1, max_length=100)
    condition: str = Field(min_length=1, max_length=300)
    against: str = NO_SKILL  # the baseline that pages compare a condition with


class SolutionSpec(SpecPart):
    """All of these runs of a task's own solution pass."""

    runs: int = Field(default=3, ge=1, le=100)


class UntouchedSpec(SpecPart):
    """None of these runs, which do nothing, passes."""

    runs: int = Field(default=2, ge=1, le=100)


class TrapSpec(UntouchedSpec):
    """None of these runs, which give the wrong answer that the task declares, passes."""


class NoSkillSpec(SpecPart):
    """At most this share of the runs passes; as SkillLearnBench, equation 1."""

    runs: int = Field(default=10, ge=1, le=100)
    at_most: float = Field(default=0.5, ge=0, le=1, allow_inf_nan=False)


class NoCorpusSpec(SpecPart):
    """Less than this share of the runs passes; as SkillGenBench, stage 4, which does not say how many runs."""

    runs: int = Field(default=10, ge=1, le=100)
    below: float = Field(default=0.2, gt=0, le=1, allow_inf_nan=False)


class WithCorpusSpec(NoCorpusSpec):
    """The same with the corpus."""

    below: float = Field(default=0.5, gt=0, le=1, allow_inf_nan=False)


class ReferenceSpec(SpecPart):
    """At least this number of the runs passes; one success, as SkillLearnBench, section 3."""

    runs: int = Field(default=3, ge=1, le=100)
    passes: int = Field(default=1, ge=1, le=100)

    @model_validator(mode="after")
    def _require_possible(self) -> Self:
        if self.passes > self.runs:
            raise ValueError(f"{self.passes} passes of {self.runs} runs (expected at most as many passes as runs)")
        return self


class QualificationSpec(SpecPart):
    """What a task must show to be admitted. null leaves a check out."""

    solution: SolutionSpec | None = SolutionSpec()
    untouched: UntouchedSpec | None = UntouchedSpec()
    trap: TrapSpec | None = TrapSpec()  # of tasks that declare a wrong answer
    no_skill: NoSkillSpec | None = NoSkillSpec()
    no_corpus: NoCorpusSpec | None = NoCorpusSpec()  # in place of no_skill, for tasks with a corpus
    with_corpus: WithCorpusSpec | None = WithCorpusSpec()
    reference: ReferenceSpec | None = ReferenceSpec()


class ProbeSpec(SpecPart):
    """A recorded library, frozen from the start, and the tasks tried with it (`benchapp.experiments.probe_runs`)."""

    library: str = Field(pattern=r"^[0-9a-f]{64}$")
    tasks: tuple[str, ...] = Field(min_length=1)


class LaunchSpec(SpecPart):
    """One experiment: agents x agent models x authors' agents x author models x conditions x replicates,
    over a suite and a protocol."""

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
    worker_labels: tuple[str, ...] = ()  # only workers with all of these take it
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

    @field_validator("worker_labels")
    @classmethod
    def _sort_labels(cls, labels: tuple[str, ...]) -> tuple[str, ...]:
        return sort_labels(labels)

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


def sort_labels(labels: Iterable[str]) -> tuple[str, ...]:
    """Return labels of workers in order, each once. ValueError for one that could name no queue, and for too many."""
    found = tuple(sorted(set(labels)))
    if wrong := next((each for each in found if not LABEL.fullmatch(each)), None):
        raise ValueError(f"{wrong!r:.100}: expected lower-case letters, digits, '.', '_', '-' and '=', at most 40")
    if len(found) > MOST_LABELS:
        raise ValueError(f"{len(found)} labels (expected at most {MOST_LABELS})")
    return found


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
    message = SAID.get(found["type"]) or found["msg"].removeprefix("Value error, ")
    return SpecProblem(place, message.replace("Input should be ", "expected ", 1) + shown)


def _suggest_field(place: tuple[int | str, ...]) -> str:
    """Suggest a field with a similar name for an unknown one."""
    *outer, name = map(str, place)
    found: type[BaseModel] | None = LaunchSpec if outer and outer[0] != "probe" else None
    for part in (part for part in outer if not part.isdigit()):
        field = found.model_fields.get(part) if found else None
        types = (field.annotation, *get_args(field.annotation)) if field else ()
        found = next((each for each in types if isinstance(each, type) and issubclass(each, BaseModel)), None)
    known = sorted(found.model_fields if found else _list_keys() - {"probe"})
    alike = get_close_matches(name, known, n=1)
    return "there is no such field (expected " + (f"{alike[0]}?)" if alike else f"one of {', '.join(known)})")


def _list_keys() -> set[str]:
    return {*LaunchSpec.model_fields, *SINGULAR}
