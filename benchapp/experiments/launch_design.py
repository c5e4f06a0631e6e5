"""What a launch can find out, for how much, with few or many replicates."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from math import sqrt
from statistics import variance

from django.db.models import Count, Q

from benchapp.experiments.estimate import Estimate, ExperimentEstimate
from benchapp.experiments.preparation import Prepared
from benchapp.models import Experiment, Run, Trial
from benchapp.record.json_shape import Shaped
from benchapp.stats.inference.detectable import assume_spread, find_detectable
from runner.base.types import Phase
from runner.protocols import slots

OFFERED = (1, 2, 3, 5, 8)  # replicates
MIN_FREEDOM = 4  # of an earlier spread: fewer replicates show hardly any of it
# Where a protocol asks for the answer, in this order: new tasks with a frozen library, else every task.
DECIDING = (Phase.DEPLOYMENT, Phase.EVALUATION, Phase.ACQUISITION)


@dataclass(frozen=True, slots=True)
class DesignRow(Shaped):
    """One number of replicates. `detectable`: share, 0..1; None where no difference can be found."""

    replicates: int
    detectable: float | None
    estimate: Estimate
    wall_seconds: float | None  # with as many workers as listen now, at least one

    @property
    def points(self) -> int | None:
        return None if self.detectable is None else max(1, round(100 * self.detectable))


@dataclass(frozen=True, slots=True)
class LaunchDesign(Shaped):
    """`spread_from`: earlier replicates that the spread was measured on; 0 where it is assumed (`assume_spread`)."""

    episodes: int  # of one replicate
    tasks: int  # of one replicate, that decide
    replicates: int
    spread_from: int
    rows: tuple[DesignRow, ...]

    @property
    def chosen(self) -> DesignRow:
        return next(row for row in self.rows if row.replicates == self.replicates)

    @property
    def sharper(self) -> DesignRow | None:
        """The next row that finds a smaller difference."""
        now = self.chosen.detectable
        found = (row for row in self.rows if row.replicates > self.replicates and row.detectable)
        return next((row for row in found if now is None or (row.detectable or 1) < now), None)

    @property
    def axis(self) -> int:
        """Points at the right end of the drawing."""
        most = max((row.points or 0 for row in self.rows), default=0)
        return next(end for end in (10, 20, 30, 60, 100) if end >= most)

    @property
    def axis_middle(self) -> int:
        return self.axis // 2


def describe_design(prepared: Prepared, expected: ExperimentEstimate, workers: int) -> LaunchDesign:
    """One query. `workers`: as many as work at once."""
    plans = next(iter(prepared.plans.values()))
    phases = [slot.phase for plan in plans for slot in slots(plan)]
    phase = next((each for each in DECIDING if each in phases), phases[0])
    tasks, asked = phases.count(phase), prepared.spec.replicates
    measured, spread_from = _read_spread(prepared, phase)
    spread, whole = measured or assume_spread(tasks), expected.whole
    rows = []
    for replicates in sorted({*OFFERED, asked}):
        scaled = whole.scale(replicates, asked)
        detectable = find_detectable(spread, replicates, len(plans))
        rows.append(DesignRow(replicates, detectable, scaled, scaled.wall_seconds(workers)))
    return LaunchDesign(len(plans), tasks, asked, spread_from, tuple(rows))


def _read_spread(prepared: Prepared, phase: Phase) -> tuple[float | None, int]:
    """Standard deviation of the share that a replicate passes, pooled over what was learned more than once here, and the
    number of these replicates; (None, 0) where they are too few or never differed."""
    arms = list(prepared.setups)
    found = (
        Trial.objects.filter(
            phase=phase,
            episode__run__experiment__origin=Experiment.Origin.RUN,
            episode__run__experiment__deleted_at=None,
            episode__run__experiment__suite__key=prepared.suite.key,
            episode__run__status=Run.Status.DONE,
            episode__run__condition__in={arm.condition for arm in arms},
            episode__run__harness__in={arm.agent for arm in arms},
            episode__run__agent_model__in={arm.agent_model or "" for arm in arms},
        )
        .order_by()
        .values_list(
            "episode__run__experiment", "episode__run__setup_digest", "episode__run__condition", "episode__run"
        )
        .annotate(passed=Count("pk", filter=Q(success=True)), scored=Count("pk", filter=Q(success__isnull=False)))
    )
    shares: defaultdict[tuple[object, ...], list[float]] = defaultdict(list)
    for experiment, digest, condition, _, passed, scored in found:
        if scored:
            shares[experiment, digest, condition].append(passed / scored)
    return _pool(group for group in shares.values() if len(group) > 1)


def _pool(groups: Iterable[list[float]]) -> tuple[float | None, int]:
    every = list(groups)
    freedom = sum(len(group) - 1 for group in every)
    if freedom < MIN_FREEDOM:
        return None, 0
    pooled = sqrt(sum((len(group) - 1) * variance(group) for group in every) / freedom)
    return (pooled, sum(map(len, every))) if pooled else (None, 0)
