"""Before a launch: what of it cannot run, task by task; what it can show and cost, with few or many replicates.

The estimate is made of medians of earlier trials; what has none is unknown, never zero. A trial is estimated from
earlier trials of the same task by the same agent and model under the same condition. An episode's author is estimated
from earlier episodes about the same unit with the same author, model and agent, under the same condition: an agent's
session is many calls, so an author of one call says nothing about it.

If earlier work has tokens but no cost, and the model has a price, the cost is those tokens at the current price.
`Amount.priced` counts such parts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median

from django.db.models import Count, F, Q, Sum

from benchapp.experiments.launch_spec import SpecProblem, Unlaunchable
from benchapp.experiments.plans import Arm
from benchapp.experiments.preparation import Prepared
from benchapp.models import Experiment, ModelCall, Run, Trial
from benchapp.record.json_shape import JsonShape, Shaped, encode
from benchapp.stats import planning
from benchapp.stats.comparing.columns import outcomes_of
from benchapp.stats.inference.model import FEWEST_EPISODES
from benchapp.stats.inference.sides import Paired, pair
from benchapp.stats.metrics.catalogue import METRICS
from benchapp.stats.metrics.metric import TrialMetric
from runner.base.errors import SandboxError, SetupError, SuiteError
from runner.base.text import list_first, plural, replace_unprintable
from runner.base.types import Phase, Task, Usage
from runner.engine.foresight import absent_images, problems_of
from runner.models import make_model
from runner.models.call_prices import prices_of
from runner.models.preset import JSON, TOOLS, Preset, Prices
from runner.protocols import slots
from runner.protocols.plan import EpisodePlan
from runner.protocols.recorder import AUTHORING

AMOUNTS = ("tokens", "cost_usd", "seconds")
NOTHING = {"tokens": [0.0], "cost_usd": [0.0]}  # what an agent without a model takes: known before it ever ran


@dataclass(frozen=True, slots=True)
class Amount(Shaped):
    """A sum of medians over the parts that have a basis. `value` is unknown (None) without any, and where those with a
    basis take nothing: 0 would read as the whole."""

    value: float | None = None
    known: int = 0  # parts with a basis
    parts: int = 0  # trials, and episodes with an author
    priced: int = 0  # of cost: known parts whose basis has tokens only, at the current price

    @property
    def is_whole(self) -> bool:
        return self.value is not None and self.known == self.parts

    def __add__(self, other: Amount) -> Amount:
        values = [amount.value or 0.0 for amount in (self, other) if amount.known]
        return _sum_up(values, self.known + other.known, self.parts + other.parts, self.priced + other.priced)

    def scale(self, times: int, of: int) -> Amount:
        value = None if self.value is None else self.value * times / of
        return Amount(value, *(count * times // of for count in (self.known, self.parts, self.priced)))


@dataclass(frozen=True, slots=True)
class Estimate(Shaped):
    """What some trials and the authors of their episodes will take."""

    trials: int = 0
    episodes: int = 0
    basis: int = 0  # earlier trials behind the medians, each counted once per arm
    tokens: Amount = Amount()  # input and output together
    cost_usd: Amount = Amount()
    seconds: Amount = Amount()  # of work, in sequence
    longest_seconds: float | None = None  # of the longest episode: a lower bound for any number of workers

    def __add__(self, other: Estimate) -> Estimate:
        longest = [each for each in (self.longest_seconds, other.longest_seconds) if each is not None]
        return Estimate(
            self.trials + other.trials,
            self.episodes + other.episodes,
            self.basis + other.basis,
            self.tokens + other.tokens,
            self.cost_usd + other.cost_usd,
            self.seconds + other.seconds,
            max(longest, default=None),
        )

    def scale(self, times: int, of: int) -> Estimate:
        """Return the same with `times` replicates instead of `of`: they use the same earlier trials."""
        return replace(
            self,
            trials=self.trials * times // of,
            episodes=self.episodes * times // of,
            tokens=self.tokens.scale(times, of),
            cost_usd=self.cost_usd.scale(times, of),
            seconds=self.seconds.scale(times, of),
        )

    def wall_seconds(self, workers: int) -> float | None:
        """Return the time with that many workers; None while any part of the work has no basis."""
        if not self.seconds.is_whole or self.seconds.value is None:
            return None
        return max(self.seconds.value / max(1, min(workers, self.episodes)), self.longest_seconds or 0.0)


@dataclass(frozen=True, slots=True)
class ExperimentEstimate(Shaped):
    """What an experiment will take, per arm and as a whole."""

    arms: Mapping[Arm, Estimate]  # all replicates of an arm together
    unknown_sessions: frozenset[Arm] = frozenset()  # whose author is an agent, with no basis for some episode

    json_shape = JsonShape(("arms", lambda found: [found.tell_arm(arm) for arm in found.arms]), "whole")

    @property
    def whole(self) -> Estimate:
        return sum(self.arms.values(), Estimate())

    def tell_arm(self, arm: Arm) -> dict[str, object]:
        unknown = {"unknown_session": True} if arm in self.unknown_sessions else {}
        return {**encode(arm), **encode(self.arms[arm]), **unknown}


# What one part took earlier: amounts by name, without unknown ones. "priced": the current price of tokens recorded
# without a cost.
Taken = dict[str, list[float]]


class Past:
    """Earlier trials and episodes, by what they must have in common with the planned ones: two queries."""

    def __init__(self, prepared: Prepared) -> None:
        self.trials: dict[tuple[object, ...], Taken] = defaultdict(_make_empty)
        self.authors: dict[tuple[object, ...], Taken] = defaultdict(_make_empty)
        self._prices: dict[str, Prices | None] = {}  # by model, of those that were asked for
        arms = list(prepared.setups)
        launched = Q(episode__run__experiment__origin=Experiment.Origin.RUN)
        elsewhere = Q(episode__run__experiment__origin=Experiment.Origin.IMPORTED) & ~Q(episode__run__setup_digest="")
        narrowed = (launched | elsewhere) & Q(
            episode__run__experiment__deleted_at=None,
            episode__run__experiment__suite__key=prepared.suite.key,
            episode__run__condition__in={arm.condition for arm in arms},
        )
        done = Trial.objects.filter(
            narrowed,
            is_done=True,
            episode__run__harness__in={arm.agent for arm in arms},
            episode__run__agent_model__in={arm.agent_model or "" for arm in arms},
        )
        for *key, given, cached, received, cost, seconds in done.values_list(
            *("task__key", "episode__run__condition", "episode__run__harness", "episode__run__agent_model"),
            *("input_tokens", "cached_tokens", "output_tokens", "cost_usd", "duration_seconds"),
        ):
            usage = Usage(input_tokens=given, cached_tokens=cached, output_tokens=received, cost_usd=cost)
            self._add(self.trials[tuple(key)], key[-1], usage, seconds)
        self._take_authors(narrowed, {arm.author_model for arm in arms if arm.author_model})

    def _take_authors(self, narrowed: Q, authors: set[str]) -> None:
        """Add what the author of each finished episode took. Tokens and cost count only if every call has them."""
        calls = ModelCall.objects.filter(
            narrowed, purpose__in=AUTHORING, episode__status="done", episode__run__author_model__in=authors
        )
        episodes = (
            calls.order_by()
            .values_list(
                *("episode", "episode__key", "episode__run__condition"),
                *("episode__run__author_model", "episode__run__author_agent"),
            )
            .annotate(
                total=Count("pk"),
                tokens_known=Count(F("input_tokens") + F("output_tokens")),
                costs_known=Count("cost_usd"),
                given=Sum("input_tokens"),
                cached=Sum("cached_tokens"),
                received=Sum("output_tokens"),
                cost=Sum("cost_usd"),
                seconds=Sum(F("finished_at") - F("started_at")),
            )
        )
        for _, *key, total, tokens_known, costs_known, given, cached, received, cost, seconds in episodes:
            tokens = Usage(given, cached, received) if tokens_known == total else Usage()
            usage = replace(tokens, cost_usd=cost if costs_known == total else None)
            took = None if seconds is None else seconds.total_seconds()
            _, _, author, _ = key
            self._add(self.authors[tuple(key)], author, usage, took)

    def _add(self, taken: Taken, model: str, usage: Usage, seconds: float | None) -> None:
        is_known = usage.input_tokens is not None and usage.output_tokens is not None
        tokens = (usage.input_tokens or 0) + (usage.output_tokens or 0) if is_known else None
        priced = self._price(model, usage) if usage.cost_usd is None else None
        taken["seen"].append(1.0)
        for name, value in zip((*AMOUNTS, "priced"), (tokens, usage.cost_usd, seconds, priced), strict=True):
            if value is not None:
                taken[name].append(float(value))

    def _price(self, model: str, usage: Usage) -> float | None:
        """Return what the tokens would cost now. Looked up only when needed: a price list takes seconds to load."""
        if usage.input_tokens is None or usage.output_tokens is None:
            return None
        if model not in self._prices:
            self._prices[model] = prices_of(make_model(model)) if model else None
        found = self._prices[model]
        return None if found is None else found.cost(usage)


def estimate(prepared: Prepared, past: Past | None = None) -> ExperimentEstimate:
    """Estimate with two queries for any experiment; none if `past` has all its arms already."""
    past = past or Past(prepared)
    first: dict[Arm, Estimate] = {}
    arms: dict[Arm, Estimate] = {}
    unknown = set()
    for cell, plans in prepared.plans.items():
        arm = cell.arm
        if arm in first:  # a replicate: the same tasks, and earlier trials that are counted once
            arms[arm] += replace(first[arm], basis=0)
        else:
            first[arm] = arms[arm] = sum((_estimate_episode(arm, plan, past) for plan in plans), Estimate())
            written = [plan for plan in plans if arm.author_agent and plan.condition.has_author]
            if any(_author_key(arm, plan) not in past.authors for plan in written):
                unknown.add(arm)
    return ExperimentEstimate(arms, frozenset(unknown))


def _estimate_episode(arm: Arm, plan: EpisodePlan, past: Past) -> Estimate:
    planned = slots(plan)
    free = {} if arm.agent_model else NOTHING
    parts = [past.trials.get(_trial_key(arm, slot.task), _make_empty()) | free for slot in planned]
    tasks = dict.fromkeys(slot.task for slot in planned)
    basis = sum(len(past.trials[key]["seen"]) for task in tasks if (key := _trial_key(arm, task)) in past.trials)
    if plan.condition.has_author:
        parts.append(past.authors.get(_author_key(arm, plan), _make_empty()))
    amounts = {name: _sum_medians(part[name] for part in parts) for name in AMOUNTS}
    amounts["cost_usd"] = replace(
        _sum_medians(part["cost_usd"] or part["priced"] for part in parts),
        priced=sum(1 for part in parts if part["priced"] and not part["cost_usd"]),
    )
    return Estimate(len(planned), 1, basis, **amounts, longest_seconds=amounts["seconds"].value)


def _author_key(arm: Arm, plan: EpisodePlan) -> tuple[object, ...]:
    return plan.environment.key, arm.condition, arm.author_model, arm.author_agent or ""


def _sum_medians(parts: Iterable[list[float]]) -> Amount:
    every = list(parts)
    medians = [median(values) for values in every if values]
    return _sum_up(medians, len(medians), len(every))


def _sum_up(values: list[float], known: int, parts: int, priced: int = 0) -> Amount:
    total = sum(values)
    return Amount(total if known and (total or known == parts) else None, known, parts, priced)


def _make_empty() -> Taken:
    return {"seen": [], "priced": [], **{name: [] for name in AMOUNTS}}


def _trial_key(arm: Arm, task: str) -> tuple[object, ...]:
    return task, arm.condition, arm.agent, arm.agent_model or ""


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
        "task agent", *((name, partial(_read_part, name)) for name in ("path", "place", "expected")), "message trials"
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
    network = (f"{plural(online, 'task')} with network.",) if online else ()
    notes = (*network, *_describe_futile(prepared), *dict.fromkeys(_describe_models(prepared)), *absent)
    return Foresight(tuple(problems), notes, hopeless, sum(trials for _, trials in counted.values()))


def _count_trials(prepared: Prepared) -> dict[tuple[str, str], tuple[Task, int]]:
    """Return (agent, task key) -> the task and the number of its trials in the experiment, in the order of the plan."""
    counted: dict[tuple[str, str], tuple[Task, int]] = {}
    for plan in (plan for plans in prepared.plans.values() for plan in plans):
        tasks = {task.key: task for task in plan.environment.tasks}
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
        why = f"Hypothesis {each.metric}, {each.condition} against {each.against}: no result could show a difference."
        if not episodes:
            yield f"{why} No trial of this plan counts for {each.metric}."
        elif prepared.spec.replicates == 1 and episodes < FEWEST_EPISODES:
            have = f"{plural(episodes, 'episode')} with one replicate"
            yield f"{why} It has {have}, and takes {FEWEST_EPISODES} episodes, or two replicates."


def _describe_models(prepared: Prepared) -> Iterator[str]:
    """Yield what the tests of models lacked and this experiment needs."""
    for plan in (plans[0] for plans in prepared.plans.values()):
        agent, author = _find_preset(plan.agent_model), _find_preset(plan.author_model)
        if agent and TOOLS in agent.lacks:
            need = f"and the agent {plan.agent} needs tools. Expect trials to end with NoToolCall."
            yield f"{agent.name} called no tool when it was tested, {need}"
        if author and plan.condition.has_author and not plan.author_agent and JSON in author.lacks:
            yield f"{author.name} did not keep to JSON when it was tested. Expect answers of the author that cannot be used."  # noqa: E501
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
        yield replace_unprintable(
            f"Image {image} is not on this machine. The first trial fetches it, and fails where it cannot:"
            f" docker pull {image} ({list_first(keys, SHOWN)})"
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
        return planning.count_found(self.power)


class LaunchDesign(Shaped):
    """`spread_from`: number of earlier replicates behind the spread; 0 if it is a guess. `stated`: values that the
    asker gave instead. `episodes`, `tasks` (that decide): of one replicate. difference: the share that `power` of a
    row is about."""

    json_shape = JsonShape("episodes tasks replicates spread_from rows samples spread stated difference")

    def __init__(
        self,
        prepared: Prepared,
        expected: ExperimentEstimate,
        workers: int,
        stated: Mapping[str, float] | None = None,
    ) -> None:
        """Read the design. One query if columns are cached. `workers`: as many as work at once. `stated`: "difference"
        and parts of a spread, as shares, instead of what was measured or guessed."""
        plans, given = next(iter(prepared.plans.values())), dict(stated or {})
        self.replicates = prepared.spec.replicates
        self.difference = given.pop("difference", planning.SOUGHT)
        self.stated = sorted(given)
        phase, once = _plan_once(plans)
        self.episodes = len(plans)
        self.tasks = sum(once.tasks) * once.samples
        self.samples = once.samples
        measured = _measure_spread(prepared, phase)
        self.spread_from = measured.runs if measured else 0
        self.spread = planning.state_spread(measured.spread if measured else planning.GUESS, given)
        self.rows: list[DesignRow] = []
        for replicates in sorted({*OFFERED, self.replicates}):
            scaled = expected.whole.scale(replicates, self.replicates)
            design = planning.Design(once.tasks, (replicates, replicates), once.samples)
            detectable = planning.find_least(design, self.spread)
            power = planning.predict_power(design, self.spread, self.difference)
            self.rows.append(DesignRow(replicates, detectable, power, scaled, scaled.wall_seconds(workers)))

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


def _plan_once(plans: Sequence[EpisodePlan]) -> tuple[Phase, planning.Design]:
    """Plan the phase that decides, and one replicate of it."""
    asked = [[(slot.phase, slot.task) for slot in slots(plan)] for plan in plans]
    phases = {phase for each in asked for phase, _ in each}
    decides = next((each for each in DECIDING if each in phases), next(iter(phases)))
    counted = [Counter(task for phase, task in each if phase == decides) for each in asked]
    samples = max(times for each in counted for times in each.values())
    return decides, planning.Design(tuple(len(each) for each in counted if each), (1, 1), samples)


def _measure_spread(prepared: Prepared, phase: Phase) -> planning.Measured | None:
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
    return planning.measure_groups([(each.own, each.cluster) for each in lined_up if each is not None])


def _line_up(runs: list[Run], phase: Phase) -> Paired | None:
    """Restrict replicates to the tasks that all of them were scored on."""
    metric = TrialMetric("passed", "passed", "of the phase that decides", phases=(phase,))
    outcomes = outcomes_of(runs)
    means = [metric.task_means(outcomes[run.pk]) for run in runs]
    return pair(means, means[:1])
