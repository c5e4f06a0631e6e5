"""What a launch can show, and its cost, with few or many replicates."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchapp.experiments.estimate import Estimate, ExperimentEstimate
from benchapp.experiments.preparation import Prepared
from benchapp.models import Experiment, Run
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.stats.comparing.columns import outcomes_of
from benchapp.stats.inference.sides import Paired, pair
from benchapp.stats.metrics.metric import TrialMetric
from benchapp.stats.planning.power import SOUGHT, Design, count_found, find_least, predict_power
from benchapp.stats.planning.spread import GUESS, Measured, Spread, measure_groups, state_spread
from runner.base.types import Phase
from runner.protocols import slots
from runner.protocols.plan import EpisodePlan

OFFERED = (1, 2, 3, 5, 8)  # replicates
MOST_RUNS = 200  # earlier ones, the newest, that a spread is measured on
# The phase that answers a protocol's question, in this order: new tasks with a frozen library, else every task.
DECIDING = (Phase.DEPLOYMENT, Phase.EVALUATION, Phase.ACQUISITION)


@dataclass(frozen=True, slots=True)
class DesignRow(Shaped):
    """One number of replicates. `detectable`: share, 0..1; None if no difference can be found. power: to find the
    requested difference, 0..1; None if shares cannot differ that much."""

    replicates: int
    detectable: float | None
    power: float | None
    estimate: Estimate
    wall_seconds: float | None  # with as many workers as listen now, at least one

    @property
    def points(self) -> int | None:
        return None if self.detectable is None else max(1, round(100 * self.detectable))

    @property
    def finds(self) -> int:
        return count_found(self.power)


@dataclass(frozen=True, slots=True)
class LaunchDesign(Shaped):
    """`spread_from`: number of earlier replicates behind the spread; 0 if it is a guess. `stated`: values that the
    asker gave instead. difference: the share that `power` of a row is about."""

    episodes: int  # of one replicate
    tasks: int  # of one replicate, that decide
    replicates: int
    spread_from: int
    rows: tuple[DesignRow, ...]
    samples: int
    spread: Spread
    stated: tuple[str, ...]
    difference: float

    json_shape = JsonShape(
        *("episodes", "tasks", "replicates", "spread_from", "rows", "samples", "spread", "stated", "difference")
    )

    @property
    def sought(self) -> float:
        """Return the difference in points."""
        return round(100 * self.difference, 1)

    @property
    def chosen(self) -> DesignRow:
        return next(row for row in self.rows if row.replicates == self.replicates)

    @property
    def sharper(self) -> DesignRow | None:
        """Return the next row that finds a smaller difference."""
        now = self.chosen.detectable
        found = (row for row in self.rows if row.replicates > self.replicates and row.detectable)
        return next((row for row in found if now is None or (row.detectable or 1) < now), None)

    @property
    def axis(self) -> int:
        """Return the points at the right end of the drawing."""
        most = max((row.points or 0 for row in self.rows), default=0)
        return next(end for end in (10, 20, 30, 60, 100) if end >= most)

    @property
    def axis_middle(self) -> int:
        return self.axis // 2


def describe_design(
    prepared: Prepared, expected: ExperimentEstimate, workers: int, stated: Mapping[str, float] | None = None
) -> LaunchDesign:
    """Describe the design. One query if columns are cached. `workers`: as many as work at once. `stated`: "difference"
    and parts of a spread, as shares, instead of what was measured or guessed."""
    plans, asked, told = next(iter(prepared.plans.values())), prepared.spec.replicates, dict(stated or {})
    difference = told.pop("difference", SOUGHT)
    phase, once = _plan_once(plans)
    measured = _measure_spread(prepared, phase)
    spread, whole = state_spread(measured.spread if measured else GUESS, told), expected.whole
    rows = []
    for replicates in sorted({*OFFERED, asked}):
        scaled = whole.scale(replicates, asked)
        design = Design(once.tasks, (replicates, replicates), once.samples)
        found = find_least(design, spread), predict_power(design, spread, difference)
        rows.append(DesignRow(replicates, *found, scaled, scaled.wall_seconds(workers)))
    return LaunchDesign(
        *(len(plans), sum(once.tasks) * once.samples, asked, measured.runs if measured else 0, tuple(rows)),
        *(once.samples, spread, tuple(sorted(told)), difference),
    )


def _plan_once(plans: Sequence[EpisodePlan]) -> tuple[Phase, Design]:
    """Plan the phase that decides, and one replicate of it."""
    asked = [[(slot.phase, slot.task) for slot in slots(plan)] for plan in plans]
    phases = {phase for each in asked for phase, _ in each}
    decides = next((each for each in DECIDING if each in phases), next(iter(phases)))
    counted = [Counter(task for phase, task in each if phase == decides) for each in asked]
    samples = max(times for each in counted for times in each.values())
    return decides, Design(tuple(len(each) for each in counted if each), (1, 1), samples)


def _measure_spread(prepared: Prepared, phase: Phase) -> Measured | None:
    """Measure the spread over earlier replicates with the same suite, agents, models and ways; None for too few."""
    arms = list(prepared.setups)
    found = Run.objects.filter(
        experiment__origin=Experiment.Origin.RUN,
        experiment__deleted_at=None,
        experiment__suite__key=prepared.suite.key,
        status=Run.Status.DONE,
        condition__in={arm.condition for arm in arms},
        harness__in={arm.agent for arm in arms},
        agent_model__in={arm.agent_model or "" for arm in arms},
    ).order_by("-pk")
    groups: defaultdict[tuple[object, ...], list[Run]] = defaultdict(list)
    for run in found[:MOST_RUNS]:
        groups[run.experiment_id, run.setup_digest, run.condition].append(run)
    several = [runs for runs in groups.values() if len(runs) > 1]
    lined_up = [_line_up(runs, phase) for runs in several]
    return measure_groups([(each.own, each.cluster) for each in lined_up if each is not None])


def _line_up(runs: list[Run], phase: Phase) -> Paired | None:
    """Restrict replicates to the tasks that all of them were scored on."""
    metric = TrialMetric("passed", "passed", "of the phase that decides", phases=(phase,))
    outcomes = outcomes_of(runs)
    means = [metric.task_means(outcomes[run.pk]) for run in runs]
    return pair(means, means[:1])
