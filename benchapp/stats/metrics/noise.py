"""How often the same agent, on the same task with the same input, ends differently: the noise behind every comparison.

Two scored trials are a pair when experiment, harness, agent model and task are equal and both were shown the same: the
same library (one content digest), or none at all, and no earlier trajectories. The plan decides which pairs there are:
samples of one run; a replay and its first try, if the library did not change (no skill, or a fixed curated one);
replicates; and, between conditions, the first task of each episode, before anything was learned.

A trial of an unordered import names no library: it is paired only inside its own run, where nothing is written between
the trials. Everything else with unknown evidence is left out and counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchapp.models import Run, Snapshot, Trial
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.stats.inference.interval import Ints
from benchapp.stats.metrics.outcomes import Mask, Outcomes, label_rows
from runner.base.digests import EMPTY_LIBRARY

NO_SKILL = "no-skill"
NOTHING = 0  # shown no library
UNKNOWN = -1  # shown something that is not recorded


@dataclass(frozen=True, slots=True)
class Flips:
    """`flips` of `pairs` ended differently."""

    flips: int
    pairs: int

    @property
    def rate(self) -> float | None:
        return self.flips / self.pairs if self.pairs else None

    def __sub__(self, other: Flips) -> Flips:
        return Flips(self.flips - other.flips, self.pairs - other.pairs)


class Noise(Shaped):
    """`total` adds up four sources: `samples` of one run and phase, `phases` of one run (a replay and its first try),
    `replicates` of one cell, `conditions` (two cells that showed the same). `without_library` is part of it. `rate`:
    the share of flips, with equal weight for each of the `places` (a task under one kind of evidence), because one with
    many trials has many pairs. None without a pair. `unknown`: scored trials with unknown evidence."""

    json_shape = JsonShape("samples phases replicates conditions total without_library rate places tasks unknown")

    def __init__(self, table: Ints, unknown: int) -> None:
        """Count over rows of `table` [7, n]: bench, task, evidence, cell, run, phase, success. Each refines the
        last."""
        place = label_rows(*table[:3])
        cell = label_rows(place, table[3])
        run = label_rows(cell, table[4])
        phase = label_rows(run, table[5])
        success = table[6]
        self.total, in_cell, in_run, self.samples = (_flips(labels, success) for labels in (place, cell, run, phase))
        self.phases = in_run - self.samples
        self.replicates = in_cell - in_run
        self.conditions = self.total - in_cell
        bare = table[2] == NOTHING
        self.without_library = _flips(label_rows(*table[:3, bare]), success[bare])
        passed, tried = _counts(place, success)
        pairs = tried * (tried - 1) // 2
        many = pairs > 0
        self.rate = float((passed * (tried - passed) / np.maximum(pairs, 1))[many].mean()) if many.any() else None
        self.places = int(many.sum())
        self.tasks = len(np.unique(table[1][many[place]]))
        self.unknown = unknown


def noise_of(runs: Sequence[Run], outcomes: Mapping[int, Outcomes]) -> Noise:
    """Measure these runs without tainted episodes; `outcomes`: run pk -> trials. Two queries."""
    empty = Snapshot.objects.filter(digest=EMPTY_LIBRARY).values_list("pk", flat=True).first() or -1
    through = Trial.retrieved.through.objects.filter(from_trial__episode__run__in=[run.pk for run in runs])
    retrieved = set(through.values_list("from_trial_id", flat=True).distinct())
    return flips_among(runs, outcomes, empty, retrieved)


def flips_among(runs: Sequence[Run], outcomes: Mapping[int, Outcomes], empty: int, retrieved: set[int]) -> Noise:
    """Count flips. `empty`: the empty library's snapshot, or -1. `retrieved`: trials shown earlier trajectories."""
    benches: dict[tuple[object, ...], int] = {}
    cells: dict[tuple[object, ...], int] = {}
    columns: list[Ints] = []
    unknown = 0
    for run in runs:
        kept, evidence = _evidence(run, outcomes[run.pk], empty, retrieved)
        unknown += int((evidence == UNKNOWN).sum())
        known = evidence != UNKNOWN
        trials, evidence = kept.where(known), evidence[known]
        bench = (run.experiment_id, run.harness, run.harness_version, run.agent_model)
        cell = (*bench, run.condition, run.author_model, run.author_agent)
        same = (benches.setdefault(bench, len(benches)), cells.setdefault(cell, len(cells)), run.pk)
        of_bench, of_cell, of_run = (np.full(len(trials), value, dtype=np.int64) for value in same)
        success = trials.success.astype(np.int64)
        columns.append(np.stack([of_bench, trials.task, evidence, of_cell, of_run, trials.phase, success]))
    table = np.concatenate(columns, axis=1) if columns else np.empty((7, 0), dtype=np.int64)
    return Noise(table, unknown)


def _evidence(run: Run, outcomes: Outcomes, empty: int, retrieved: set[int]) -> tuple[Outcomes, Ints]:
    """Return the scored trials that were shown no trajectories, and a code for the library each was shown, [n]."""
    shown = np.isin(outcomes.trial, list(retrieved)) if retrieved else np.zeros(len(outcomes), dtype=bool)
    kept = outcomes.where(~outcomes.tainted & ~np.isnan(outcomes.success) & ~shown)
    evidence = kept.library.copy()
    bare: Mask = kept.library < 0
    evidence[bare] = NOTHING if run.condition == NO_SKILL else UNKNOWN
    alone = bare & ~kept.ordered & (evidence == UNKNOWN)
    evidence[alone] = -1 - run.pk  # below UNKNOWN, and unique to the run
    if empty >= 0:
        evidence[kept.library == empty] = NOTHING
    return kept, evidence


def _counts(labels: Ints, success: Ints) -> tuple[Ints, Ints]:
    """Count per label [n]: passes and trials, [labels] each."""
    return np.bincount(labels, weights=success).astype(np.int64), np.bincount(labels)


def _flips(labels: Ints, success: Ints) -> Flips:
    """Count flips per label [n]."""
    passed, tried = _counts(labels, success)
    return Flips(int((passed * (tried - passed)).sum()), int((tried * (tried - 1) // 2).sum()))
