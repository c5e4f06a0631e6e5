"""SWE-agent's trajectories: <run folder>/<instance>/<instance>.traj, or .traj files side by side.

A folder of trajectories is an experiment with one run for each model. SWE-agent judges nothing: how a patch fared is
told by another tool, so trials are unscored, never failed.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from benchapp.importers.sources import (
    UNKNOWN,
    Choice,
    ExceptionSource,
    ExperimentSource,
    FoundExperiment,
    RunSource,
    TaskSource,
    Timing,
    TrajectorySource,
    TrialSource,
)
from benchapp.importers.walking import Entry, Root, name_of
from runner.trajectories.problems import Problems
from runner.trajectories.reading import read_trajectory, sniff
from runner.trajectories.streams import walk
from runner.trajectories.text import clean, storable_value
from runner.types import Usage

NAME = "swe-agent"
SUFFIXES = frozenset({".traj"})
SUBMITTED = "submitted"
_STREAMED = frozenset({"trajectory", "history"})
_KEPT_CHARS = 200_000  # of each text of the config that is kept


def claims_file(root: Root, entry: Entry) -> bool:
    with root.open(entry.path) as stream:
        return sniff(stream) == NAME


def find_files(root: Root, entries: Sequence[Entry]) -> Iterator[FoundExperiment]:
    """One experiment for each folder of trajectories."""
    grouped: defaultdict[Path, list[Instance]] = defaultdict(list)
    for entry in entries:
        own_folder = entry.path.parent.name == entry.path.stem
        folder = entry.path.parent.parent if own_folder else entry.path.parent
        grouped[folder].append(Instance(root, entry, folder))
    for folder, instances in grouped.items():
        source = ExperimentSource(
            key=f"{NAME}:{name_of(folder)}",
            name=f"SWE-agent {name_of(folder)}",
            path=root.label(folder) if folder.is_relative_to(root.base) else root.label(root.base),
            spec={"format": NAME},
            suite=NAME,
        )
        yield FoundExperiment(source, trials=tuple(sorted(instances, key=lambda found: found.order)))


@dataclass
class Instance:
    """One .traj file (sources.FoundTrial)."""

    root: Root
    entry: Entry
    folder: Path

    def __post_init__(self) -> None:
        self.path = self.root.label(self.entry.path)
        self.task = name_of(self.entry.path.with_suffix(""))
        self.ids = (f"{NAME}:{name_of(self.folder)}/{self.task}",)
        self.order = (self.task,)

    def digest(self) -> str:
        with self.root.open(self.entry.path) as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()

    @cached_property
    def _told(self) -> dict[str, Any]:
        """Everything at the top of the file but its steps."""
        with self.root.open(self.entry.path) as stream:
            items = walk(stream, Problems(), streamed=_STREAMED)
            return {key: storable_value(value) for key, value in items if key not in _STREAMED}

    def read(self) -> TrialSource:
        info = _object(self._told.get("info"))
        config = _replay_config(self._told.get("replay_config"))
        head = read_trajectory(lambda: self.root.open(self.entry.path))
        source = TrajectorySource(self.entry.path.name, lambda: self.root.open(self.entry.path), self.entry.size)
        ended = str(info.get("exit_status") or "")
        return TrialSource(
            run=RunSource(
                harness=NAME,
                harness_version=head.head.agent_version or "",
                agent_model=_model(config) or UNKNOWN,
                author_model="",
                skills=name_of(self.folder),
                setup={"source": NAME, "folder": name_of(self.folder)},
            ),
            task=TaskSource(NAME, self.task, self.task),
            timing=Timing(),
            verdict=None,
            config=_short({"info": info, "environment": self._told.get("environment"), "replay_config": config}),
            choices=(Choice((source,)),),
            exception=ExceptionSource(clean(ended)[:200], "") if ended and ended != SUBMITTED else None,
            usage=head.reported or Usage(),
            agent=NAME,
        )


def _replay_config(value: Any) -> Mapping[str, Any]:
    """An object, or its JSON as a text."""
    if isinstance(value, str) and len(value) < 8 * 1024 * 1024:
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return _object(storable_value(value))


def _model(config: Mapping[str, Any]) -> str:
    agent = _object(config.get("agent"))
    named = _object(agent.get("model")).get("name") or _object(agent.get("model")).get("model_name")
    return clean(named)[:200] if isinstance(named, str) else ""


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _short(value: Any) -> Any:
    if isinstance(value, str):
        return value[:_KEPT_CHARS]
    if isinstance(value, Mapping):
        return {key: _short(item) for key, item in value.items()}
    return [_short(item) for item in value] if isinstance(value, list) else value
