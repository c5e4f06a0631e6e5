"""Compare a run with its no-skill sibling: on the same tasks, scored on both sides, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from benchapp.models import Run, Square, Trial
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.stats.inference.shares import Rate
from benchapp.stats.metrics.catalogue import SKILLEVOLBENCH
from benchapp.stats.metrics.metric import TrialMetric
from runner.base.types import Phase

BASELINE = "no-skill"

Successes = Mapping[tuple[str, str, int, int], bool]  # (phase, role, task pk, sample) -> success


@dataclass(frozen=True, slots=True)
class BesideNoSkill(Shaped):
    """Both rates cover the same tasks. `phase`: the sibling's, which differs where it replays nothing."""

    own: Rate
    sibling: Rate
    phase: Phase

    json_shape = JsonShape("tasks passed=own.passed sibling_passed=sibling.passed sibling_phase=phase difference")

    @property
    def tasks(self) -> int:
        return self.own.scored

    @property
    def difference(self) -> float:
        """A share: own minus sibling."""
        return (self.own.passed - self.sibling.passed) / self.tasks


def sibling_of(run: Run) -> Run | None:
    """Return the no-skill run of the same experiment, models, harness and replicate. None for a no-skill run itself."""
    method, mark, iteration = run.condition.partition("@")
    if method == BASELINE:
        return None
    same = {BASELINE, f"{BASELINE}{mark}{iteration}"}  # tried in the same iteration of an import
    return run.experiment.runs.filter(
        condition__in=same, agent_model=run.agent_model, harness=run.harness, replicate=run.replicate
    ).first()


def outcomes_of(squares: Iterable[Square]) -> dict[tuple[str, str, int, int], bool]:
    """Return the successes by slot, without unscored ones."""
    return {
        (square.phase, square.role, square.task_id, square.sample): square.success
        for square in squares
        if square.success is not None
    }


def read_outcomes(run: Run) -> dict[tuple[str, str, int, int], bool]:
    rows = Trial.objects.filter(episode__run=run, episode__is_tainted=False).scored()
    return {
        (phase, role, task, sample): bool(success)
        for phase, role, task, sample, success in rows.values_list(
            "phase", "task__role", "task_id", "sample", "success"
        )
    }


def compare_with_no_skill(own: Successes, sibling: Successes) -> dict[str, BesideNoSkill]:
    """Return metric key -> comparison, for each metric with at least one task scored on both sides."""
    found = {metric.key: _compare(metric, own, sibling) for metric in SKILLEVOLBENCH}
    return {key: comparison for key, comparison in found.items() if comparison is not None}


def _compare(metric: TrialMetric, own: Successes, sibling: Successes) -> BesideNoSkill | None:
    """Compare replay with the sibling's replay or, if it has none, with its first try at the same tasks."""
    for phase in (*metric.phases, Phase.ACQUISITION) if metric.phases == (Phase.REPLAY,) else metric.phases:
        pairs = [
            (passed, theirs)
            for (own_phase, role, task, sample), passed in own.items()
            if metric.covers(own_phase, role) and (theirs := sibling.get((phase.value, role, task, sample))) is not None
        ]
        if pairs:
            mine, theirs = (sum(side) for side in zip(*pairs, strict=True))
            return BesideNoSkill(Rate(mine, len(pairs), len(pairs)), Rate(theirs, len(pairs), len(pairs)), phase)
    return None
