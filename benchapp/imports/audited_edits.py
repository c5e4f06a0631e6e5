"""Change what was imported: edit where files were silent or wrong, join and split experiments, undo an import.

Every edited row leaves an Activity: the old values, the new ones, who changed them and why. Only imported rows can be
edited: what a launched experiment was is fixed by its setup digest.

A joined run keeps the experiment it came with (`Run.joined_from`): importing its job again finds the run where it is,
and splitting brings it back. Only the run's place in the list changes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from benchapp import models
from benchapp.models.base import PublicModel
from benchapp.models.experiments import RunQuerySet, StillReviewed, StillRunning
from runner.base.types import Phase

EDITABLE = (models.Experiment.Origin.IMPORTED, models.Experiment.Origin.SYNTHETIC)
MAX_NAME = 300


class EditRefused(ValueError):
    """The edit cannot be made; the message says which row and why. Nothing was changed."""


class RunEdit(TypedDict, total=False):
    """New values for a run."""

    condition: str
    replicate: int  # from 1
    author_model: str  # "": the condition has no author


class TrialEdit(TypedDict, total=False):
    """New values for a trial. Family and role belong to the task, so every trial of that task shows them."""

    family: str  # key; created in the task's suite if new
    role: str
    phase: str
    scorer: str  # the reward that decides


@dataclass(frozen=True, slots=True)
class Author:
    """The author of the edit: a user of the site, or the name of a command."""

    user: models.User | None = None
    name: str = ""

    @property
    def label(self) -> str:
        return self.user.get_username() if self.user else self.name or "unknown"

    def note(
        self,
        target: PublicModel,
        before: Mapping[str, object],
        after: Mapping[str, object] | None,
        reason: str,
        verb: str = "edit",
    ) -> None:
        """Record an activity with the old and the new values, the new ones where the record has them."""
        models.Activity.objects.create(
            actor=self.user,
            actor_name=self.label[:200],
            verb=verb,
            target_kind=type(target).__name__.lower(),
            target_id=target.public_id,
            detail={"before": before} if after is None else {"before": before, "after": after},
            reason=reason,
        )


def edit_runs(runs: Iterable[models.Run], edit: RunEdit, *, author: Author, reason: str) -> int:
    """Set condition, replicate and author model of imported runs. Return how many changed."""
    if not 0 < len(edit.get("condition", "unchanged")) <= 100:
        raise EditRefused("condition: expected a name of 1 to 100 characters")
    if len(edit.get("author_model", "")) > 200:
        raise EditRefused("author model: expected at most 200 characters")
    if edit.get("replicate", 1) < 1:
        raise EditRefused(f"replicate: expected a number from 1, found {edit['replicate']}")
    changed = 0
    with transaction.atomic():
        for run in runs:
            if run.experiment.origin not in EDITABLE:
                raise EditRefused(f"run {run.public_id}: launched here, so its setup is fixed")
            before = {name: getattr(run, name) for name in edit}
            if before == edit:
                continue
            for name, value in edit.items():
                setattr(run, name, value)
            run.save(update_fields=list(edit))
            note_change(models.Run.objects.filter(pk=run.pk))
            author.note(run, before, edit, reason)
            changed += 1
    return changed


def edit_trials(trials: Iterable[models.Trial], edit: TrialEdit, *, author: Author, reason: str) -> int:
    """Set the phase of imported trials, and family and role of their tasks. Return how many rows changed."""
    if "phase" in edit and edit["phase"] not in set(Phase):
        raise EditRefused(f"phase: expected one of {', '.join(Phase)}, found {edit['phase']!r}")
    if not 0 < len(edit.get("family", "unchanged")) <= 200:
        raise EditRefused("family: expected a key of 1 to 200 characters")
    if not 0 < len(edit.get("role", "unchanged")) <= 32:
        raise EditRefused("role: expected 1 to 32 characters")
    trials = list(trials)
    with transaction.atomic():
        if scorer := edit.get("scorer"):
            rewards = models.Verdict.objects.filter(attempt__trial__in=trials, attempt__counts=True, is_primary=True)
            named = {name for found in rewards.values_list("rewards", flat=True) for name in found}
            if scorer not in named:
                listed = ", ".join(sorted(named)[:20]) or "none"
                raise EditRefused(f"scorer: no chosen trial has one called {scorer!r}; found {listed}")
        return sum(_edit_trial(trial, edit, author, reason) for trial in trials)


def _edit_trial(trial: models.Trial, edit: TrialEdit, author: Author, reason: str) -> bool:
    if trial.episode.run.experiment.origin not in EDITABLE:
        raise EditRefused(f"trial {trial.public_id}: launched here, so its slot is fixed")
    changed = edit_task(trial.task, edit, author=author, reason=reason)
    if "scorer" in edit:
        changed |= edit_scorer(trial, edit["scorer"], author=author, reason=reason)
    phase = edit.get("phase", trial.phase)
    if phase == trial.phase:
        return changed
    before = {"phase": trial.phase, "sample": trial.sample}
    trial.phase, trial.sample = phase, next_sample(trial.episode_id, phase, trial.task_id)
    trial.save(update_fields=["phase", "sample"])
    note_change(models.Run.objects.filter(pk=trial.episode.run_id))
    author.note(trial, before, {"phase": trial.phase, "sample": trial.sample}, reason)
    return True


def edit_scorer(trial: models.Trial, scorer: str, *, author: Author, reason: str) -> bool:
    """Let one of the rewards decide how the trial ended. Return False if it already does or does not exist."""
    attempt = trial.counting_attempt()
    verdict = attempt.verdicts.filter(is_primary=True).first() if attempt else None
    if attempt is None or verdict is None or scorer not in verdict.rewards or attempt.lineage.get("scorer") == scorer:
        return False
    before = {"scorer": attempt.lineage.get("scorer"), "success": verdict.success, "reward": verdict.reward}
    verdict.decide_by(scorer)
    attempt.lineage = {**attempt.lineage, "scorer": scorer}
    attempt.save(update_fields=["lineage"])
    seconds = trial.duration_seconds  # known also between zoneless times
    trial.settle(attempt)
    trial.duration_seconds = seconds
    trial.save(update_fields=["duration_seconds"])
    note_change(models.Run.objects.filter(pk=trial.episode.run_id))
    author.note(trial, before, {"scorer": scorer, "success": verdict.success, "reward": verdict.reward}, reason)
    return True


def edit_task(task: models.Task, edit: TrialEdit, *, author: Author, reason: str) -> bool:
    """Set family and role. The task's suite must come from an import: a launched suite fixes its families."""
    before = {"family": task.family.key if task.family else None, "role": task.role}
    after = before | {name: value for name, value in edit.items() if name in before}
    if before == after:
        return False
    if task.suite.digest:
        raise EditRefused(f"task {task.key}: its suite {task.suite.key} fixes family and role")
    if family := edit.get("family"):
        task.family, _ = models.Family.objects.get_or_create(suite=task.suite, key=family, defaults={"name": family})
    task.role = edit.get("role", task.role)
    task.save(update_fields=["family", "role"])
    note_change(models.Run.objects.filter(pk__in=models.Episode.objects.filter(trials__task=task).values("run")))
    author.note(task, before, after, reason)
    return True


def note_change(runs: RunQuerySet) -> None:
    """Mark what was computed or indexed of these runs as out of date."""
    runs.touch()
    models.SearchSource.objects.forget(runs)


def next_sample(episode: int, phase: str, task: int) -> int:
    """Return the first free sample number of the slot."""
    slot = models.Trial.objects.filter(episode_id=episode, phase=phase, task_id=task)
    taken = slot.aggregate(last=Max("sample"))["last"]
    return 0 if taken is None else taken + 1


# --- joining and splitting -----------------------------------------------------------------------------------------


def join_experiments(
    experiments: Sequence[models.Experiment], *, name: str, author: Author, reason: str
) -> models.Experiment:
    """Create one new experiment with the runs of these, which are deleted. Raise EditRefused, with nothing changed, if
    one was launched here."""
    if len(experiments) < 2:
        raise EditRefused("choose at least two experiments to join")
    _check(experiments, name)
    try:
        folder = os.path.commonpath([each.source for each in experiments if each.source])
    except ValueError:  # none, or relative and absolute ones
        folder = ""
    suites = {each.suite for each in experiments}
    with transaction.atomic():
        whole = models.Experiment.objects.create(
            name=name.strip(),
            origin=experiments[0].origin,
            status=experiments[0].status,
            suite=suites.pop() if len(suites) == 1 else None,
            source=folder,
            started_at=min((each.started_at for each in experiments if each.started_at), default=None),
            finished_at=max((each.finished_at for each in experiments if each.finished_at), default=None),
        )
        for each in experiments:
            runs = models.Run.objects.filter(experiment=each)
            runs.filter(joined_from=None).update(joined_from=each)
            note_change(runs)
            runs.update(experiment=whole)
            author.note(each, {"experiment": each.name}, {"experiment": whole.name}, reason, verb="join")
        models.Experiment.objects.filter(pk__in=[each.pk for each in experiments]).update(deleted_at=timezone.now())
    return whole


def split_experiment(joined: models.Experiment, *, author: Author, reason: str) -> list[models.Experiment]:
    """Return each run to the experiment it came with. Raise EditRefused for an experiment that is not joined."""
    runs = models.Run.objects.filter(experiment=joined)
    origins = list(models.Experiment.objects.filter(joined_runs__in=runs).distinct().order_by("pk"))
    if not origins or runs.filter(joined_from=None).exists():
        raise EditRefused(f"{joined.name}: not every run of it was joined from another experiment")
    with transaction.atomic():
        for each in origins:
            own = models.Run.objects.filter(experiment=joined, joined_from=each)
            note_change(own)
            own.update(experiment=each, joined_from=None)
        models.Experiment.objects.filter(pk__in=[each.pk for each in origins]).update(deleted_at=None)
        models.Experiment.objects.filter(pk=joined.pk).update(deleted_at=timezone.now())
        author.note(joined, {"experiment": joined.name}, {"experiments": len(origins)}, reason, verb="split")
    return origins


def rename_experiment(experiment: models.Experiment, *, name: str, author: Author, reason: str) -> bool:
    """Rename it. Return False if it has that name already."""
    _check([experiment], name)
    if experiment.name == name.strip():
        return False
    before, experiment.name = experiment.name, name.strip()
    experiment.save(update_fields=["name"])
    author.note(experiment, {"name": before}, {"name": experiment.name}, reason)
    return True


def _check(experiments: Sequence[models.Experiment], name: str) -> None:
    if not 0 < len(name.strip()) <= MAX_NAME:
        raise EditRefused(f"name: expected 1 to {MAX_NAME} characters")
    for each in experiments:
        if each.origin not in EDITABLE:
            raise EditRefused(f"{each.name}: launched here, so it stays as it is")


# --- undoing an import ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Undoing:
    """What an undo of the import deletes, and what it keeps because it existed before."""

    deleted: tuple[models.Experiment, ...]
    kept: tuple[models.Experiment, ...]

    @classmethod
    def of(cls, batch: models.ImportBatch) -> Undoing:
        kept = models.Experiment.objects.not_deleted()
        deleted = kept.made_by(batch).order_by("name", "pk")
        return cls(tuple(deleted), tuple(kept.brought_by(batch).exclude(pk__in=deleted).order_by("name", "pk")))


def undo_import(batch: models.ImportBatch, *, user: models.User, reason: str) -> Undoing:
    """Delete all experiments that the import made, or none: EditRefused names what keeps one."""
    if not reason.strip():
        raise EditRefused("Say why: it is kept with the deletion.")
    if batch.status == models.ImportBatch.Status.RUNNING:
        raise EditRefused("This import still runs. Wait for its end.")
    undoing = Undoing.of(batch)
    made = {each.pk for each in undoing.deleted} | set(
        batch.arrivals.filter(is_new=True).values_list("experiment", flat=True)
    )
    try:
        with transaction.atomic():
            for experiment in undoing.deleted:
                joined = models.Run.objects.filter(experiment=experiment).exclude(joined_from=None)
                if joined.exclude(joined_from__in=made).exists():
                    raise EditRefused(f"{experiment.name} also has runs of other imports: split it first.")
                experiment.entomb(actor=user, reason=reason)
            if undoing.deleted:
                batch.undone_at, batch.undone_by, batch.undo_reason = timezone.now(), user, reason
                batch.save(update_fields=["undone_at", "undone_by", "undo_reason"])
    except (StillReviewed, StillRunning) as refusal:
        raise EditRefused(f"{refusal}. Nothing was deleted.") from refusal
    return undoing
