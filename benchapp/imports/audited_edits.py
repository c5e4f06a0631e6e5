"""Edit imported runs and trials where their files were silent or wrong, with an audit trail.

Every edited row leaves an Activity: the old values, the new ones, who changed them and why. Only imported rows can be
edited: what a launched experiment was is fixed by its setup digest.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from benchapp.models import (
    Activity,
    Episode,
    Experiment,
    Family,
    ImportBatch,
    Run,
    SearchSource,
    Task,
    Trial,
    User,
    Verdict,
)
from benchapp.models.base import PublicModel
from benchapp.models.experiments import RunQuerySet, StillReviewed, StillRunning
from runner.base.types import Phase

EDITABLE = (Experiment.Origin.IMPORTED, Experiment.Origin.SYNTHETIC)


class EditRefused(ValueError):
    """The edit cannot be made; the message says which row and why. Nothing was changed."""


@dataclass(frozen=True, slots=True)
class _Edit:
    """New values for a row. None leaves a field unchanged."""

    def changes(self) -> dict[str, Any]:
        """Return the given values by field."""
        return {field.name: value for field in fields(self) if (value := getattr(self, field.name)) is not None}


@dataclass(frozen=True, slots=True)
class RunEdit(_Edit):
    """New values for a run."""

    condition: str | None = None
    replicate: int | None = None  # from 1
    author_model: str | None = None  # "": the condition has no author


@dataclass(frozen=True, slots=True)
class TrialEdit(_Edit):
    """New values for a trial. Family and role belong to the task, so every trial of that task shows them."""

    family: str | None = None  # key; created in the task's suite if new
    role: str | None = None
    phase: str | None = None
    scorer: str | None = None  # the reward that decides


@dataclass(frozen=True, slots=True)
class Author:
    """The author of the edit: a user of the site, or the name of a command."""

    user: User | None = None
    name: str = ""

    @property
    def label(self) -> str:
        return self.user.get_username() if self.user else self.name or "unknown"

    def note(
        self,
        target: PublicModel,
        before: Mapping[str, object],
        after: Mapping[str, object],
        reason: str,
        verb: str = "edit",
    ) -> None:
        """Record an activity with the old and the new values."""
        Activity.objects.create(
            actor=self.user,
            actor_name=self.label[:200],
            verb=verb,
            target_kind=type(target).__name__.lower(),
            target_id=target.public_id,
            detail={"before": before, "after": after},
            reason=reason,
        )


def edit_runs(runs: Iterable[Run], edit: RunEdit, *, author: Author, reason: str) -> int:
    """Set condition, replicate and author model of imported runs. Return how many changed."""
    _check_run_edit(edit)
    with transaction.atomic():
        return sum(_edit_run(run, edit, author, reason) for run in runs)


def edit_trials(trials: Iterable[Trial], edit: TrialEdit, *, author: Author, reason: str) -> int:
    """Set the phase of imported trials, and family and role of their tasks. Return how many rows changed."""
    _check_trial_edit(edit)
    with transaction.atomic():
        trials = list(trials)
        if edit.scorer:
            _check_scorer(trials, edit.scorer)
        return sum(_edit_trial(trial, edit, author, reason) for trial in trials)


def edit_scorer(trial: Trial, scorer: str, *, author: Author, reason: str) -> bool:
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
    note_change(Run.objects.filter(pk=trial.episode.run_id))
    author.note(trial, before, {"scorer": scorer, "success": verdict.success, "reward": verdict.reward}, reason)
    return True


def _check_scorer(trials: Iterable[Trial], scorer: str) -> None:
    rewards = Verdict.objects.filter(attempt__trial__in=trials, attempt__counts=True, is_primary=True)
    named = {name for found in rewards.values_list("rewards", flat=True) for name in found}
    if scorer not in named:
        listed = ", ".join(sorted(named)[:20]) or "none"
        raise EditRefused(f"scorer: no chosen trial has one called {scorer!r}; found {listed}")


def edit_task(task: Task, *, family: str | None, role: str | None, author: Author, reason: str) -> bool:
    """Set the given values. The task's suite must come from an import: a launched suite fixes its families."""
    before = {"family": task.family.key if task.family else None, "role": task.role}
    after = {**before, **({"family": family} if family else {}), **({"role": role} if role else {})}
    if before == after:
        return False
    if task.suite.digest:
        raise EditRefused(f"task {task.key}: its suite {task.suite.key} fixes family and role")
    if family:
        task.family, _ = Family.objects.get_or_create(suite=task.suite, key=family, defaults={"name": family})
    task.role = role or task.role
    task.save(update_fields=["family", "role"])
    note_change(Run.objects.filter(pk__in=Episode.objects.filter(trials__task=task).values("run")))
    author.note(task, before, after, reason)
    return True


def _edit_run(run: Run, edit: RunEdit, author: Author, reason: str) -> bool:
    if run.experiment.origin not in EDITABLE:
        raise EditRefused(f"run {run.public_id}: launched here, so its setup is fixed")
    after = edit.changes()
    before = {name: getattr(run, name) for name in after}
    if before == after:
        return False
    for name, value in after.items():
        setattr(run, name, value)
    run.save(update_fields=list(after))
    note_change(Run.objects.filter(pk=run.pk))
    author.note(run, before, after, reason)
    return True


def _edit_trial(trial: Trial, edit: TrialEdit, author: Author, reason: str) -> bool:
    if trial.episode.run.experiment.origin not in EDITABLE:
        raise EditRefused(f"trial {trial.public_id}: launched here, so its slot is fixed")
    changed = edit_task(trial.task, family=edit.family, role=edit.role, author=author, reason=reason)
    if edit.scorer:
        changed |= edit_scorer(trial, edit.scorer, author=author, reason=reason)
    if edit.phase is None or edit.phase == trial.phase:
        return changed
    before = {"phase": trial.phase, "sample": trial.sample}
    trial.phase = edit.phase
    trial.sample = next_sample(trial.episode_id, edit.phase, trial.task_id)
    trial.save(update_fields=["phase", "sample"])
    note_change(Run.objects.filter(pk=trial.episode.run_id))
    author.note(trial, before, {"phase": trial.phase, "sample": trial.sample}, reason)
    return True


def note_change(runs: RunQuerySet) -> None:
    """Mark what was computed or indexed of these runs as out of date."""
    runs.touch()
    SearchSource.objects.forget(runs)


def next_sample(episode: int, phase: str, task: int) -> int:
    """Return the first free sample number of the slot."""
    taken = Trial.objects.filter(episode_id=episode, phase=phase, task_id=task).aggregate(last=Max("sample"))["last"]
    return 0 if taken is None else taken + 1


def _check_run_edit(edit: RunEdit) -> None:
    if edit.condition is not None and not 0 < len(edit.condition) <= 100:
        raise EditRefused("condition: expected a name of 1 to 100 characters")
    if edit.author_model is not None and len(edit.author_model) > 200:
        raise EditRefused("author model: expected at most 200 characters")
    if edit.replicate is not None and edit.replicate < 1:
        raise EditRefused(f"replicate: expected a number from 1, found {edit.replicate}")


def _check_trial_edit(edit: TrialEdit) -> None:
    if edit.phase is not None and edit.phase not in set(Phase):
        raise EditRefused(f"phase: expected one of {', '.join(Phase)}, found {edit.phase!r}")
    if edit.family is not None and not 0 < len(edit.family) <= 200:
        raise EditRefused("family: expected a key of 1 to 200 characters")
    if edit.role is not None and not 0 < len(edit.role) <= 32:
        raise EditRefused("role: expected 1 to 32 characters")


MAX_NAME = 300


def join_experiments(experiments: Sequence[Experiment], *, name: str, author: Author, reason: str) -> Experiment:
    """Create one new experiment with the runs of these, which are deleted. Raise EditRefused, with nothing changed, if
    one was launched here."""
    if len(experiments) < 2:
        raise EditRefused("choose at least two experiments to join")
    _check(experiments, name)
    sources = [each.source for each in experiments if each.source]
    suites = {each.suite for each in experiments}
    with transaction.atomic():
        whole = Experiment.objects.create(
            name=name.strip(),
            origin=experiments[0].origin,
            status=experiments[0].status,
            suite=suites.pop() if len(suites) == 1 else None,
            source=_find_common_folder(sources),
            started_at=min((each.started_at for each in experiments if each.started_at), default=None),
            finished_at=max((each.finished_at for each in experiments if each.finished_at), default=None),
        )
        for each in experiments:
            runs = Run.objects.filter(experiment=each)
            runs.filter(joined_from=None).update(joined_from=each)
            note_change(runs)
            runs.update(experiment=whole)
            author.note(each, {"experiment": each.name}, {"experiment": whole.name}, reason, verb="join")
        Experiment.objects.filter(pk__in=[each.pk for each in experiments]).update(deleted_at=timezone.now())
    return whole


def split_experiment(joined: Experiment, *, author: Author, reason: str) -> list[Experiment]:
    """Return each run to the experiment it came with. Raise EditRefused for an experiment that is not joined."""
    runs = Run.objects.filter(experiment=joined)
    origins = list(Experiment.objects.filter(joined_runs__in=runs).distinct().order_by("pk"))
    if not origins or runs.filter(joined_from=None).exists():
        raise EditRefused(f"{joined.name}: not every run of it was joined from another experiment")
    with transaction.atomic():
        for each in origins:
            own = Run.objects.filter(experiment=joined, joined_from=each)
            note_change(own)
            own.update(experiment=each, joined_from=None)
        Experiment.objects.filter(pk__in=[each.pk for each in origins]).update(deleted_at=None)
        Experiment.objects.filter(pk=joined.pk).update(deleted_at=timezone.now())
        author.note(joined, {"experiment": joined.name}, {"experiments": len(origins)}, reason, verb="split")
    return origins


def rename_experiment(experiment: Experiment, *, name: str, author: Author, reason: str) -> bool:
    """Rename it. Return False if it has that name already."""
    _check([experiment], name)
    if experiment.name == name.strip():
        return False
    before, experiment.name = experiment.name, name.strip()
    experiment.save(update_fields=["name"])
    author.note(experiment, {"name": before}, {"name": experiment.name}, reason)
    return True


def _check(experiments: Sequence[Experiment], name: str) -> None:
    if not 0 < len(name.strip()) <= MAX_NAME:
        raise EditRefused(f"name: expected 1 to {MAX_NAME} characters")
    for each in experiments:
        if each.origin not in EDITABLE:
            raise EditRefused(f"{each.name}: launched here, so it stays as it is")


def _find_common_folder(paths: Sequence[str]) -> str:
    try:
        return os.path.commonpath(paths)
    except ValueError:  # none, or relative and absolute ones
        return ""


@dataclass(frozen=True, slots=True)
class Undoing:
    """What an undo of the import deletes, and what it keeps because it existed before."""

    deleted: tuple[Experiment, ...]
    kept: tuple[Experiment, ...]

    @classmethod
    def of(cls, batch: ImportBatch) -> Undoing:
        standing = Experiment.objects.standing()
        deleted = standing.made_by(batch).order_by("name", "pk")
        return cls(tuple(deleted), tuple(standing.brought_by(batch).exclude(pk__in=deleted).order_by("name", "pk")))


def undo_import(batch: ImportBatch, *, user: User, reason: str) -> Undoing:
    """Delete all experiments that the import made, or none: EditRefused names what keeps one."""
    if not reason.strip():
        raise EditRefused("Say why: it is kept with the deletion.")
    if batch.status == ImportBatch.Status.RUNNING:
        raise EditRefused("This import still runs. Wait for its end.")
    undoing = Undoing.of(batch)
    made = {each.pk for each in undoing.deleted} | set(
        batch.arrivals.filter(is_new=True).values_list("experiment", flat=True)
    )
    try:
        with transaction.atomic():
            for experiment in undoing.deleted:
                joined = Run.objects.filter(experiment=experiment).exclude(joined_from=None)
                if joined.exclude(joined_from__in=made).exists():
                    raise EditRefused(f"{experiment.name} also has runs of other imports: split it first.")
                experiment.entomb(actor=user, reason=reason)
            if undoing.deleted:
                batch.undone_at, batch.undone_by, batch.undo_reason = timezone.now(), user, reason
                batch.save(update_fields=["undone_at", "undone_by", "undo_reason"])
    except (StillReviewed, StillRunning) as refusal:
        raise EditRefused(f"{refusal}. Nothing was deleted.") from refusal
    return undoing
