"""The launch form: the same experiment file as text and as fields.

The file is the truth. A changed field is written into the file; a changed file shows in the fields. An untouched field
writes nothing, so everything else in the file stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import yaml
from django.http import QueryDict

from benchapp.experiments.launch_spec import FIRST, SINGULAR, LaunchSpec, list_prompts, read_text
from benchapp.record.sets.suite_files import find_suite
from runner import protocols
from runner.base.errors import RunnerError, SetupError
from runner.prompts.roles import OWN

MAX_CHARACTERS = 64_000
MAX_NESTING = 40  # of brackets; a reader of YAML takes minutes over some thousands
Kind = Literal["text", "number", "choice", "ticks", "lines", "tick"]
Value = str | bool | list[str]


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
    LaunchField("worker_labels", "Labels of workers", "lines", "What a host must have, one per line: gpu, region=eu."),
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
SAMPLING = ("author_sampling.temperature", "author_sampling.max_tokens")
SESSION = ("author_limits.max_turns", "author_limits.max_output_tokens", "author_limits.timeout_seconds")
# How authors are asked: "More settings" opens where a file says something about it.
AUTHOR_SETTINGS = ("prompts", *SAMPLING, *SESSION)
# Behind "More settings": what the steps above have no place for.
MORE = (
    *("tasks", "samples", "answers", "seed", "order", "sandbox", "worker_labels", "feedback", "profile", "notice"),
    *("budget.usd", "budget.tokens", "limits.max_turns", "limits.max_output_tokens", "limits.timeout_seconds"),
    *("judge_model", "judging.model", "placebo_replay", "record"),
    *AUTHOR_SETTINGS,
)
ONE_CALL = "one-call"  # the box that stands for null in `author_agents`
SAME_AUTHOR = "same_author"  # a box: the agent that solves tasks also writes the skills


def read(text: str) -> dict[str, object]:
    """Read the file as a mapping. SetupError says what is wrong with it as YAML."""
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
    plural = name_in_plural(file)
    if "prompts" in plural:
        plural["prompts"] = list_prompts(plural["prompts"])
    return {name: _show_value(each, _read_at(plural, name)) for name, each in FIELDS.items()}


def name_in_plural(file: Mapping[str, object]) -> dict[str, object]:
    return {SINGULAR.get(name, name): [item] if name in SINGULAR else item for name, item in file.items()}


def values_sent(given: QueryDict) -> dict[str, Value]:
    """Return what the person left in the fields."""
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
    """Return the file with what differs between `before` and `after` written into it.
    What is as by default is left out."""
    found = name_in_plural(file)
    for name, value in after.items():
        old = before[name]
        if isinstance(value, list) and isinstance(old, list):
            if set(value) == set(old):  # boxes have an order of their own, which says nothing
                continue
            value = [*(each for each in old if each in value), *(each for each in value if each not in old)]
            named = found.get(name)
            if old and name in _MODELS and isinstance(named, list | tuple) and None in named:  # it has no box
                found[name] = [None, *value]
                continue
        if value != old:
            _put_value(found, name, _read_value(FIELDS[name], value))
    return found


def is_set(values: Mapping[str, Value], name: str) -> bool:
    """Return whether a field differs from a file without it."""
    return values[name] != _show_value(FIELDS[name], _find_default(name))


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


def units(values: Mapping[str, Value]) -> list[str]:
    """Return the keys of the parts that the chosen protocol makes of the chosen suite; none if either cannot be
    read."""
    try:
        return [unit.key for unit in protocols.units(str(values["protocol"]), find_suite(str(values["suite"])))]
    except RunnerError:
        return []
