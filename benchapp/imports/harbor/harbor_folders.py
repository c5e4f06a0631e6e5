"""Harbor job and trial folders of every generation, and BenchFlow's descendant of them.

A folder is a trial or a job by the contents of its result.json and config.json, or by its shape if these are broken or
missing. Trials may be directly in a job, at any depth below the given folder, mixed from several jobs, or alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path, PurePosixPath

from benchapp.imports.harbor.harbor_agents import Siblings
from benchapp.imports.harbor.harbor_trial import HarborTrial, read_header
from benchapp.imports.reading.documents import Document, aware, read_object, read_optional, read_time
from benchapp.imports.reading.found_sources import ExperimentSource, FoundExperiment, separate_namesakes
from benchapp.imports.reading.unread import report_logs
from benchapp.imports.reading.walking import NOT_ENTERED, Root, list_names, name_of
from runner.base.types import JsonValue

NAME = "harbor"
TITLE = "Harbor"
NAMES = ("result.json", "config.json")  # what a job's or trial's files are called
FILES = frozenset(NAMES)
# Folders of other programs with files of these names: (what such a folder has, what it is).
_OTHERS = (
    ("best_skill.md", "a run of SkillOpt"),
    ("skills/skill_v0000.md", "a run of SkillOpt"),
    ("candidates.json", "a run of GEPA"),
)
_PARTS_OF_A_TRIAL = frozenset({"agent", "verifier", "trajectory", "steps"})


class FolderKind(Enum):
    TRIAL = "trial"
    JOB = "job"
    BROKEN = "broken"  # has Harbor's file names, but neither content nor shape shows what it is
    OTHER = "other"


@dataclass(slots=True)
class Scan:
    """Everything found below one folder."""

    trials: list[HarborTrial] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)


def claims(root: Root, folder: Path) -> bool:
    """Does the folder itself look like a job or a trial?"""
    return _look(root.mute(), folder)[0] in (FolderKind.TRIAL, FolderKind.JOB)


def find(root: Root, folder: Path, *, skip: Iterable[Path] = ()) -> Iterator[FoundExperiment]:
    """Find one experiment per job, with its trials in the order of their start; folders in `skip` are not entered."""
    scan = Scan()
    _visit(root, folder, None, scan, frozenset(skip), 0)
    _adopt_orphans(scan.trials)
    separate_namesakes(sorted(scan.trials, key=lambda trial: trial.path))
    report_logs(root, [job.folder for job in scan.jobs], [trial.folder for trial in scan.trials], frozenset(skip))
    grouped: defaultdict[str, list[HarborTrial]] = defaultdict(list)
    for trial in scan.trials:
        grouped[trial.job_key].append(trial)
    for job in scan.jobs:
        if not grouped.get(job.key):
            job.report_missing([])
    for key, trials in grouped.items():
        trials.sort(key=lambda trial: trial.order)
        own = next((job for job in scan.jobs if job.key == key), None)
        if own is not None:
            own.report_missing(trials)
        siblings = Siblings(trials, own.agents if own is not None else ())
        for trial in trials:
            trial.siblings = siblings
        yield FoundExperiment(build_experiment(root, key, own, trials), tuple(trials))


def _visit(root: Root, folder: Path, job: Job | None, scan: Scan, skip: frozenset[Path], depth: int) -> None:
    if root.is_too_deep(folder, depth):
        return
    quiet = root.mute()
    kind, known = _look(quiet, folder)
    if kind is FolderKind.TRIAL:
        scan.trials.append(HarborTrial(root, folder, read_header(quiet, folder, known), job.key if job else ""))
        return
    if kind is FolderKind.JOB:
        job = Job.read(root, folder)
        scan.jobs.append(job)
    folders, _ = root.listing(folder)
    before = len(scan.trials)
    for sub in folders:
        if sub.name not in NOT_ENTERED and sub not in skip:
            _visit(root, sub, job, scan, skip, depth + 1)
    if kind is FolderKind.BROKEN:
        if len(scan.trials) > before:  # broken, but its contents are those of a job
            scan.jobs.append(Job.read(root, folder))
        else:
            _report_broken(root, folder)


def _look(root: Root, folder: Path) -> tuple[FolderKind, dict[str, Document]]:
    """Return the folder's kind, by content first, then by shape, and the documents read for it, by name."""
    known: dict[str, Document] = {}
    for name in NAMES:
        document = known[name] = read_optional(root, folder / name)
        if document and _tells_trial(document):
            return FolderKind.TRIAL, known
        if document and _tells_job(document):
            return FolderKind.JOB, known
    return _kind_by_shape(root, folder, is_foreign=any(known.values())), known


def _kind_by_shape(root: Root, folder: Path, *, is_foreign: bool) -> FolderKind:
    """Guess the kind from names. `is_foreign`: its files are readable and not a trial's; one name proves nothing."""
    has_parts = any(root.is_dir(folder / name) for name in ({"trajectory"} if is_foreign else _PARTS_OF_A_TRIAL))
    has_names = any(root.exists(folder / name) for name in NAMES)
    if has_parts and has_names or all(root.is_dir(folder / name) for name in ("agent", "verifier")):
        return FolderKind.TRIAL
    return FolderKind.BROKEN if has_names else FolderKind.OTHER


def _tells_trial(document: Document) -> bool:
    keys = document.raw.keys()
    by_result = "trial_name" in keys or {"task_name", "verifier_result"} <= keys
    by_config = "trials_dir" in keys or isinstance(document.raw.get("task"), dict) or {"task_path", "agent"} <= keys
    return by_result or by_config


def _tells_job(document: Document) -> bool:
    keys = document.raw.keys()
    return bool({"n_total_trials", "stats"} & keys) or bool(
        {"jobs_dir", "job_name", "agents", "datasets", "orchestrator", "n_attempts"} & keys
    )


def _report_broken(root: Root, folder: Path) -> None:
    for name in NAMES:
        path = folder / name
        if root.exists(path) and read_object(root, path) is not None:
            told = next(
                (f"it looks like {words}; no reader exists" for name, words in _OTHERS if root.exists(folder / name)),
                "it is something else",
            )
            root.report(path, "whole file", "the result or config of a Harbor trial or job", told)


def _adopt_orphans(trials: list[HarborTrial]) -> None:
    """Assign a trial whose own files do not name its job to the job that all its siblings name."""
    siblings: defaultdict[Path, set[str]] = defaultdict(set)
    for trial in trials:
        if trial.header.job_key:
            siblings[trial.folder.parent].add(trial.header.job_key)
    for trial in trials:
        named = siblings[trial.folder.parent]
        if not trial.header.job_key and not trial.enclosing_job and len(named) == 1:
            trial.job_key = next(iter(named))


@dataclass(frozen=True, slots=True)
class Job:
    folder: Path
    key: str
    result: Document
    config: Document

    @classmethod
    def read(cls, root: Root, folder: Path) -> Job:
        result, config = (_optional(root, folder / name) for name in ("result.json", "config.json"))
        ident = result.text("id", 100)
        key = f"id:{ident}" if ident else f"name:{config.text('job_name', 200) or name_of(folder)}"
        return cls(folder, key, result, config)

    def report_missing(self, trials: Sequence[HarborTrial]) -> None:
        """Report when the job counts more trials than there are folders: missing trials are not failed ones."""
        total = self.result.count("n_total_trials")
        if total is None or total <= len(trials):
            return
        missing = sorted(self._named_trials() - {trial.header.name for trial in trials})
        names = f"; missing are {list_names(missing)}" if missing else ""
        found = f"it says {total}, found {len(trials)}{names}"
        self.result.report("n_total_trials", "a folder for every trial of the job", found)

    @property
    def agents(self) -> list[Mapping[str, JsonValue]]:
        """Return the agents of the job's config, including those whose trials have not started."""
        listed = self.config.raw.get("agents")
        return [agent for agent in listed if isinstance(agent, Mapping)] if isinstance(listed, list) else []

    def _named_trials(self) -> set[str]:
        """Return the trial names in the job's own statistics."""
        names: set[str] = set()
        evals = self.result.object("stats").object("evals")
        for name in evals.raw:
            entry = evals.object(name)
            for stats in [
                *map(entry.object("reward_stats").object, entry.object("reward_stats").raw),
                entry.object("exception_stats"),
            ]:
                names.update(*(stats.texts(value) for value in stats.raw))
        return names


def build_experiment(root: Root, key: str, job: Job | None, trials: Sequence[HarborTrial]) -> ExperimentSource:
    """Build the experiment for a job; without job-level files, from its trials."""
    suites = {trial.header.suite for trial in trials}
    suite = suites.pop() if len(suites) == 1 else ""
    if job is None:
        directory = trials[0].header.trials_dir
        name = PurePosixPath(directory).name or name_of(trials[0].folder.parent) or trials[0].header.name
        return ExperimentSource(key, name, root.label(trials[0].folder.parent), suite=suite)
    raw = job.result.raw
    ends = ("n_total_trials", "started_at", "finished_at")
    spec = {"format": "harbor", "config": job.config.raw, **{name: raw[name] for name in ends if name in raw}}
    return ExperimentSource(
        key=key,
        name=job.config.text("job_name", 300) or name_of(job.folder),
        path=root.label(job.folder),
        spec=spec,
        suite=suite,
        started_at=aware(read_time(job.result, "started_at")),
        finished_at=aware(read_time(job.result, "finished_at")),
        was_cut_short="finished_at" in raw and raw["finished_at"] is None,
    )


def _optional(root: Root, path: Path) -> Document:
    found = read_object(root, path) if root.exists(path) else None
    return found if found is not None else Document(root, path, {})
