"""The map's word on trials that were imported before: they move to the run that it names, with a trace."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from benchapp.imports.audited_edits import Author, edit_task, next_sample
from benchapp.models import Activity, Run, Task, Trial
from benchapp.models.base import derived_id

SET_BY_MAP = "set by the map of an import"
OF_RUN = ("condition", "replicate", "author_model")


@dataclass(slots=True)
class Remapping:
    author: Author
    left: set[int] = field(default_factory=set)  # runs that trials were moved out of

    def task(self, task: Task, settings: dict[str, Any]) -> bool:
        family, role = settings.get("family"), settings.get("role")
        if family is None and role is None:
            return False
        return edit_task(task, family=family, role=role, author=self.author, reason=SET_BY_MAP)

    def trial(self, trial: Trial, settings: dict[str, Any]) -> bool:
        """Did anything change? The trial needs episode__run and task with family and suite."""
        if not settings:
            return False
        changed = self.task(trial.task, settings)
        run = trial.episode.run
        wanted = {name: settings[name] for name in OF_RUN if name in settings}
        before = {name: getattr(run, name) for name in wanted}
        phase = str(settings.get("phase", trial.phase))
        if before == wanted and phase == trial.phase:
            return changed
        before |= {"phase": trial.phase, "run": str(run.public_id)}
        if any(before[name] != value for name, value in wanted.items()):
            self._move(trial, run, wanted)
        trial.phase = phase
        trial.sample = next_sample(trial.episode_id, phase, trial.task_id)
        trial.save(update_fields=["episode", "phase", "sample"])
        Run.objects.filter(pk__in={run.pk, trial.episode.run_id}).touch()
        Activity.objects.create(
            actor=self.author.user,
            actor_name=self.author.label[:200],
            verb="edit",
            target_kind="trial",
            target_id=trial.public_id,
            detail={"before": before, "after": {**wanted, "phase": phase, "run": str(trial.episode.run.public_id)}},
            reason=SET_BY_MAP,
        )
        return True

    def finish(self) -> None:
        """Removes the runs that are empty now: every trial of theirs has gone to the runs the map names."""
        left = Run.objects.filter(pk__in=self.left)
        left.exclude(episodes__trials__isnull=False).exclude(episodes__library__isnull=False).delete()

    def _move(self, trial: Trial, run: Run, wanted: dict[str, Any]) -> None:
        """To the episode of the same key in the run that has the wanted values, made if there is none yet."""
        names = ("experiment", "harness", "harness_version", "agent_model", "author_model", "condition", "replicate")
        values = {name: getattr(run, name) for name in (*names, "setup", "status")} | wanted
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
