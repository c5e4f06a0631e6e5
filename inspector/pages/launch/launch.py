"""The launch form: the same experiment file as text and as fields.

The file is the truth. A changed field is written into the file; a changed file shows in the fields. An untouched field
writes nothing, so everything else in the file stays.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal, get_args

import yaml
from django.db.models import Count
from django.http import QueryDict

from benchapp.experiments.cells import PUBLISHED_HARNESS
from benchapp.experiments.experiment_file import FIRST, read_text
from benchapp.experiments.launch_spec import SINGULAR, LaunchSpec, Order, list_prompts
from benchapp.models import Suite
from benchapp.record.sets.suite_files import find_suite
from runner import protocols
from runner.agents import IN_HARBOR, MODELLESS
from runner.authoring.occasion import FeedbackLevel, Profile
from runner.base.errors import RunnerError, SetupError
from runner.base.types import AuthorMode
from runner.generators import PROVIDER, find_generator, generator_folders
from runner.generators.generator_calls import require_reachable
from runner.models.preset_file import read_preset
from runner.models.presets import preset_files, read_preset_named
from runner.prompts.roles import OWN
from runner.protocols.conditions import Condition, conditions_of, find_condition
from runner.protocols.instruction import Notice
from runner.protocols.registry import OFFERED
from runner.sandboxes import SANDBOXES
from runner.suites import SUITES

MAX_CHARACTERS = 64_000
MAX_NESTING = 40  # of brackets; a reader of YAML takes minutes over some thousands
Kind = Literal["text", "number", "choice", "ticks", "lines", "tick"]
Value = str | bool | list[str]


@dataclass(frozen=True, slots=True)
class Option:
    """One thing that a field offers to choose."""

    value: str
    label: str
    note: str = ""
    waits_for: tuple[str, ...] = ()  # names of variables of a model that this process does not have


@dataclass(frozen=True, slots=True)
class LaunchField:
    """`name` as problems name it: "budget.usd" is the field usd of budget. `ticks` may be joined by `lines` for names
    that no list has."""

    name: str
    label: str
    kind: Kind
    help: str = ""
    unit: str = ""

    @property
    def id(self) -> str:
        return "id_" + self.name.replace(".", "_")


_FIELDS = (
    LaunchField("name", "Name", "text"),
    LaunchField("suite", "Suite", "choice"),
    LaunchField("protocol", "Protocol", "choice", "Says when the agent learns and what is tested at the end."),
    LaunchField("environments", "Only these parts of the suite", "lines", "One key per line. Empty: all of them."),
    LaunchField("tasks", "Only these tasks", "lines", "admitted, or one key per line. Empty: all of them."),
    LaunchField("conditions", "Conditions", "ticks", "Others, one per line, such as naive-prompt@8000"),
    LaunchField("agents", "Agents", "ticks"),
    LaunchField("agent_models", "Agent models", "ticks", "Others, one per line: provider/name"),
    LaunchField("author_models", "Author models", "ticks", "Others, one per line. Empty where no author works."),
    LaunchField("author_agents", "How the author works", "ticks", "Others, one per line"),
    LaunchField("author_limits.max_turns", "Turns of an author's session", "number"),
    LaunchField("author_limits.max_output_tokens", "Tokens of an answer in it", "number"),
    LaunchField("author_limits.timeout_seconds", "Seconds of an author's session", "number"),
    LaunchField("author_sampling.temperature", "Temperature of an author", "number", "Of single calls. Empty: none."),
    LaunchField("author_sampling.max_tokens", "Tokens of an author's answer", "number", "Of single calls."),
    LaunchField(
        "prompts", "Prompts of the author", "lines", "skillglass, paper, or a pack, one per line. Each is a run."
    ),
    LaunchField("replicates", "Replicates", "number"),
    LaunchField("samples", "Samples", "number", "The same task again, with the same library."),
    LaunchField("answers", "Answers", "number", "How many answers the author may give each time."),
    LaunchField("seed", "Seed", "number"),
    LaunchField("order", "Order", "choice"),
    LaunchField("budget.usd", "Budget, USD", "number", "Of each run. Empty: no limit."),
    LaunchField("budget.tokens", "Budget, tokens", "number", "Of each run, in and out. Empty: no limit."),
    LaunchField("limits.max_turns", "Turns of a trial", "number"),
    LaunchField("limits.max_output_tokens", "Tokens of an answer", "number"),
    LaunchField("limits.timeout_seconds", "Seconds of a trial", "number", "Empty: the task's own."),
    LaunchField("sandbox", "Sandbox", "choice", "Where each trial runs."),
    LaunchField("feedback", "Feedback to the author", "choice"),
    LaunchField("profile", "Author's contract", "choice"),
    LaunchField("notice", "Notice of the library", "choice", "What agents read about their skills, below the task."),
    LaunchField("judge_model", "Judge model", "text", "Judges what tasks cannot check. Empty: none."),
    LaunchField("judging.model", "Judge of finished runs", "text", "Judges skills and attempts. Empty: none."),
    LaunchField("placebo_replay", "Replay also where nothing was learned", "tick"),
    LaunchField("record", "Keep every model call, to replay runs without a network", "tick"),
)
FIELDS = {each.name: each for each in _FIELDS}
_MODELS = ("agent_models", "author_models")
_SAMPLING = ("author_sampling.temperature", "author_sampling.max_tokens")
_SESSION = ("author_limits.max_turns", "author_limits.max_output_tokens", "author_limits.timeout_seconds")
# How authors are asked: "More settings" opens where a file says something about it.
AUTHOR_SETTINGS = ("prompts", *_SAMPLING, *_SESSION)
# Behind "More settings": what the steps above have no place for.
MORE = (
    *(
        "tasks",
        "samples",
        "answers",
        "seed",
        "order",
        "sandbox",
        "feedback",
        "profile",
        "notice",
        "budget.usd",
        "budget.tokens",
    ),
    *(
        "limits.max_turns",
        "limits.max_output_tokens",
        "limits.timeout_seconds",
        "judge_model",
        "judging.model",
        "placebo_replay",
        "record",
    ),
    *AUTHOR_SETTINGS,
)
# What each agent is, in the order of the form.
AGENT_NOTES = {
    "shell": "Ours. The model works in a shell.",
    "claude-code": "Anthropic's program. Needs Docker.",
    "codex": "OpenAI's program. Needs Docker.",
    "gemini-cli": "Google's program. Needs Docker.",
    "qwen-code": "Qwen's program. Needs Docker.",
    "kimi-code": "Moonshot's program. Needs Docker.",
    "oracle": "No model. Runs each task's own solution.",
    "nop": "No model. Does nothing, so each trial should fail.",
    "trap": "No model. Runs the wrong answer that each task declares, so each trial should fail.",
    "harbor-oracle": "No model. Harbor runs each task's own solution. Needs the sandbox harbor.",
    "harbor-terminus-2": "Harbor's own agent. Needs the sandbox harbor.",
}
ONE_CALL = "one-call"  # the box that stands for null in `author_agents`
SAME_AUTHOR = "same_author"  # a box: the agent that solves tasks also writes the skills


@dataclass(frozen=True, slots=True)
class ShownField:
    """A field with its value."""

    field: LaunchField
    value: Value
    options: tuple[Option, ...] = ()
    rest: str = ""  # of ticks: what no option has, one a line
    errors: tuple[str, ...] = ()
    is_idle: bool = False  # changes nothing as the other fields are: it stays in the form, out of sight


# --- the file's fields ------------------------------------------------------------------------------------------


def read(text: str) -> dict[str, object]:
    """The file as a mapping. SetupError says what is wrong with it as YAML."""
    if len(text) > MAX_CHARACTERS:
        raise SetupError(f"{len(text):,} characters (expected at most {MAX_CHARACTERS:,})")
    depth = 0
    for letter in text:
        depth += (letter in "[{") - (letter in "]}")
        if depth > MAX_NESTING:
            raise SetupError(f"brackets inside brackets, {depth} deep (expected at most {MAX_NESTING})")
    return read_text(text)


def write(value: Mapping[str, object]) -> str:
    ordered = {name: value[name] for name in (*FIRST, *value) if name in value}
    return yaml.safe_dump(ordered, sort_keys=False, allow_unicode=True, width=88, default_flow_style=None)


def values_of(file: Mapping[str, object]) -> dict[str, Value]:
    """Return the value of each field for this file; defaults for what the file leaves out."""
    plural = {SINGULAR.get(name, name): [item] if name in SINGULAR else item for name, item in file.items()}
    if "prompts" in plural:
        plural["prompts"] = list_prompts(plural["prompts"])
    return {name: _show_value(each, _read_at(plural, name)) for name, each in FIELDS.items()}


def values_sent(given: QueryDict) -> dict[str, Value]:
    """What somebody left in the fields."""
    found: dict[str, Value] = {}
    for name, each in FIELDS.items():
        if each.kind == "tick":
            found[name] = name in given
        elif each.kind in ("ticks", "lines"):
            typed = given.get(f"{name}.rest", "") if each.kind == "ticks" else given.get(name, "")
            ticked = given.getlist(name) if each.kind == "ticks" else []
            found[name] = list(dict.fromkeys([*ticked, *filter(None, map(str.strip, typed.splitlines()))]))
        else:
            found[name] = " ".join(given.get(name, "").split())
    if SAME_AUTHOR in given:
        found["author_models"] = found["agent_models"]
    return found


def write_changes(
    file: Mapping[str, object], before: Mapping[str, Value], after: Mapping[str, Value]
) -> dict[str, object]:
    """The file with what differs between `before` and `after` written into it. What is as by default is left out."""
    found = {SINGULAR.get(name, name): [item] if name in SINGULAR else item for name, item in file.items()}
    for name, value in after.items():
        old = before[name]
        if isinstance(value, list) and isinstance(old, list):
            if set(value) == set(old):  # boxes have an order of their own, which says nothing
                continue
            value = [*(each for each in old if each in value), *(each for each in value if each not in old)]
            if old and name in _MODELS and _names_none(found.get(name)):  # next to the models; it has no box
                found[name] = [None, *value]
                continue
        if value != old:
            _put_value(found, name, _read_value(FIELDS[name], value))
    return found


def is_set(values: Mapping[str, Value], name: str) -> bool:
    """Whether a field says something else than a file without it."""
    return values[name] != _show_value(FIELDS[name], _find_default(name))


def _names_none(value: object) -> bool:
    return isinstance(value, list | tuple) and None in value


def _put_value(file: dict[str, object], name: str, value: object) -> None:
    outer, _, inner = name.partition(".")
    if not inner:
        if value == _find_default(name) and outer not in FIRST:
            file.pop(outer, None)
        else:
            file[outer] = value
        return
    if name == "judging.model" and not value:  # its prompts and limits are of nobody then
        file.pop(outer, None)
        return
    before = file.get(outer)
    kept = dict(before) if isinstance(before, dict) else {}
    kept.pop(inner, None)
    if value != _find_default(name):
        kept[inner] = value
    file[outer] = kept
    if not kept:
        del file[outer]


def _read_at(file: Mapping[str, object], name: str) -> object:
    outer, _, inner = name.partition(".")
    value = file.get(outer)
    if inner and isinstance(value, dict) and inner in value:
        return value[inner]  # null, too: it need not be what holds by default
    return _find_default(name) if inner or value is None else value


def _find_default(name: str) -> object:
    outer, _, inner = name.partition(".")
    found = LaunchSpec.model_fields[outer]
    value = "" if found.is_required() else found.default
    if inner:
        return getattr(value, inner, "")  # of nothing, where the outer field is null
    return list(value) if isinstance(value, tuple) else value


def _show_value(each: LaunchField, value: object) -> Value:
    if each.kind == "tick":
        return value is True
    if each.kind in ("ticks", "lines"):
        names = value if isinstance(value, list | tuple) else [value]
        if each.name == "author_agents":
            names = [ONE_CALL if name is None else name for name in names]
        return list(dict.fromkeys(str(name).strip() for name in names if name not in (None, "")))
    return "" if value is None else " ".join(str(value).split())


def _read_value(each: LaunchField, value: Value) -> object:
    """Return the file's value. What is not a number stays as typed: the check then says what was expected."""
    if each.kind == "number":
        return _parse_number(str(value))
    if each.name in _MODELS:
        return value or [None]
    if each.name == "author_agents":
        return [None if name == ONE_CALL else name for name in value] if isinstance(value, list) and value else [None]
    if each.name in ("judge_model", "notice"):
        return value or None
    if each.name == "prompts":
        return value or [OWN]
    return value


def _parse_number(text: str) -> int | float | str | None:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text or None


# --- what there is to choose ------------------------------------------------------------------------------------


def draw_fields(values: Mapping[str, Value], problems: Mapping[str, Sequence[str]]) -> dict[str, ShownField]:
    """Field -> what the page draws of it. `problems`: field -> sentences."""
    options = _build_options(values)
    shown = {name: _draw_field(each, values[name], options.get(name, ()), problems) for name, each in FIELDS.items()}
    for name in _list_idle(values):
        shown[name] = replace(shown[name], is_idle=not (shown[name].errors or is_set(values, name)))
    for name in _SESSION:
        shown[name] = replace(shown[name], field=_tell_limit(shown[name].field, str(values["protocol"])))
    return shown


def _list_idle(values: Mapping[str, Value]) -> set[str]:
    """Fields about authors that nobody reads: no chosen condition asks a model, or no agent works for one."""
    protocol = str(values["protocol"])
    writing = [each for name in _names(values, "conditions") if (each := _find_writing(name, protocol))]
    idle = set() if writing else set(_SAMPLING)
    if all(each.mode_at_start is AuthorMode.OUTSIDE for each in writing):
        return {*idle, *_SESSION, "author_agents"}
    return idle if set(_names(values, "author_agents")) - {ONE_CALL} else {*idle, *_SESSION}


def _names(values: Mapping[str, Value], name: str) -> list[str]:
    found = values[name]
    return found if isinstance(found, list) else []


def _find_writing(name: str, protocol: str) -> Condition | None:
    """The condition if an author works under it; None, too, where the check says that there is no such condition."""
    with suppress(SetupError):
        found = find_condition(name, protocol)
        return found if found.has_author else None
    return None


def _tell_limit(each: LaunchField, protocol: str) -> LaunchField:
    """With what holds where nothing is typed: the protocol's paper has its own."""
    with suppress(SetupError):
        return replace(
            each, help=f"Empty: {getattr(protocols.author_limits(protocol), each.name.partition('.')[2]):,.0f}."
        )
    return each


def find_field(problem: str) -> LaunchField | None:
    """Return the field that shows a problem; None if no field does."""
    return next((each for name, each in FIELDS.items() if _belongs_to(problem, name)), None)


def _draw_field(
    each: LaunchField, value: Value, options: Sequence[Option], problems: Mapping[str, Sequence[str]]
) -> ShownField:
    known = {option.value for option in options}
    rest = ""
    if isinstance(value, list):
        rest = "\n".join(name for name in value if each.kind == "lines" or name not in known)
    elif each.kind == "choice" and isinstance(value, str) and value not in known:
        options = [*options, Option(value, value or "choose one")]
    told = [text for name, texts in problems.items() if _belongs_to(name, each.name) for text in texts]
    return ShownField(each, value, tuple(options), rest, tuple(told))


def _belongs_to(problem: str, name: str) -> bool:
    """ "conditions.0" belongs to the field "conditions"."""
    return problem == name or problem.startswith(f"{name}.")


def _build_options(values: Mapping[str, Value]) -> dict[str, Sequence[Option]]:
    models = list_models()
    return {
        "suite": list_suite_options(),
        "protocol": [Option(name, name) for name in OFFERED],
        "conditions": _list_conditions(str(values["protocol"])),
        "agents": [
            *(Option(name, name, said) for name, said in AGENT_NOTES.items()),
            Option(PUBLISHED_HARNESS, PUBLISHED_HARNESS, "The program the model was published with."),
        ],
        "author_agents": [
            Option(ONE_CALL, "one call", "No agent. The model is asked once for each answer."),
            *(Option(name, name, said) for name, said in AGENT_NOTES.items() if name not in MODELLESS | IN_HARBOR),
        ],
        "agent_models": models,
        "author_models": [*models, *_list_generators()],
        "sandbox": [Option(name, name) for name in SANDBOXES],
        "feedback": [Option(name, name) for name in get_args(FeedbackLevel)],
        "profile": [Option(name, name) for name in get_args(Profile)],
        "notice": _list_notices(str(values["protocol"])),
        "order": [Option(name, name) for name in get_args(Order)],
    }


def list_models() -> list[Option]:
    """The script, then every preset."""
    scripted = Option("scripted/apprentice", "scripted/apprentice", "A script. It says nothing about any model.")
    return [scripted, *_list_presets()]


def list_suite_options() -> list[Option]:
    """Those that come along, then those that were loaded from a folder, with the tasks on record."""
    loaded = Suite.objects.exclude(path="").order_by("key")
    counted = dict(loaded.annotate(total=Count("tasks")).values_list("key", "total"))
    bundled = [Option(key, key, f"{_count_bundled(key)} tasks, bundled") for key in SUITES]
    return [
        *bundled,
        *(
            Option(key, key, f"{count:,} task{'' if count == 1 else 's'}")
            for key, count in counted.items()
            if key not in SUITES
        ),
    ]


@cache
def _count_bundled(key: str) -> int:
    return sum(len(family.tasks) for part in find_suite(key).environments for family in part.families)


def _list_notices(protocol: str) -> list[Option]:
    published = ""
    with suppress(SetupError):
        published = f": {protocols.published_notice(protocol)}"
    return [Option("", f"as published{published}"), *(Option(name, name) for name in get_args(Notice))]


def _list_conditions(protocol: str) -> list[Option]:
    try:
        found = conditions_of(protocol)
    except SetupError:
        return []
    return [Option(name, name, _describe(each)) for name, each in found.items()]


def _describe(condition: Condition) -> str:
    if condition.mode_at_start is AuthorMode.OUTSIDE:
        return "an outside program writes; @N tokens"
    told = {"rounds": "@N rounds", "generation_tokens": "@N tokens", "seeds": "@N seed instances", "": ""}
    return told[condition.parameter] if condition.has_author else ""


def _list_generators() -> list[Option]:
    try:
        found = sorted(generator_folders())
    except SetupError as error:
        return [Option("", "generators cannot be read", str(error))]
    return [option for name in found for option in _list_forms(name)]


def _list_forms(generator: str) -> Iterator[Option]:
    """A generator as an author model: by itself, or with each preset that it could call."""
    name = f"{PROVIDER}/{generator}"
    try:
        wire = find_generator(generator).wire
        presets = [read_preset_named(preset) for preset in sorted(preset_files())] if wire else []
    except SetupError:
        wire, presets = "", []  # if chosen anyway, the check says what is wrong
    if not wire:
        yield Option(name, name, "a program; for plug-in")
    for preset in presets:
        with suppress(SetupError):
            require_reachable(preset, wire, name)
            yield Option(f"{name}+{preset.name}", f"{name}+{preset.name}", "a program and its model; for plug-in")


def _list_presets() -> list[Option]:
    """Each with the variables it reads that this process does not have: the workers may."""
    try:
        files = preset_files()
    except SetupError as error:
        return [Option("", "presets cannot be read", str(error))]
    return [_describe_preset(name) for name in sorted(files)]


def _describe_preset(name: str) -> Option:
    try:
        preset = read_preset(preset_files()[name])
    except SetupError as error:
        return Option(name, name, f"cannot be read: {error}")
    missing = tuple(variable for variable in preset.variables if not os.environ.get(variable))
    said = f"{', '.join(missing)} not set here" if missing else "key set" if preset.variables else "no key needed"
    return Option(name, name, f"{said} · {preset.harness}", missing)


def units(values: Mapping[str, Value]) -> list[str]:
    """Keys of the parts that the chosen protocol makes of the chosen suite; none where either cannot be read."""
    try:
        return [unit.key for unit in protocols.units(str(values["protocol"]), find_suite(str(values["suite"])))]
    except RunnerError:
        return []
