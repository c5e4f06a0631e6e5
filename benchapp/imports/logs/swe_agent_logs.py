"""Trajectories of SWE-agent and mini-swe-agent: <run folder>/<instance>/<instance>.traj (or .traj.json), or side by
side.

A folder of trajectories is an experiment with one run for each model, named by the end of its path, because `trajs`
alone is not unique. Neither program judges a patch, another tool does: trials are unscored, never failed.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchapp.imports.reading import found_sources as sources
from benchapp.imports.reading.documents import read_rest
from benchapp.imports.reading.walking import TAIL, FolderEntry, Root, name_of, tail_of
from runner.base.text import clean, storable, storable_value
from runner.base.types import JsonValue, Usage
from runner.trajectories.readers.reading import read_trajectory, sniff

NAME = "swe-agent"
TITLE = "SWE-agent"
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
    """Recognise the program's logs and predictions, named after an instance or the whole run."""
    stems = {(entry.path.parent, _stem(entry.path)) for entry in entries}

    def belongs(entry: FolderEntry) -> bool:
        parts = entry.path.name.split(".")
        named = (".".join(parts[:length]) for length in range(1, len(parts)))
        return entry.path.name in _BESIDE or any((entry.path.parent, stem) in stems for stem in named)

    return belongs


def find_files(root: Root, entries: Sequence[FolderEntry]) -> Iterator[sources.FoundExperiment]:
    """Build one experiment for each folder of trajectories."""
    grouped: defaultdict[Path, list[FolderEntry]] = defaultdict(list)
    for entry in entries:
        own_folder = entry.path.parent.name == _stem(entry.path)
        grouped[entry.path.parent.parent if own_folder else entry.path.parent].append(entry)
    names = _names(list(grouped))
    for folder, mine in grouped.items():
        name = names[folder]
        source = sources.ExperimentSource.of_folder(root, folder, format=NAME, title=TITLE, name=name)
        instances = [SweAgentInstance(root, entry, name) for entry in mine]
        sources.separate_namesakes(instances)
        yield sources.FoundExperiment(source, trials=tuple(sorted(instances, key=lambda found: found.order)))


def _names(folders: Sequence[Path]) -> dict[Path, str]:
    """Name each folder by the end of its path, longer where two of them end alike."""
    longest = max((len(folder.parts) for folder in folders), default=0)
    names: dict[Path, str] = {}
    for length in range(TAIL, max(TAIL, longest) + 1):
        tails = {folder: tail_of(folder, length) for folder in folders if folder not in names}
        counts = Counter(tails.values())
        names |= {folder: tail for folder, tail in tails.items() if counts[tail] == 1 or length >= longest}
    return names


def _stem(path: Path) -> str:
    """Return the instance that a file is named after."""
    return next((path.name.removesuffix(ending) for ending in _ENDINGS if path.name.endswith(ending)), path.name)


@dataclass
class SweAgentInstance:
    """One trajectory (found_sources.ClaimingTrial). `folder`: the name of the run's folder."""

    root: Root
    entry: FolderEntry
    folder: str

    def __post_init__(self) -> None:
        self.path = self.root.label(self.entry.path)
        self.task = storable(_stem(self.entry.path))
        self.ids = (f"{NAME}:{self.folder}/{self.task}",)
        self.order = (self.task, name_of(self.entry.path))

    def report_duplicate(self, ident: str, other: str) -> None:
        message = f"{self.task} is also that of {other}; both are kept"
        self.root.report(self.entry.path, "", "one trajectory for each instance of a run", message)
        self.ids = (f"{ident}@{name_of(self.entry.path)}",)

    def digest(self) -> str:
        return self.root.sha256(self.entry.path)

    def read(self) -> sources.TrialSource:
        source = sources.TrajectorySource.of_file(self.root, self.entry)
        top = read_rest(self.root, self.entry.path, source.open, streamed=_STREAMED, wanted=("info",))
        info = dict(_object(top.get("info")))
        config = _config(top.get("replay_config") or info.pop("config", None))
        trajectory = read_trajectory(source.open)
        agent = trajectory.head.agent_name or NAME
        ended = str(info.get("exit_status") or "")
        return sources.TrialSource(
            run=sources.RunSource(
                harness=agent,
                harness_version=trajectory.head.agent_version or "",
                agent_model=_model(config) or sources.UNKNOWN,
                author_model="",
                skills=self.folder,
                setup={"source": NAME, "folder": self.folder},
            ),
            task=sources.TaskSource(NAME, self.task, self.task),
            timing=sources.Timing(),
            verdict=None,
            config={
                name: _shorten(value)
                for name, value in (("info", info), ("environment", top.get("environment")), ("config", config))
            },
            choices=(sources.SourceChoice((source,)),),
            exception=sources.ExceptionSource(clean(ended)[:200], "") if ended and ended.lower() != SUBMITTED else None,
            usage=trajectory.reported or Usage(),
            agent=agent,
        )


def _config(value: JsonValue) -> dict[str, JsonValue]:
    """SWE-agent's replay_config or mini-swe-agent's config: an object, or its JSON as a text."""
    if isinstance(value, str) and len(value) < 8 * 1024 * 1024:
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return _object(storable_value(value))


def _model(config: dict[str, JsonValue]) -> str:
    model = _object(_object(config.get("agent")).get("model")) or _object(config.get("model"))
    named = model.get("name") or model.get("model_name")
    return clean(named)[:200] if isinstance(named, str) else ""


def _object(value: JsonValue) -> dict[str, JsonValue]:
    return value if isinstance(value, dict) else {}


def _shorten(value: JsonValue) -> JsonValue:
    if isinstance(value, str):
        return value[:_KEPT_CHARS]
    if isinstance(value, dict):
        return {key: _shorten(item) for key, item in value.items()}
    return [_shorten(item) for item in value] if isinstance(value, list) else value
