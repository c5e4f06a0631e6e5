"""What the launch page draws of the file: every field with its choices, and its steps.

Steps: presets, ways to remember as a table, models by whether their keys are here, and what is stated for the plan."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import get_args

from django.db.models import Count

from benchapp.experiments.foresight import LaunchDesign
from benchapp.experiments.launch_spec import Order
from benchapp.experiments.plans import PUBLISHED_HARNESS
from benchapp.models import Suite
from benchapp.record.sets.suite_files import find_suite
from benchapp.stats.comparing.condition_names import SHAPE_WORDS, Origin, name_condition
from inspector.pages.launch.launch_form import FIELDS, ONE_CALL, SAMPLING, SESSION, LaunchField, Value, is_set
from runner import protocols
from runner.agents import IN_HARBOR, MODELLESS
from runner.authoring.occasion import FeedbackLevel, Profile
from runner.base.errors import SetupError
from runner.base.text import plural
from runner.base.types import AuthorMode
from runner.generators import PROVIDER, find_generator, generator_folders
from runner.generators.manifest import require_reachable
from runner.models.preset_file import read_preset
from runner.models.presets import preset_files, read_preset_named
from runner.protocols.conditions import conditions_of, find_condition
from runner.protocols.instruction import Notice
from runner.protocols.registry import OFFERED
from runner.sandboxes import SANDBOXES
from runner.suites import SUITES

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
ROWS = {
    Origin.NOBODY: ("Nobody", "The baseline. Every other condition is compared with it."),
    Origin.TRACES: ("Raw traces", "Shows earlier traces. Tests whether a skill says more."),
    Origin.HUMAN: ("A human", ""),
    Origin.MODEL: ("The model", ""),
}
# Title and sentence of the files that come along; another file has its own name.
PRESET_WORDS = {
    "demo": ("Try without a key", "Six conditions, once. See every page in use."),
    "replicates": ("Learn it three times", "Five conditions, three replicates. Differences can be tested."),
    "skillflow": ("SkillFlow", "Revise after every task, from easy to hard."),
    "skilllearnbench": ("SkillLearnBench", "Learn on one instance, solve the others."),
    "skillgenbench": ("SkillGenBench", "Write skills from a corpus, for a known task."),
    "skillgenbench-agnostic": ("SkillGenBench, unseen tasks", "Write skills from a corpus, before any task is seen."),
    "budget-sweep": ("Generation budgets", "One generator, four limits on what it may write."),
}
FRONT = ("demo", "replicates", "skillflow")  # cards; the others fold


STATED = {  # name in the plan -> label, unit, least and most that can be stated
    "difference": ("Difference to find", "points", 1.0, 98.0),
    "share": ("Passes", "percent", 0.0, 100.0),
    "task": ("Between tasks", "points, standard deviation", 0.0, 50.0),
    "episode": ("Between libraries", "points: what one library adds to all tasks that read it", 0.0, 50.0),
    "rerun": ("Between reruns", "points: what a whole rerun has in common", 0.0, 50.0),
}


@dataclass(frozen=True, slots=True)
class Option:
    """One thing that a field offers to choose."""

    value: str
    label: str
    note: str = ""
    waits_for: tuple[str, ...] = ()  # names of variables of a model that this process does not have


@dataclass(frozen=True, slots=True)
class ShownField:
    """A field with its value."""

    field: LaunchField
    value: Value
    options: tuple[Option, ...] = ()
    rest: str = ""  # of ticks: what no option has, one a line
    errors: tuple[str, ...] = ()
    is_idle: bool = False  # changes nothing as the other fields are: it stays in the form, out of sight


def draw_fields(values: Mapping[str, Value], problems: Mapping[str, Sequence[str]]) -> dict[str, ShownField]:
    """Return what the page draws of each field. `problems`: field -> sentences."""
    options, idle, limits = _build_options(values), _list_idle(values), None
    with suppress(SetupError):  # what holds where nothing is typed: the protocol's paper has its own
        limits = protocols.author_limits(str(values["protocol"]))
    shown = {}
    for name, each in FIELDS.items():
        value, offered, rest = values[name], list(options.get(name, ())), ""
        known = {option.value for option in offered}
        if isinstance(value, list):
            rest = "\n".join(word for word in value if each.kind == "lines" or word not in known)
        elif each.kind == "choice" and isinstance(value, str) and value not in known:
            offered.append(Option(value, value or "choose one"))
        errors = [text for place, texts in problems.items() if _belongs_to(place, name) for text in texts]
        if limits and name in SESSION:
            each = replace(each, help=f"Empty: {getattr(limits, name.partition('.')[2]):,.0f}.")
        is_idle = name in idle and not errors and not is_set(values, name)
        shown[name] = ShownField(each, value, tuple(offered), rest, tuple(errors), is_idle)
    return shown


def _list_idle(values: Mapping[str, Value]) -> set[str]:
    """List fields about authors that nobody reads: no chosen condition asks a model, or no agent works for one."""
    writing = []
    for name in values["conditions"] if isinstance(values["conditions"], list) else ():
        with suppress(SetupError):  # the check says that there is no such condition
            writing.append(find_condition(name, str(values["protocol"])))
    writing = [each for each in writing if each.has_author]
    idle = set() if writing else set(SAMPLING)
    if all(each.mode_at_start is AuthorMode.OUTSIDE for each in writing):
        return {*idle, *SESSION, "author_agents"}
    works = values["author_agents"]
    return idle if isinstance(works, list) and set(works) - {ONE_CALL} else {*idle, *SESSION}


def find_field(problem: str) -> LaunchField | None:
    """Return the field that shows a problem; None if no field does."""
    return next((each for name, each in FIELDS.items() if _belongs_to(problem, name)), None)


def _belongs_to(problem: str, name: str) -> bool:
    """Does the problem's place belong to the field? "conditions.0" belongs to "conditions"."""
    return problem == name or problem.startswith(f"{name}.")


def _build_options(values: Mapping[str, Value]) -> dict[str, Sequence[Option]]:
    models, protocol = list_models(), str(values["protocol"])
    published = ""
    with suppress(SetupError):
        published = f": {protocols.published_notice(protocol)}"
    return {
        "suite": list_suite_options(),
        "protocol": _list_names(OFFERED),
        "conditions": _list_conditions(protocol),
        "agents": [
            *(Option(name, name, note) for name, note in AGENT_NOTES.items()),
            Option(PUBLISHED_HARNESS, PUBLISHED_HARNESS, "The program the model was published with."),
        ],
        "author_agents": [
            Option(ONE_CALL, "one call", "No agent. The model is asked once for each answer."),
            *(Option(name, name, note) for name, note in AGENT_NOTES.items() if name not in MODELLESS | IN_HARBOR),
        ],
        "agent_models": models,
        "author_models": [*models, *_list_generators()],
        "sandbox": _list_names(SANDBOXES),
        "feedback": _list_names(get_args(FeedbackLevel)),
        "profile": _list_names(get_args(Profile)),
        "notice": [Option("", f"as published{published}"), *_list_names(get_args(Notice))],
        "order": _list_names(get_args(Order)),
    }


def _list_names(names: Iterable[str]) -> list[Option]:
    return [Option(name, name) for name in names]


def list_models() -> list[Option]:
    """List the script, then every preset with the variables it reads that this process does not have:
    the workers may."""
    found = [Option("scripted/apprentice", "scripted/apprentice", "A script. It says nothing about any model.")]
    try:
        files = preset_files()
    except SetupError as error:
        return [*found, Option("", "presets cannot be read", str(error))]
    for name in sorted(files):
        try:
            preset = read_preset(files[name])
        except SetupError as error:
            found.append(Option(name, name, f"cannot be read: {error}"))
            continue
        missing = tuple(variable for variable in preset.variables if not os.environ.get(variable))
        key = f"{', '.join(missing)} not set here" if missing else "key set" if preset.variables else "no key needed"
        found.append(Option(name, name, f"{key} · {preset.harness}", missing))
    return found


def list_suite_options() -> list[Option]:
    """List those that come along, then those that were loaded from a folder, with the tasks on record."""
    loaded = Suite.objects.exclude(path="").exclude(key__in=SUITES).order_by("key").annotate(total=Count("tasks"))
    counted = [(key, plural(total, "task")) for key, total in loaded.values_list("key", "total")]
    bundled = [(key, f"{_count_bundled(key)} tasks, bundled") for key in SUITES]
    return [Option(key, key, note) for key, note in (*bundled, *counted)]


@cache
def _count_bundled(key: str) -> int:
    return sum(len(family.tasks) for part in find_suite(key).environments for family in part.families)


def _list_conditions(protocol: str) -> list[Option]:
    try:
        found = conditions_of(protocol)
    except SetupError:
        return []
    limits = {"rounds": "@N rounds", "generation_tokens": "@N tokens", "seeds": "@N seed instances", "": ""}
    options = []
    for name, each in found.items():
        note = limits[each.parameter] if each.has_author else ""
        if each.mode_at_start is AuthorMode.OUTSIDE:
            note = "an outside program writes; @N tokens"
        options.append(Option(name, name, note))
    return options


def _list_generators() -> Iterator[Option]:
    """Yield each generator as an author model: by itself, or with each preset that it could call."""
    try:
        found = sorted(generator_folders())
    except SetupError as error:
        yield Option("", "generators cannot be read", str(error))
        return
    for generator in found:
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


# --- steps ------------------------------------------------------------------------------------------------------------


def describe_preset(name: str, file: Mapping[str, object]) -> dict[str, object]:
    """Describe a file to start from: by name for those that come along, else as the file calls itself."""
    title, about = PRESET_WORDS.get(name, (str(file.get("name", name)), ""))
    conditions, replicates = file.get("conditions"), file.get("replicates")
    return {
        "name": name,  # in the address
        "title": title,
        "says": about,
        "conditions": conditions if isinstance(conditions, list) else [],
        "replicates": replicates if isinstance(replicates, int) else 3,  # as LaunchSpec has it
        "scripted": "scripted/" in str(file.get("agent_model") or file.get("agent_models") or ""),
    }


def build_way_table(shown: ShownField) -> dict[str, object]:
    """Return conditions as boxes of a table.

    `rows`: who writes the first skill, with a cell for each time of revision, and a sentence where there is only the
    first. `others`: conditions of no known origin."""
    chosen = shown.value if isinstance(shown.value, list) else []
    ways = [(name_condition(option.value), option) for option in shown.options]
    steps = sorted({name.step for name, _ in ways if name.origin})

    def list_boxes(origin: Origin | None, step: int | None = None) -> list[dict[str, object]]:
        return [
            {"option": option, "name": name, "chosen": option.value in chosen}
            for name, option in ways
            if name.origin is origin and step in (None, name.step)
        ]

    return {
        "heads": [SHAPE_WORDS[step] for step in steps],
        "rows": [
            {"title": title, "says": about, "cells": [list_boxes(origin, step) for step in steps]}
            for origin, (title, about) in ROWS.items()
            if list_boxes(origin)
        ],
        "others": list_boxes(None),
    }


def split_models(shown: ShownField) -> dict[str, object]:
    """Return the models that are ready, and those that wait for variables, which nobody chose.

    A chosen model is listed with the ready ones, even if something is missing."""
    waiting: defaultdict[str, list[Option]] = defaultdict(list)
    ready = []
    for option in shown.options:
        if option.waits_for and not (isinstance(shown.value, list) and option.value in shown.value):
            waiting[", ".join(option.waits_for)].append(option)
        else:
            ready.append(option)
    return {"ready": ready, "waiting": list(waiting.items()), "waiting_total": sum(map(len, waiting.values()))}


def has_same_author(values: Mapping[str, Value]) -> bool:
    """Return whether the agents' models write the skills as well."""
    agents, authors = values["agent_models"], values["author_models"]
    return isinstance(agents, list) and isinstance(authors, list) and bool(agents) and set(agents) == set(authors)


def read_stated(sent: Mapping[str, str]) -> dict[str, float | str]:
    """Read what somebody states for the plan, which is not part of the file: in percent, or what is wrong with it."""
    found: dict[str, float | str] = {}
    for name, (_, _, least, most) in STATED.items():
        if text := sent.get(f"plan.{name}", "").strip():
            try:
                value = float(text)
            except ValueError:
                value = -1.0
            found[name] = value if least <= value <= most else f"expected a number from {least:g} to {most:g}"
    return found


def draw_stated(sent: Mapping[str, str], design: LaunchDesign | None) -> list[dict[str, str]]:
    """Return its fields: `text` as it was typed; `used`: what the plan has."""
    read, fields = read_stated(sent), []
    for name, (label, unit, _, _) in STATED.items():
        used, error = "", read.get(name)
        if design:
            value = design.difference if name == "difference" else float(getattr(design.spread, name))
            used = f"{100 * value:.3g}"
        fields.append(
            {
                "name": name,
                "id": f"id_plan_{name}",
                "label": label,
                "help": unit,
                "text": sent.get(f"plan.{name}", "").strip()[:20],
                "used": used,
                "error": error if isinstance(error, str) else "",
            }
        )
    return fields
