"""A user's rules for what the files do not say: YAML, matched by glob; a later rule wins field by field.

rules:
  - match: {path: "*noskills*", agent: "codex"}
    set: {condition: no-skill, replicate: 1}
  - match: {task: "sum-*"}
    set: {family: tables, role: canonical, phase: evaluation}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal, cast

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from benchapp.experiments.launch_spec import PlainYaml
from benchapp.imports.audited_edits import Author, RunEdit, TrialEdit, edit_scorer, edit_task, next_sample, note_change
from benchapp.imports.logs.lineage import BY_MAP, RESUME, SNAPSHOT, Lineage
from benchapp.imports.problems import ProblemList
from benchapp.imports.reading.found_sources import RunSource
from benchapp.models import Run, Trial
from benchapp.models.base import derived_id
from runner.base.types import JsonValue, Phase

MAX_BYTES = 1024 * 1024
Text = Annotated[str, Field(min_length=1, max_length=300)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="after")
    def _says_something(self) -> _Strict:
        if not self.model_fields_set:
            raise ValueError(f"expected at least one of {', '.join(type(self).model_fields)}")
        return self


class TrialMatch(_Strict):
    """Globs; `*` also crosses slashes. All given ones must match. `path` is the trial's, as on the command line."""

    path: Text | None = None
    task: Text | None = None
    agent: Text | None = None
    model: Text | None = None


class Settings(_Strict):
    condition: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    replicate: Annotated[int, Field(ge=1, le=10_000)] | None = None
    author_model: Annotated[str, Field(max_length=200)] | None = None
    family: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    role: Annotated[str, Field(min_length=1, max_length=32)] | None = None
    phase: Phase | None = None
    scorer: Text | None = None
    copy_of: Text | None = None
    copied_as: Literal["resume", "fork", "snapshot"] | None = None
    own_from_line: Annotated[int, Field(ge=1, le=10_000_000)] | None = None

    @property
    def run_edit(self) -> RunEdit:
        return cast(RunEdit, self._list_given(RunEdit.__annotations__))

    @property
    def trial_edit(self) -> TrialEdit:
        return cast(TrialEdit, self._list_given(TrialEdit.__annotations__))

    def _list_given(self, names: Iterable[str]) -> dict[str, object]:
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    def lineage_of(self, source_format: str) -> Lineage | None:
        """Return whose copy the rules call a session in that format: all of it, if no line for its own work is
        given."""
        if self.copy_of is None:
            return None
        copied = None if self.own_from_line is None else self.own_from_line - 1
        kind = self.copied_as or (SNAPSHOT if copied is None else RESUME)
        return Lineage(kind, f"{source_format}:{self.copy_of}", copied, BY_MAP)


NO_SETTINGS = Settings.model_construct(None)


class MappingRule(_Strict):
    match: TrialMatch
    set: Settings


class _Map(_Strict):
    rules: Annotated[list[MappingRule], Field(min_length=1)]


class MapError(ValueError):
    """The map cannot be used; nothing is imported. `problems` has every fault with its place."""

    def __init__(self, problems: ProblemList) -> None:
        super().__init__("the map cannot be used")
        self.problems = problems


@dataclass(slots=True)
class ImportMap:
    """Rules, and which of them matched anything."""

    path: str = ""
    rules: tuple[MappingRule, ...] = ()
    used: set[int] = field(default_factory=set)

    def match(self, run: RunSource, path: str, task: str) -> Settings:
        """Return what the rules set for one trial or library."""
        facts = {"path": path, "task": task, "agent": run.harness, "model": run.agent_model}
        found: dict[str, JsonValue] = {}
        for index, rule in enumerate(self.rules):
            if all(fnmatchcase(facts[name], glob) for name, glob in rule.match.model_dump(exclude_none=True).items()):
                self.used.add(index)
                found |= rule.set.model_dump(mode="json", exclude_unset=True)
        return Settings.model_construct(None, **found)

    def report_unused(self, problems: ProblemList) -> None:
        for index, rule in enumerate(self.rules):
            if index not in self.used:
                globs = rule.match.model_dump(exclude_none=True)
                problems.add(self.path, f"rules[{index}]", "a rule that matches something", f"{globs} matches nothing")


def read_map(path: Path) -> ImportMap:
    """Read the rules. Raise MapError with every fault if the file is not a map."""
    problems = ProblemList()
    try:
        content = path.read_bytes()[: MAX_BYTES + 1]
        if len(content) > MAX_BYTES:
            problems.add(str(path), "", f"a map of at most {MAX_BYTES:,} bytes", "a larger one")
            raise MapError(problems)
        found = _Map.model_validate(yaml.load(content, PlainYaml))  # noqa: S506 - a SafeLoader
    except OSError as error:
        problems.add(str(path), "", "a file that can be read", error.strerror or str(error))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1}, column {mark.column + 1}" if mark else "whole file"
        problems.add(str(path), place, "YAML", getattr(error, "problem", None) or str(error))
    except ValidationError as error:
        for place, message in _faults(error):
            problems.add(str(path), place, "a map of import rules", message)
    except (RecursionError, ValueError) as error:  # ValueError: not UTF-8, or an impossible date or number
        problems.add(str(path), "whole file", "YAML", f"{type(error).__name__}: {error}")
    else:
        return ImportMap(str(path), tuple(found.rules))
    raise MapError(problems)


def _faults(error: ValidationError) -> Iterator[tuple[str, str]]:
    for fault in error.errors(include_url=False, include_context=False):
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in fault["loc"]).lstrip(".")
        yield place or "whole file", fault["msg"]


SET_BY_MAP = "set by the map of an import"


@dataclass(slots=True)
class Remapping:
    author: Author
    left: set[int] = field(default_factory=set)  # runs that trials were moved out of

    def trial(self, trial: Trial, settings: Settings) -> bool:
        """Move a trial. Return whether it changed. Needs episode__run and task with family and suite."""
        edit = settings.trial_edit
        if not edit and not settings.run_edit:
            return False
        changed = edit_task(trial.task, edit, author=self.author, reason=SET_BY_MAP)
        if "scorer" in edit:
            changed |= edit_scorer(trial, edit["scorer"], author=self.author, reason=SET_BY_MAP)
        run = trial.episode.run
        wanted: dict[str, object] = {**settings.run_edit}
        before = {name: getattr(run, name) for name in wanted}
        phase = edit.get("phase", trial.phase)
        if before == wanted and phase == trial.phase:
            return changed
        if before != wanted:
            self._move(trial, run, wanted)
        before |= {"phase": trial.phase, "run": str(run.public_id)}
        trial.phase = phase
        trial.sample = next_sample(trial.episode_id, phase, trial.task_id)
        trial.save(update_fields=["episode", "phase", "sample"])
        note_change(Run.objects.filter(pk__in={run.pk, trial.episode.run_id}))
        after = {**wanted, "phase": phase, "run": str(trial.episode.run.public_id)}
        self.author.note(trial, before, after, SET_BY_MAP)
        return True

    def finish(self) -> None:
        """Remove the runs that are empty now: all their trials moved to the runs of the map."""
        left = Run.objects.filter(pk__in=self.left)
        left.exclude(episodes__trials__isnull=False).exclude(episodes__library__isnull=False).delete()

    def _move(self, trial: Trial, run: Run, wanted: Mapping[str, object]) -> None:
        """Move it to the episode of the same key in the run with the wanted values, created if missing."""
        names = ("experiment", "harness", "harness_version", "agent_model", "author_model", "condition", "replicate")
        values = {name: getattr(run, name) for name in (*names, "setup", "status")} | dict(wanted)
        key = [str(run.public_id), *(f"{name}={value}" for name, value in sorted(wanted.items()))]
        target, _ = Run.objects.get_or_create(
            public_id=derived_id("run", "mapped", *key),
            defaults={**values, "source_key": run.source_key},
        )
        self.left.add(run.pk)
        old = trial.episode
        trial.episode, _ = target.episodes.get_or_create(
            key=old.key,
            defaults={
                "public_id": derived_id("episode", str(target.public_id), old.key),
                "title": old.title,
                "family": old.family,
                "ordinal": old.ordinal,
                "is_ordered": False,
                "status": old.status,
            },
        )
