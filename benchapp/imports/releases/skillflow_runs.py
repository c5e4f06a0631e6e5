"""SkillFlow run roots: jobs/<job name>/ with one Harbor job `<job name>__<family>` per family.

A run root is a run of the experiment named after its folder. In an evolving run a family is an episode. Only the last
state of its library was kept, so the states are replayed from the patches in the trials' folders, in the order the
trials began. If the replay does not end with the contents of shared_skills/, the difference is reported: an agent wrote
through the mount, or a write failed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path, PurePosixPath

from benchapp.imports.harbor.harbor_trial import HarborTrial, read_header
from benchapp.imports.reading.documents import Document, find_object, read_optional
from benchapp.imports.reading.found_sources import (
    UNKNOWN,
    EpisodeSource,
    ExperimentSource,
    FoundExperiment,
    HistorySource,
    RunSource,
    TaskSource,
    TrialSource,
)
from benchapp.imports.reading.unread import report_folders
from benchapp.imports.reading.walking import Root, name_of
from benchapp.imports.releases.skillflow_replay import HISTORY, SHARED, LibraryReplay
from runner.base.types import Phase

NAME = "skillflow"
TITLE = "SkillFlow"
EVOLVING, BASELINE = "skill-evolution", "no-skill"


def claims(root: Root, folder: Path) -> bool:
    """Is it a run root with at least one job `<name>__<family>` of SkillFlow's runners, or one such job alone?"""
    if any(root.exists(folder / name) for name in ("config.json", "result.json")):
        return _evolves(root, folder)
    return any(_is_family_job(root, job) for job in root.listing(folder)[0])


def find(root: Root, folder: Path) -> Iterator[FoundExperiment]:
    run_root = folder.parent if _evolves(root, folder) else folder
    jobs = [folder] if _evolves(root, folder) else [job for job in root.listing(folder)[0] if _is_family_job(root, job)]
    families = [FamilyJob(root, run_root, job) for job in jobs]
    run = _run(run_root, families)
    yield FoundExperiment(
        ExperimentSource.of_folder(root, run_root.parent, format=NAME, title=TITLE),
        trials=tuple(trial for family in families for trial in family.trials(run)),
        histories=tuple(family.history(run) for family in families if family.evolves),
    )


def others(root: Root, folder: Path) -> list[Path]:
    """Return folders in a run root that are not jobs of SkillFlow's runners: Harbor's own jobs can be next to them."""
    return [] if _evolves(root, folder) else [sub for sub in root.listing(folder)[0] if not _is_family_job(root, sub)]


def _evolves(root: Root, job: Path) -> bool:
    return root.is_file(job / HISTORY) or (root.is_dir(job / SHARED) and root.is_file(job / "config.json"))


def _is_family_job(root: Root, job: Path) -> bool:
    """Recognise a job by what the runners leave; a baseline's by the settings in every family's config."""
    if _evolves(root, job):
        return True
    config = find_object(root, job / "config.json") if "__" in job.name else None
    if config is None or config.text("job_name", 500) != job.name:
        return False
    tasks, datasets = list(config.objects("tasks")), list(config.objects("datasets"))
    family = job.name.rpartition("__")[2]
    listed = bool(tasks) and all(task.text("source", 300) == family for task in tasks)
    return listed and any(dataset.raw.get("n_tasks") == 0 for dataset in datasets)


def _run(folder: Path, jobs: list[FamilyJob]) -> RunSource:
    """Build the run with the agent from the jobs' configs. One root is one run, even if a family has no trial yet."""
    agents = [agent for job in jobs for agent in list(job.config.objects("agents"))[:1]]
    models = {agent.text("model_name", 200) for agent in agents} - {None, ""}
    classes = {_harness(agent) for agent in agents} - {""}
    evolves = any(job.evolves for job in jobs)
    model = models.pop() if len(models) == 1 else UNKNOWN
    authors = {name for job in jobs for name in job.replay.authors()} if evolves else set()
    return RunSource(
        harness=classes.pop() if len(classes) == 1 else UNKNOWN,
        agent_model=model or UNKNOWN,
        author_model="" if not evolves else authors.pop() if len(authors) == 1 else UNKNOWN,
        condition=EVOLVING if evolves else BASELINE,
        skills=f"{name_of(folder)}@{_first_trial(jobs)}",
        setup={"source": NAME, "run_root": name_of(folder)},
    )


def _first_trial(jobs: list[FamilyJob]) -> str:
    """Return the first trial's folder name. Harbor ends it with random letters, so it separates the run from one of the
    same name in another checkout. The first trial stays the first when the run continues."""
    trials = [trial for job in jobs for trial in job.harbor_trials]
    first = min(trials, key=lambda trial: (not trial.header.started, trial.order), default=None)
    return name_of(first.folder) if first is not None else ""


def _harness(agent: Document) -> str:
    """Name the harness: `libs...:NoInstallClaudeCode` is Harbor's claude-code without its installation."""
    named = agent.text("name", 100) or (agent.text("import_path", 300) or "").rpartition(":")[2]
    plain = named.removeprefix("NoInstall")
    known = {"ClaudeCode": "claude-code", "Codex": "codex", "QwenCode": "qwen-code", "KimiCli": "kimi-cli"}
    return known.get(plain, plain)


@dataclass
class FamilyJob:
    """One family's job folder."""

    root: Root
    run_root: Path
    folder: Path

    def __post_init__(self) -> None:
        name = name_of(self.folder)
        self.key = name.removeprefix(f"{name_of(self.run_root)}__").rpartition("__")[2] or name
        self.config = read_optional(self.root, self.folder / "config.json")
        self.replay = LibraryReplay(self.root, self.folder, self.key)
        self.evolves = self.replay.is_there
        self.episode = EpisodeSource(self.key, self.key, family=self.key)

    @cached_property
    def harbor_trials(self) -> list[HarborTrial]:
        """Return the trials in the order they began, which is the order the library grew."""
        quiet = self.root.mute()
        found, left = [], []
        for folder in self.root.listing(self.folder)[0]:
            has_result = any(self.root.is_file(folder / name) for name in ("result.json", "config.json"))
            if has_result and folder.name != SHARED:
                found.append(HarborTrial(self.root, folder, read_header(quiet, folder), f"{NAME}:{self.folder.name}"))
            elif self.root.is_dir(folder / "agent"):
                left.append(folder)
        report_folders(self.root, self.folder, left, "trials with a result or a config")
        found.sort(key=lambda trial: trial.order)
        self.replay.ordered = [trial.folder for trial in found]
        return found

    def trials(self, run: RunSource) -> list[Evolved]:
        """Build the trials. `places` ranks tasks by the order of folders in the job's config: easy to hard."""
        ranked = (PurePosixPath(task.text("path", 1_000) or "").name for task in self.config.objects("tasks"))
        places = {name: number for number, name in enumerate(ranked, start=1)}
        return [Evolved(self, trial, run, places) for trial in self.harbor_trials]

    def history(self, run: RunSource) -> HistorySource:
        trials = self.trials(run)
        idents = {trial.harbor.folder: trial.ids[0] for trial in trials}
        return HistorySource(
            run=run,
            episode=self.episode,
            suite=NAME,
            path=self.root.label(self.folder),
            trials=tuple(idents.values()),
            read=lambda: self.replay.moments(idents),
            at=self._at(),
        )

    def _at(self) -> datetime:
        """Return a time for the history, which has none: the file's own, used before the first trial."""
        path = self.folder / HISTORY
        try:
            return datetime.fromtimestamp(path.stat(follow_symlinks=False).st_mtime, UTC)
        except (OSError, OverflowError, ValueError):
            return datetime.fromtimestamp(0, UTC)


@dataclass
class Evolved:
    """A trial of a family (found_sources.FoundTrial): Harbor's, with its place in the evolution."""

    family: FamilyJob
    harbor: HarborTrial
    run: RunSource
    places: dict[str, int]

    def __post_init__(self) -> None:
        name = f"{self.family.run_root.name}/{self.family.folder.name}/{self.harbor.header.name}"
        own = self.harbor.header.ident
        self.ids = (f"{NAME}:{own}" if own else f"{NAME}:{name}", f"{NAME}:{name}")
        self.path, self.order = self.harbor.path, self.harbor.order

    def digest(self) -> str:
        mounted = self.family.replay.slugs_before(self.harbor.folder)
        return hashlib.sha256(f"{self.harbor.digest()}\0{mounted}".encode()).hexdigest()

    def read(self) -> TrialSource:
        source = self.harbor.read()
        key = self._name_task(source)
        return replace(
            source,
            run=replace(self.run, setup={**source.run.setup, **self.run.setup}),
            task=TaskSource(
                NAME,
                key,
                key,
                revision=source.task.revision,
                family=self.family.key,
                ordinal=self.places.get(key, 0),
            ),
            episode=self.family.episode,
            phase=Phase.EVALUATION,
            skills_mounted=self.family.replay.slugs_before(self.harbor.folder) if self.family.evolves else None,
            agent=self.run.harness,
        )

    def _name_task(self, source: TrialSource) -> str:
        """Name the task from the path in the config: SkillFlow's own files use the trial's name for it."""
        task = source.config.get("task")
        path = task.get("path") if isinstance(task, dict) else None
        return (PurePosixPath(path).name if isinstance(path, str) else "") or self.harbor.header.task
