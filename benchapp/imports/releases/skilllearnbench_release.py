"""The SkillLearnBench release: skills/<config>/<task>/<skill>/... and eval_keypoints/<task>/<task>-N/....

A config is a run whose episodes are the tasks, each with one final library and no decision: the release keeps no
earlier round. The logs below eval_keypoints are oracle trajectories: a run of their own, without verdicts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from benchapp.imports.problems import render_found
from benchapp.imports.reading import found_sources as sources
from benchapp.imports.reading.documents import Document, read_json, read_optional
from benchapp.imports.reading.skill_history import read_files
from benchapp.imports.reading.trajectory_files import PREFERENCE
from benchapp.imports.reading.walking import FolderEntry, Root, name_of
from runner.base.text import clean
from runner.base.types import File
from runner.protocols.skilllearnbench import CONDITIONS
from runner.suites.tasks.key_points import FILES
from runner.trajectories.readers.reading import read_trajectory, sniff

NAME = "skilllearnbench"
TITLE = "SkillLearnBench"
OWN = frozenset({"skills", "eval_keypoints"})  # the folders that are read; its runner's output can be next to them
VENDORS = "claude|gemini|gpt|o3|o4|qwen|kimi|deepseek|glm|minimax|llama|mistral|grok"

_VENDOR = re.compile(rf"-(?=(?:{VENDORS})(?:-|\d|$))", re.I)
_NUMBERED = re.compile(r"^b\d+-")
_INSTANCE = re.compile(r"-(\d+)$")


def claims(root: Root, folder: Path) -> bool:
    """Does it have skills/<config>/<task>/<skill>/SKILL.md, or key points below eval_keypoints/?

    Collections of skills in folders look alike, so a config is named as the release names them, and has no SKILL.md
    of its own.
    """
    points, skills = folder / "eval_keypoints", folder / "skills"
    if root.is_dir(points) and any(points.glob("*/*/*key-points*.json")):
        return True
    configs = root.listing(skills)[0] if root.is_dir(skills) else []
    return any(
        _is_config(name_of(config)) and not root.is_file(config / "SKILL.md") and any(config.glob("*/*/SKILL.md"))
        for config in configs
    )


def find(root: Root, folder: Path) -> Iterator[sources.FoundExperiment]:
    name = name_of(folder)  # one experiment per name: the release itself has no id
    configs = [entry for entry in _folders(root, folder / "skills") if not entry.name.startswith(".")]
    instances = [
        TaskInstance(root, name_of(task), instance, name)
        for task in _folders(root, folder / "eval_keypoints")
        for instance in _folders(root, task)
    ]
    omitted = read_omitted(root, folder)
    spec = {"format": NAME, "configs": [name_of(config) for config in configs]}
    source = sources.ExperimentSource(
        key=f"{NAME}:{name}",
        name="SkillLearnBench release",
        path=root.label(folder),
        spec={**spec, "omitted": omitted} if omitted else spec,
        suite=NAME,
    )
    yield sources.FoundExperiment(
        source,
        trials=tuple(instance for instance in instances if instance.log is not None),
        libraries=_libraries(root, configs),
        libraries_total=sum(len(_folders(root, config)) for config in configs),
        key_points=tuple((instance.task, instance.key_points()) for instance in instances),
    )


def read_omitted(root: Root, folder: Path) -> list[str]:
    """Return the files that a manifest in the release lists as left out. They are reported, not invented."""
    manifest = read_optional(root, folder / "MANIFEST.json")
    return [path for entry in manifest.objects("omitted") if (path := entry.text("source_path", 1_000))]


def _folders(root: Root, folder: Path) -> list[Path]:
    if not root.is_dir(folder):
        return []
    folders, files = root.listing(folder)
    for file in files:
        if file.name not in {".DS_Store", ".gitkeep"}:
            root.report(file.path, "", "only folders on this level", "a file; it was left out")
    return folders


# --- libraries --------------------------------------------------------------------------------------------------


def _is_config(name: str) -> bool:
    condition, model = split_config(name)
    return condition in CONDITIONS or model != sources.UNKNOWN


def split_config(name: str) -> tuple[str, str]:
    """Return (condition, author model) from a config's folder name, cut at the first vendor; human skills have none."""
    if name.replace("_", "-") == "human-authored":
        return "human-authored", ""
    method, *model = _VENDOR.split(name, maxsplit=1)
    return name_condition(method), model[0] if model else sources.UNKNOWN


def name_condition(method: str) -> str:
    """Return the condition here for a method of the release (b1-one-shot is one-shot); any other keeps its name."""
    name = _NUMBERED.sub("", method.replace("_", "-"))
    return name if name in CONDITIONS else method


def _libraries(root: Root, configs: list[Path]) -> Iterator[sources.LibrarySource]:
    for config in configs:
        method, model = split_config(name_of(config))
        name = name_of(config)
        run = sources.RunSource(
            author_model=model, condition=method, setup={"source": NAME, "config": name}, skills=name
        )
        for ordinal, task in enumerate(root.mute().listing(config)[0]):  # other entries are reported already
            episode = sources.EpisodeSource(name_of(task), name_of(task), family=name_of(task), ordinal=ordinal)
            yield sources.LibrarySource(run, episode, NAME, root.label(task), read_library(root, task))


def read_library(root: Root, task: Path) -> dict[str, File]:
    """Read the skills of one config for one task. The folder names the skill, even if its front matter differs."""
    files: dict[str, File] = {}
    for entry, file in read_files(root, task):
        if "/" in entry.name:
            files[clean(entry.name)[:1000]] = file
        else:
            root.report(entry.path, "", "files inside a skill's folder", "a file next to the skills; it was left out")
    # No harness would load a folder without SKILL.md as a skill. Faulty front matter is not reported.
    for skill in sorted({path.split("/", 1)[0] for path in files}):
        if f"{skill}/SKILL.md" not in files:
            root.report(task / skill, "", "a SKILL.md in the skill's folder", "there is none; its other files are kept")
        elif not files[f"{skill}/SKILL.md"].content.strip():
            root.report(task / skill / "SKILL.md", "whole file", "a skill's text", "the file is empty; it is kept")
    return files


# --- key points and oracle trajectories -------------------------------------------------------------------------


@dataclass
class TaskInstance:
    """eval_keypoints/<task>/<task>-N: one task of the family, with key points and perhaps an oracle's log."""

    root: Root
    family: str
    folder: Path
    release: str

    def __post_init__(self) -> None:
        self.path = self.root.label(self.folder)
        self.name = name_of(self.folder)
        number = _INSTANCE.search(self.name)
        self.ordinal = int(number[1]) if number and len(number[1]) < 9 else 0
        self.ids: tuple[str, ...] = (f"{NAME}:{self.release}:oracle:{self.family}/{self.name}",)
        self.order = (self.family, f"{self.ordinal:09d}", self.name)

    @cached_property
    def _files(self) -> list[FolderEntry]:
        return self.root.listing(self.folder)[1]

    @cached_property
    def log(self) -> FolderEntry | None:
        """Return the first log among the files, by content. A dataclaw export adds nothing to its original log."""
        log: FolderEntry | None = None
        for entry in self._files:
            if entry.name in FILES or entry.name.endswith(".dataclaw.jsonl"):
                continue
            try:
                with self.root.open(entry.path) as stream:
                    is_log = sniff(stream) in PREFERENCE
            except OSError as error:
                self.root.report_unreadable(entry.path, error)
                continue
            if is_log and log is None:
                log = entry
                continue
            message = f"a second log next to {log.name}" if is_log and log is not None else "neither"
            self.root.report(entry.path, "", "one agent's log, or a list of key points", f"{message}; it was left out")
        return log

    @property
    def task(self) -> sources.TaskSource:
        return sources.TaskSource(NAME, self.name, self.name, family=self.family, ordinal=self.ordinal)

    def key_points(self) -> tuple[sources.KeyPointSource, ...]:
        return tuple(point for entry in self._files for point in self._points(entry))

    def _points(self, entry: FolderEntry) -> Iterator[sources.KeyPointSource]:
        if entry.name not in FILES:
            return
        kind, keys = FILES[entry.name]
        value = read_json(self.root, entry.path)
        if not isinstance(value, list):
            if value is not None:
                self.root.report(entry.path, "whole file", "a list of key points", render_found(value))
            return
        document = Document(self.root, entry.path, {"items": value})
        for ordinal, item in enumerate(value):
            if not isinstance(item, dict):
                self.root.report(entry.path, f"[{ordinal}]", "an object", render_found(item))
                continue
            point = Document(self.root, entry.path, item, f"[{ordinal}]")
            text, reason, reference = (point.text(key, 100_000) for key in keys)
            if not text:
                document.report(f"[{ordinal}].{keys[0]}", "a text", render_found(item.get(keys[0])))
                continue
            yield sources.KeyPointSource(kind, ordinal, text, reason or "", reference or "")

    def digest(self) -> str:
        return self.root.sha256(self._given_log().path)

    def _given_log(self) -> FolderEntry:
        if self.log is None:
            raise FileNotFoundError(f"{self.path} has no log")
        return self.log

    def read(self) -> sources.TrialSource:
        source = sources.TrajectorySource.of_file(self.root, self._given_log())
        head = read_trajectory(source.open).head
        return sources.TrialSource(
            run=sources.RunSource(
                harness=head.agent_name or sources.UNKNOWN,
                agent_model=head.model or sources.UNKNOWN,
                setup={"source": NAME, "name": "oracle"},
                skills="oracle",
            ),
            task=self.task,
            timing=sources.Timing(),
            verdict=None,
            config={},
            choices=(sources.SourceChoice((source,)),),
            episode=sources.EpisodeSource(self.family, self.family, family=self.family),
        )
