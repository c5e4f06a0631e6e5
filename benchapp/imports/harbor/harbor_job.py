"""The files of a Harbor job outside its trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from benchapp.imports.reading.documents import Document, read_object
from benchapp.imports.reading.found_sources import ExperimentSource
from benchapp.imports.reading.times import aware, read_time
from benchapp.imports.reading.walking import Root, list_names, name_of
from runner.base.types import JsonValue

if TYPE_CHECKING:
    from benchapp.imports.harbor.harbor_trial import HarborTrial


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
