"""Apply a map to trials that were imported before: they move to the run that it names, with a trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from benchapp.imports.audited_edits import Author, TrialEdit, edit_scorer, edit_task, next_sample, note_change
from benchapp.imports.import_map import MappedEdits
from benchapp.models import Run, Task, Trial
from benchapp.models.base import derived_id

SET_BY_MAP = "set by the map of an import"


@dataclass(slots=True)
class Remapping:
    author: Author
    left: set[int] = field(default_factory=set)  # runs that trials were moved out of

    def task(self, task: Task, edit: TrialEdit) -> bool:
        if edit.family is None and edit.role is None:
            return False
        return edit_task(task, family=edit.family, role=edit.role, author=self.author, reason=SET_BY_MAP)

    def trial(self, trial: Trial, edits: MappedEdits) -> bool:
        """Move a trial. Return whether it changed. Needs episode__run and task with family and suite."""
        if not edits:
            return False
        changed = self.task(trial.task, edits.trial)
        if edits.trial.scorer:
            changed |= edit_scorer(trial, edits.trial.scorer, author=self.author, reason=SET_BY_MAP)
        run = trial.episode.run
        wanted = edits.run.changes()
        before = {name: getattr(run, name) for name in wanted}
        phase = edits.trial.phase or trial.phase
        if before == wanted and phase == trial.phase:
            return changed
        before |= {"phase": trial.phase, "run": str(run.public_id)}
        if any(before[name] != value for name, value in wanted.items()):
            self._move(trial, run, wanted)
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
