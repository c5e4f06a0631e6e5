"""Harbor job and trial folders of every generation, and BenchFlow's descendant of them.

A folder is a trial or a job by the contents of its result.json and config.json, or by its shape if these are broken or
missing. Trials may be directly in a job, at any depth below the given folder, mixed from several jobs, or alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from benchapp.imports.harbor.harbor_trial import HarborTrial, Siblings, TrialHeader
from benchapp.imports.reading.documents import Document, aware, read_object, read_optional, read_time
from benchapp.imports.reading.found_sources import ExperimentSource, FoundExperiment, separate_namesakes
from benchapp.imports.reading.unread import report_logs
from benchapp.imports.reading.walking import NOT_ENTERED, Root, list_names, name_of
from runner.base.types import JsonValue

NAME = "harbor"
TITLE = "Harbor"
NAMES = ("result.json", "config.json")  # what a job's or trial's files are called
_OF_A_JOB = frozenset("n_total_trials stats jobs_dir job_name agents datasets orchestrator n_attempts".split())
_PARTS_OF_A_TRIAL = frozenset({"agent", "verifier", "trajectory", "steps"})


TRIAL, JOB, BROKEN, OTHER = "trial", "job", "broken", "other"  # broken: named like Harbor's, with no content or shape


def claims(root: Root, folder: Path) -> bool:
    """Does the folder itself look like a job or a trial?"""
    return _look(root.mute(), folder)[0] in (TRIAL, JOB)


def find(root: Root, folder: Path, *, skip: Iterable[Path] = ()) -> Iterator[FoundExperiment]:
    """Find one experiment per job, with its trials in the order of their start; folders in `skip` are not entered."""
    found: list[HarborTrial] = []
    jobs: list[Job] = []
    _visit(root, folder, None, (found, jobs), frozenset(skip), 0)
    _adopt_orphans(found)
    separate_namesakes(sorted(found, key=lambda trial: trial.path))
    report_logs(root, [job.folder for job in jobs], [trial.folder for trial in found], frozenset(skip))
    grouped: defaultdict[str, list[HarborTrial]] = defaultdict(list)
    for trial in found:
        grouped[trial.job_key].append(trial)
    for job in jobs:
        if not grouped.get(job.key):
            job.report_missing([])
    for key, trials in grouped.items():
        trials.sort(key=lambda trial: trial.order)
        own = next((job for job in jobs if job.key == key), None)
        agents: Sequence[Mapping[str, JsonValue]] = ()
        if own is not None:
            own.report_missing(trials)
            agents = own.agents
        siblings = Siblings(trials, agents)
        for trial in trials:
            trial.siblings = siblings
        yield FoundExperiment(build_experiment(root, key, own, trials), tuple(trials))


def _visit(
    root: Root,
    folder: Path,
    job: Job | None,
    found: tuple[list[HarborTrial], list[Job]],
    skip: frozenset[Path],
    depth: int,
) -> None:
    if root.is_too_deep(folder, depth):
        return
    quiet, (trials, jobs) = root.mute(), found
    kind, known = _look(quiet, folder)
    if kind is TRIAL:
        trials.append(HarborTrial(root, folder, TrialHeader(quiet, folder, known), job.key if job else ""))
        return
    if kind is JOB:
        job = Job.read(root, folder)
        jobs.append(job)
    folders, _ = root.listing(folder)
    before = len(trials)
    for sub in folders:
        if sub.name not in NOT_ENTERED and sub not in skip:
            _visit(root, sub, job, found, skip, depth + 1)
    if kind is BROKEN and len(trials) > before:  # broken, but its contents are those of a job
        jobs.append(Job.read(root, folder))


def _look(root: Root, folder: Path) -> tuple[str, dict[str, Document]]:
    """Return the folder's kind, by content first, then by shape, and the documents read for it, by name."""
    known: dict[str, Document] = {}
    for name in NAMES:
        document = known[name] = read_optional(root, folder / name)
        keys = document.raw.keys()
        by_result = "trial_name" in keys or {"task_name", "verifier_result"} <= keys
        by_config = "trials_dir" in keys or isinstance(document.raw.get("task"), dict) or {"task_path", "agent"} <= keys
        if by_result or by_config:
            return TRIAL, known
        if _OF_A_JOB & keys:
            return JOB, known
    is_foreign = any(known.values())  # its files are readable and not a trial's, so one name proves nothing
    has_parts = any(root.is_dir(folder / name) for name in ({"trajectory"} if is_foreign else _PARTS_OF_A_TRIAL))
    has_names = any(root.exists(folder / name) for name in NAMES)
    if has_parts and has_names or all(root.is_dir(folder / name) for name in ("agent", "verifier")):
        return TRIAL, known
    return BROKEN if has_names else OTHER, known


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
        paths = [folder / name for name in NAMES]
        found = [read_object(root, path) if root.exists(path) else None for path in paths]
        result, config = (each or Document(root, path, {}) for path, each in zip(paths, found, strict=True))
        ident = result.text("id", 100)
        key = f"id:{ident}" if ident else f"name:{config.text('job_name', 200) or name_of(folder)}"
        return cls(folder, key, result, config)

    def report_missing(self, trials: Sequence[HarborTrial]) -> None:
        """Report when the job counts more trials than there are folders: missing trials are not failed ones."""
        total = self.result.count("n_total_trials")
        if total is None or total <= len(trials):
            return
        names: set[str] = set()  # in the job's own statistics
        evals = self.result.object("stats").object("evals")
        for entry in map(evals.object, evals.raw):
            rewards = map(entry.object("reward_stats").object, entry.object("reward_stats").raw)
            for stats in (*rewards, entry.object("exception_stats")):
                names.update(*map(stats.texts, stats.raw))
        missing = sorted(names - {trial.header.name for trial in trials})
        listed = f"; missing are {list_names(missing)}" if missing else ""
        found = f"it says {total}, found {len(trials)}{listed}"
        self.result.report("n_total_trials", "a folder for every trial of the job", found)

    @property
    def agents(self) -> list[Mapping[str, JsonValue]]:
        """Return the agents of the job's config, including those whose trials have not started."""
        listed = self.config.raw.get("agents")
        return [agent for agent in listed if isinstance(agent, Mapping)] if isinstance(listed, list) else []


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
