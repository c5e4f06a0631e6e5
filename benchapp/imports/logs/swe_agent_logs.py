"""Trajectories of SWE-agent and mini-swe-agent: <run folder>/<instance>/<instance>.traj (or .traj.json), or side by side.

A folder of trajectories is an experiment with one run for each model, named by the end of its path: `trajs` alone names
half of all folders. Neither program judges: how a patch fared is told by another tool, so trials are unscored, never
failed.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from benchapp.imports.reading.breaks import report_lost
from benchapp.imports.reading.found_sources import (
    UNKNOWN,
    ExceptionSource,
    ExperimentSource,
    FoundExperiment,
    RunSource,
    SourceChoice,
    TaskSource,
    Timing,
    TrajectorySource,
    TrialSource,
)
from benchapp.imports.reading.walking import TAIL, FolderEntry, Root, name_of, tail_of
from runner.base.text import clean, storable, storable_value
from runner.base.types import Usage
from runner.trajectories.problems import Problems
from runner.trajectories.readers.line_streams import walk
from runner.trajectories.readers.reading import read_trajectory, sniff

NAME = "swe-agent"
SUFFIXES = frozenset({".traj", ".json"})
HARNESSES = frozenset({NAME, "mini-swe-agent"})  # their logs are formats of the same names
SUBMITTED = "submitted"
_BESIDE = frozenset({"preds.json", "all_preds.jsonl", "run_batch.log", "minisweagent.log"})
_ENDINGS = (".traj.json", ".traj", ".json")
_STREAMED = frozenset({"trajectory", "history", "messages"})
_KEPT_CHARS = 200_000  # of each text of the config that is kept


def claims_file(root: Root, entry: FolderEntry) -> bool:
    with root.open(entry.path) as stream:
        return sniff(stream) in HARNESSES


def is_companion(entries: Sequence[FolderEntry]) -> Callable[[FolderEntry], bool]:
    """Logs of the program and predictions, named after an instance or the whole run."""
    stems = {(entry.path.parent, _stem(entry.path)) for entry in entries}

    def belongs(entry: FolderEntry) -> bool:
        parts = entry.path.name.split(".")
        named = (".".join(parts[:length]) for length in range(1, len(parts)))
        return entry.path.name in _BESIDE or any((entry.path.parent, stem) in stems for stem in named)

    return belongs


def find_files(root: Root, entries: Sequence[FolderEntry]) -> Iterator[FoundExperiment]:
    """One experiment for each folder of trajectories."""
    grouped: defaultdict[Path, list[FolderEntry]] = defaultdict(list)
    for entry in entries:
        own_folder = entry.path.parent.name == _stem(entry.path)
        grouped[entry.path.parent.parent if own_folder else entry.path.parent].append(entry)
    names = _names(list(grouped))
    for folder, mine in grouped.items():
        name = names[folder]
        source = ExperimentSource(
            key=f"{NAME}:{name}",
            name=f"SWE-agent {name}",
            path=root.label(folder) if folder.is_relative_to(root.base) else root.label(root.base),
            spec={"format": NAME},
            suite=NAME,
        )
        instances = _told_apart([SweAgentInstance(root, entry, name) for entry in mine])
        yield FoundExperiment(source, trials=tuple(sorted(instances, key=lambda found: found.order)))


def _names(folders: Sequence[Path]) -> dict[Path, str]:
    """The end of each folder's path; more of it where two of them end alike."""
    longest = max((len(folder.parts) for folder in folders), default=0)
    names: dict[Path, str] = {}
    for length in range(TAIL, max(TAIL, longest) + 1):
        tails = {folder: tail_of(folder, length) for folder in folders if folder not in names}
        counts = Counter(tails.values())
        names |= {folder: tail for folder, tail in tails.items() if counts[tail] == 1 or length >= longest}
    return names


def _stem(path: Path) -> str:
    """The instance that a file is named after."""
    return next((path.name.removesuffix(ending) for ending in _ENDINGS if path.name.endswith(ending)), path.name)


def _told_apart(instances: Sequence[SweAgentInstance]) -> Sequence[SweAgentInstance]:
    """Two trajectories of one instance are both kept, the second under an id derived from its path, and reported."""
    first: dict[str, SweAgentInstance] = {}
    for instance in instances:
        other = first.setdefault(instance.ids[0], instance)
        if other is not instance:
            expected = "one trajectory for each instance of a run"
            message = f"{instance.task} is also that of {other.path}; both are kept"
            instance.root.report(instance.entry.path, "", expected, message)
            instance.ids = (f"{instance.ids[0]}@{name_of(instance.entry.path)}",)
    return instances


@dataclass
class SweAgentInstance:
    """One trajectory (found_sources.FoundTrial). `folder`: the name of the run's folder."""

    root: Root
    entry: FolderEntry
    folder: str

    def __post_init__(self) -> None:
        self.path = self.root.label(self.entry.path)
        self.task = storable(_stem(self.entry.path))
        self.ids = (f"{NAME}:{self.folder}/{self.task}",)
        self.order = (self.task, name_of(self.entry.path))

    def digest(self) -> str:
        return self.root.sha256(self.entry.path)

    @cached_property
    def _told(self) -> dict[str, Any]:
        """Everything at the top of the file but its steps."""
        problems = Problems()
        with self.root.open(self.entry.path) as stream:
            items = walk(stream, problems, streamed=_STREAMED)
            told = {key: storable_value(value) for key, value in items if key and key not in _STREAMED}
        report_lost(self.root, self.entry.path, problems, told, ("info",))
        return told

    def read(self) -> TrialSource:
        info = dict(_object(self._told.get("info")))
        config = _config(self._told.get("replay_config") or info.pop("config", None))
        head = read_trajectory(lambda: self.root.open(self.entry.path))
        source = TrajectorySource(self.entry.path.name, lambda: self.root.open(self.entry.path), self.entry.size)
        ended = str(info.get("exit_status") or "")
        return TrialSource(
            run=RunSource(
                harness=head.head.agent_name or NAME,
                harness_version=head.head.agent_version or "",
                agent_model=_model(config) or UNKNOWN,
                author_model="",
                skills=self.folder,
                setup={"source": NAME, "folder": self.folder},
            ),
            task=TaskSource(NAME, self.task, self.task),
            timing=Timing(),
            verdict=None,
            config=_short({"info": info, "environment": self._told.get("environment"), "config": config}),
            choices=(SourceChoice((source,)),),
            exception=ExceptionSource(clean(ended)[:200], "") if ended and ended.lower() != SUBMITTED else None,
            usage=head.reported or Usage(),
            agent=head.head.agent_name or NAME,
        )


def _config(value: Any) -> Mapping[str, Any]:
    """SWE-agent's replay_config or mini-swe-agent's config: an object, or its JSON as a text."""
    if isinstance(value, str) and len(value) < 8 * 1024 * 1024:
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return _object(storable_value(value))


def _model(config: Mapping[str, Any]) -> str:
    model = _object(_object(config.get("agent")).get("model")) or _object(config.get("model"))
    named = model.get("name") or model.get("model_name")
    return clean(named)[:200] if isinstance(named, str) else ""


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _short(value: Any) -> Any:
    if isinstance(value, str):
        return value[:_KEPT_CHARS]
    if isinstance(value, Mapping):
        return {key: _short(item) for key, item in value.items()}
    return [_short(item) for item in value] if isinstance(value, list) else value
