"""The steps of the launch page: presets, ways to remember as a table, models by whether their keys are here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchapp.experiments.launch_spec import SpecProblem
from benchapp.stats.comparing.condition_names import SHAPE_WORDS, ConditionName, Origin, name_condition
from inspector.pages.launch.launch import LaunchField, Option, ShownField, Value, find_field

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


@dataclass(frozen=True, slots=True)
class LaunchPreset:
    """A file to start from."""

    name: str  # in the address
    title: str
    says: str
    conditions: tuple[str, ...]
    replicates: int
    scripted: bool


@dataclass(frozen=True, slots=True)
class Way:
    """One condition as a box of the table."""

    option: Option
    name: ConditionName
    chosen: bool


@dataclass(frozen=True, slots=True)
class WayRow:
    """Who writes the first skill: a cell for each time of revision, and a sentence where there is only the first."""

    title: str
    says: str
    cells: tuple[tuple[Way, ...], ...]


@dataclass(frozen=True, slots=True)
class WayTable:
    heads: tuple[str, ...]
    rows: tuple[WayRow, ...]
    others: tuple[Way, ...]  # of no known origin


@dataclass(frozen=True, slots=True)
class ModelList:
    """`waiting`: (names of variables, models that need them), for models that nobody chose."""

    ready: tuple[Option, ...]
    waiting: tuple[tuple[str, tuple[Option, ...]], ...]

    @property
    def waiting_total(self) -> int:
        return sum(len(options) for _, options in self.waiting)


def describe_preset(name: str, file: Mapping[str, object]) -> LaunchPreset:
    """By name for those that come along, else as the file calls itself."""
    title, says = PRESET_WORDS.get(name, (str(file.get("name", name)), ""))
    conditions, replicates = file.get("conditions"), file.get("replicates")
    models = str(file.get("agent_model") or file.get("agent_models") or "")
    names = tuple(map(str, conditions)) if isinstance(conditions, list) else ()
    times = replicates if isinstance(replicates, int) else 3  # as LaunchSpec has it
    return LaunchPreset(name, title, says, names, times, "scripted/" in models)


def build_way_table(shown: ShownField) -> WayTable:
    chosen = shown.value if isinstance(shown.value, list) else []
    ways = [Way(option, name_condition(option.value), option.value in chosen) for option in shown.options]
    steps = sorted({way.name.step for way in ways if way.name.origin})
    rows = tuple(
        WayRow(title, says, tuple(_find_cell(ways, origin, step) for step in steps))
        for origin, (title, says) in ROWS.items()
        if any(way.name.origin is origin for way in ways)
    )
    others = tuple(way for way in ways if way.name.origin is None)
    return WayTable(tuple(SHAPE_WORDS[step] for step in steps), rows, others)


def _find_cell(ways: Sequence[Way], origin: Origin, step: int) -> tuple[Way, ...]:
    return tuple(way for way in ways if way.name.origin is origin and way.name.step == step)


def split_models(shown: ShownField) -> ModelList:
    """A chosen model is listed with the ready ones, even if something is missing."""
    chosen = shown.value if isinstance(shown.value, list) else []
    waiting: defaultdict[str, list[Option]] = defaultdict(list)
    ready = []
    for option in shown.options:
        if option.waits_for and option.value not in chosen:
            waiting[", ".join(option.waits_for)].append(option)
        else:
            ready.append(option)
    return ModelList(tuple(ready), tuple((names, tuple(found)) for names, found in waiting.items()))


def has_same_author(values: Mapping[str, Value]) -> bool:
    """Whether the agents' models write the skills as well."""
    agents, authors = values["agent_models"], values["author_models"]
    return isinstance(agents, list) and isinstance(authors, list) and bool(agents) and set(agents) == set(authors)


def place_problems(problems: Sequence[SpecProblem]) -> list[tuple[LaunchField | None, SpecProblem]]:
    """Return each problem with its field; None for problems of the whole file."""
    return [(find_field(problem.field), problem) for problem in problems]
