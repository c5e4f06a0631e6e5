"""Before a launch: what of it cannot run, task by task; what it can show and cost, with few or many replicates."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from benchapp.experiments.estimate import Estimate, ExperimentEstimate
from benchapp.experiments.launch_spec import SpecProblem, Unlaunchable
from benchapp.experiments.preparation import Prepared
from benchapp.models import Experiment, Run
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.stats.comparing.columns import outcomes_of
from benchapp.stats.inference.model import FEWEST_EPISODES
from benchapp.stats.inference.sides import Paired, pair
from benchapp.stats.metrics.catalogue import METRICS
from benchapp.stats.metrics.metric import TrialMetric
from benchapp.stats.planning import (
    GUESS,
    SOUGHT,
    Design,
    Measured,
    Spread,
    count_found,
    find_least,
    measure_groups,
    predict_power,
    state_spread,
)
from runner.base.errors import SandboxError, SetupError, SuiteError
from runner.base.text import replace_unprintable
from runner.base.types import Phase, Task
from runner.engine.foresight import absent_images, problems_of
from runner.models import make_model
from runner.models.preset import JSON, TOOLS, Preset
from runner.protocols import slots
from runner.protocols.plan import EpisodePlan

SHOWN = 3  # names in one note
SHORT_WINDOW = 16_384  # tokens: two records of trials, as authors are shown them


def _read_part(name: str, row: Foreseen) -> str | None:
    """Return the place or part named in a suite's error, safe to show; None for other errors or if it names none."""
    found = getattr(row.error, name) if isinstance(row.error, SuiteError) else None
    return replace_unprintable(found) if found else None


@dataclass(frozen=True, slots=True)
class Foreseen(Shaped):
    """A task that an agent cannot attempt, and why."""

    task: str
    agent: str
    error: SetupError
    trials: int  # of this task and agent in the experiment

    json_shape = JsonShape(
        *("task", "agent"),
        *((name, partial(_read_part, name)) for name in ("path", "place", "expected")),
        *("message", "trials"),
    )

    def __str__(self) -> str:
        return replace_unprintable(f"{self.task} ({self.agent}) cannot run: {self.error}")

    @property
    def message(self) -> str:
        return replace_unprintable(self.error.message if isinstance(self.error, SuiteError) else str(self.error))


@dataclass(frozen=True, slots=True)
class Foresight:
    """What will not run of an experiment, found before the launch."""

    problems: tuple[Foreseen, ...]
    notes: tuple[str, ...]  # may be fine, but good to know
    hopeless: int  # trials that cannot run
    trials: int  # of the whole experiment

    def require_hope(self) -> None:
        """Raise Unlaunchable if not one trial can run."""
        if self.problems and self.hopeless == self.trials:
            raise Unlaunchable([SpecProblem("suite", f"no trial can run; {problem}") for problem in self.problems])


def foresee(prepared: Prepared, *, runs_here: bool) -> Foresight:
    """Find what cannot run. `runs_here`: the workers have the variables of this process."""
    counted = _count_trials(prepared)
    sandbox, problems, hopeless = prepared.spec.sandbox, [], 0
    for (agent, _), (task, trials) in counted.items():
        found = list(problems_of(task, agent=agent, sandbox=sandbox, runs_here=runs_here))
        problems += [Foreseen(task.key, agent, error, trials) for error in found]
        hopeless += trials if found else 0
    tasks = {task.key: task for task, _ in counted.values()}
    absent = tuple(_describe_absent(list(tasks.values()))) if sandbox == "docker" else ()
    online = sum(task.machine.network for task in tasks.values()) if sandbox != "local" else 0
    network = (f"{online:,} task{'' if online == 1 else 's'} with network.",) if online else ()
    notes = (*network, *_describe_futile(prepared), *dict.fromkeys(_describe_models(prepared)), *absent)
    return Foresight(tuple(problems), notes, hopeless, sum(trials for _, trials in counted.values()))


def _count_trials(prepared: Prepared) -> dict[tuple[str, str], tuple[Task, int]]:
    """Return (agent, task key) -> the task and the number of its trials in the experiment, in the order of the plan."""
    counted: dict[tuple[str, str], tuple[Task, int]] = {}
    for plan in (plan for plans in prepared.plans.values() for plan in plans):
        tasks = {task.key: task for family in plan.environment.families for task in family.tasks}
        for slot in slots(plan):
            _, before = counted.get((plan.agent, slot.task), (None, 0))
            counted[plan.agent, slot.task] = (tasks[slot.task], before + 1)
    return counted


def _describe_futile(prepared: Prepared) -> Iterator[str]:
    """Yield declared differences that no result could show, judging by the plan."""
    plans = {cell.arm.condition: found for cell, found in prepared.plans.items()}
    for each in prepared.spec.hypotheses:
        metric, own = METRICS[each.metric], plans[each.condition]
        episodes = sum(
            any(metric.covers(slot.phase, plan.task(slot.task).role or "") for slot in slots(plan)) for plan in own
        )
        told = f"Hypothesis {each.metric}, {each.condition} against {each.against}: no result could show a difference."
        if not episodes:
            yield f"{told} No trial of this plan counts for {each.metric}."
        elif prepared.spec.replicates == 1 and episodes < FEWEST_EPISODES:
            have = f"{episodes} episode{'' if episodes == 1 else 's'} with one replicate"
            yield f"{told} It has {have}, and takes {FEWEST_EPISODES} episodes, or two replicates."


def _describe_models(prepared: Prepared) -> Iterator[str]:
    """Yield what the tests of models lacked and this experiment needs."""
    for plan in (plans[0] for plans in prepared.plans.values()):
        agent, author = _find_preset(plan.agent_model), _find_preset(plan.author_model)
        if agent and TOOLS in agent.lacks:
            need = f"and the agent {plan.agent} needs tools. Expect trials to end with NoToolCall."
            yield f"{agent.name} called no tool when it was tested, {need}"
        if author and plan.condition.has_author and not plan.author_agent and JSON in author.lacks:
            yield f"{author.name} did not keep to JSON when it was tested. Expect answers of the author that cannot be used."
        for preset in (agent, author if plan.condition.has_author else None):
            if preset and preset.context_window and preset.context_window < SHORT_WINDOW:
                taken = f"{preset.name} takes {preset.context_window:,} tokens in one call."
                yield f"{taken} Expect trials to end with ContextLimit, and authors to see less evidence."


def _find_preset(model: str | None) -> Preset | None:
    return make_model(model).preset if model else None


def _describe_absent(tasks: list[Task]) -> Iterator[str]:
    try:
        absent = absent_images(tasks)
    except SandboxError:
        yield "No Docker engine answers on this machine. Workers need one where they run."
        return
    for image, keys in absent.items():
        more = f" and {len(keys) - SHOWN:,} more" if len(keys) > SHOWN else ""
        named = f"{', '.join(keys[:SHOWN])}{more}"
        yield replace_unprintable(
            f"Image {image} is not on this machine. The first trial fetches it, and fails where it cannot:"
            f" docker pull {image} ({named})"
        )


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
