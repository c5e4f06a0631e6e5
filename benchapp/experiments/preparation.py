"""Turn an experiment file into everything that will run, or everything that keeps it from running.

Nothing is written here: a dry run, the launch form's check and a launch all begin with `prepare`.

Conditions are interleaved in time, so that any drift affects all of them alike. Episodes wait in one queue, the first
environment first. Within it come the cells of one replicate, then those of the next. A worker takes the first, does
one trial and puts the episode back at the end. So conditions, agents and models alternate trial by trial, and an
outage or a provider's silent change hits every arm at about the same place of its plan. With `order: one-by-one` the
episode returns to the front instead and ends before the next begins.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from django.conf import settings

from benchapp.experiments.launch_spec import ADMITTED, LaunchSpec, SpecProblem, Unlaunchable, sort_labels, try_spec
from benchapp.experiments.plans import (
    PUBLISHED_HARNESS,
    Arm,
    Cell,
    authors_of,
    cells_of,
    keep_tasks,
    list_conditions,
    make_plan,
    published_harness,
    setup_of,
)
from benchapp.experiments.qualification import list_admitted
from benchapp.judges.judging_orders import find_prompts, read_metrics
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.record.sets.suite_files import find_suite
from benchapp.stats.metrics.catalogue import METRICS
from runner import protocols
from runner.agents import IN_HARBOR, MODELLESS, make_agent
from runner.agents.agent_program import ProgramAgent
from runner.base.errors import NotOnThisMachine, SetupError
from runner.base.suite import Suite
from runner.base.text import list_first
from runner.base.types import AuthorMode, Environment, Task, TrialSlot
from runner.engine.setup import setup_digest
from runner.generators.generator_model import GeneratorModel
from runner.models import Model, is_generator, make_model
from runner.models.recording import Recorded
from runner.programs import find_installed
from runner.prompts.roles import OWN
from runner.protocols import slots
from runner.protocols.conditions import Condition, find_condition
from runner.protocols.plan import EpisodePlan
from runner.protocols.prompt_choice import choose_prompts, list_asked, name_with_prompts
from runner.protocols.registry import LAUNCHED, QUALIFICATION
from runner.protocols.stages import iterate_counted_tasks
from runner.sandboxes import local, sandbox_kind
from runner.sandboxes.harbor.environment import explain_environment
from runner.sandboxes.harbor.harbor_jobs import explain_unsupported

T = TypeVar("T")
OUTSIDE = AuthorMode.OUTSIDE
# The condition runs an outside program: what the author model must be.
_WANTED = {
    True: "it runs an outside program (expected an author model generator/<name> next to the others)",
    False: "its author is a model (expected a model that is not a generator)",
}
_UNUSED = {
    True: "it is an outside program, and no condition runs one (expected the condition plug-in)",
    False: "every condition's author is an outside program (expected generators only)",
}
_CONTAINED = "programs need a sandbox in a container (expected 'docker', not 'local')"


@dataclass(frozen=True, slots=True)
class Prepared:
    """An experiment that can run: its file, and a plan per cell and unit, named by the unit until it has a row."""

    spec: LaunchSpec
    suite: Suite
    plans: Mapping[Cell, tuple[EpisodePlan, ...]]
    setups: Mapping[Arm, dict[str, Any]]


def prepare(value: Mapping[str, object], *, keys_elsewhere: bool = False) -> Prepared:
    """Prepare an experiment. Unlaunchable names every field that keeps it from running. `keys_elsewhere`: the workers
    have the models' keys, and this process may lack them."""
    spec, problems = try_spec(value)
    if spec is None:
        raise Unlaunchable(problems)
    faulty = {problem.field.partition(".")[0] for problem in problems}
    check = _Check(spec, keys_elsewhere=keys_elsewhere)
    problems += [problem for problem in check.problems if problem.field not in faulty]
    if problems or check.suite is None:
        raise Unlaunchable(problems)
    spec, suite = check.spec, check.suite
    cells = cells_of(spec)
    setups = {arm: setup_of(spec, arm, suite) for arm in dict.fromkeys(cell.arm for cell in cells)}
    digests = {arm: setup_digest(setup) for arm, setup in setups.items()}
    units = units_of(spec, suite)
    plans = {
        cell: tuple(make_plan(spec, unit, cell, episode=unit.key, digest=digests[cell.arm]) for unit in units)
        for cell in cells
    }
    return Prepared(spec, suite, plans, setups)


def units_of(spec: LaunchSpec, suite: Suite) -> tuple[Environment, ...]:
    """Return what the episodes of one run are about. Raise SetupError for a name the suite does not have."""
    kept = keep_tasks(suite, spec.tasks)
    if not spec.environments:
        return protocols.units(spec.protocol, kept)
    return tuple(protocols.find_unit(spec.protocol, kept, key) for key in spec.environments)


def _require_supported(units: Iterable[Environment], explain: Callable[[Task], str]) -> None:
    """Raise SetupError if Harbor, as set up here, cannot run some of the tasks.
    `explain` gives the reason for a task, or ""."""
    reasons: dict[str, list[str]] = {}
    with suppress(NotOnThisMachine):  # the agent's own check reports it
        for task in (task for unit in units for task in unit.tasks):
            if why := explain(task):
                reasons.setdefault(why, []).append(task.key)
    if reasons:
        message = (f"{list_first(keys, 5)}: {why}" for why, keys in reasons.items())
        raise SetupError(f"Harbor cannot run {'; '.join(message)}")


class _Check:
    """Check every field by itself first, and then combinations. `problems` has what was found, in this order."""

    def __init__(self, spec: LaunchSpec, *, keys_elsewhere: bool) -> None:
        self.spec, self.keys_elsewhere = spec, keys_elsewhere
        self.suite: Suite | None = None
        self.problems: list[SpecProblem] = []
        self._conditions: list[Condition] = []
        self._models: dict[str, Model] = {}
        self._pairs: dict[tuple[str, str | None], str] = {}  # harness and agent model -> the agent as the file names it
        self._check_protocol_and_suite()
        self._check_tasks()
        self._check_worker_labels()
        self._check_qualification()
        self._check_sandbox()
        self._check_models("agent_models", spec.agent_models)
        self._check_models("author_models", spec.author_models)
        self._check_models("judge_model", (spec.judge_model,))
        if (wanted := spec.judging) is not None:
            self._check_models("judging.model", (wanted.model,))
            self._try("judging.prompts", partial(find_prompts, wanted.prompts))
            self._try("judging.metrics", partial(read_metrics, wanted.metrics))
        self._check_hypotheses()
        self._check_agents()
        self._check_author()
        self._check_prompts()
        self._check_author_agents()
        self._check_budget()
        self._check_whole()

    def _report(self, field: str, message: str) -> None:
        self.problems.append(SpecProblem(field, message))

    def _try(self, field: str, read: Callable[[], T], *, once: bool = False) -> T | None:
        """Return what is read, or report why it cannot be. `once`: not again with the same words."""
        try:
            return read()
        except SetupError as error:
            if not once or SpecProblem(field, str(error)) not in self.problems:
                self._report(field, str(error))
            return None

    def _check_protocol_and_suite(self) -> None:
        spec = self.spec
        known = spec.protocol in LAUNCHED
        if not known:
            self._report("protocol", f"unknown protocol {spec.protocol!r} (expected one of {', '.join(LAUNCHED)})")
        for name in spec.conditions if known else ():
            if condition := self._try("conditions", partial(find_condition, name, spec.protocol)):
                self._conditions.append(condition)
        self.suite = self._try("suite", partial(find_suite, spec.suite))
        if self.suite is not None and known:
            for key in spec.environments:
                self._try("environments", partial(protocols.find_unit, spec.protocol, self.suite, key))
        if known and spec.notice is None:  # written into the file, so that a later default changes no experiment
            self.spec = spec.narrow(notice=protocols.published_notice(spec.protocol))

    def _check_tasks(self) -> None:
        """Replace the word by the keys of the tasks admitted now: a later qualification does not change what runs."""
        if self.suite is None or not self.spec.tasks:
            return
        if self.spec.tasks == ADMITTED:
            self.spec = self.spec.narrow(tasks=())  # if none can be named, only that is reported
            if tasks := self._try("tasks", partial(list_admitted, self.suite)):
                self.spec = self.spec.narrow(tasks=tasks)
            return
        known = {task.key for task in iterate_counted_tasks(self.suite)}
        if strange := [key for key in self.spec.tasks if key not in known]:
            message = f"{self.suite.key} has no task {', '.join(strange[:5]):.300}"
            self._report("tasks", f"{message} (expected 'admitted', or keys of its tasks)")

    def _check_worker_labels(self) -> None:
        """Add what the tasks need, so that the experiment waits for workers that can run all of them."""
        try:
            units = () if self.suite is None else units_of(self.spec, self.suite)
        except SetupError:
            return  # an unknown task or environment is reported at its own field
        needed = {label for unit in units for task in unit.tasks for label in task.machine.worker_labels}
        try:
            labels = sort_labels({*self.spec.worker_labels, *needed})
        except ValueError as error:
            self._report("worker_labels", f"with those that the tasks need: {error}")
            return
        if needed:
            self.spec = self.spec.narrow(worker_labels=labels)

    def _check_qualification(self) -> None:
        """Require one agent, and trials by the rules only: with more, a verdict could not be assigned to one agent."""
        spec = self.spec
        if spec.protocol != QUALIFICATION:
            if spec.qualification is not None:
                self._report("qualification", f"expected only under the protocol {QUALIFICATION}")
            return
        if spec.replicates != 1:
            self._report("replicates", "a qualification repeats trials by its rules (expected 1)")
        for field in ("agents", "agent_models", "author_models", "author_agents"):
            if len(getattr(spec, field)) > 1:
                self._report(field, "expected one: a task is admitted for one agent")
        asking = [condition.name for condition in self._conditions if not condition.agent]
        if asking and set(spec.agents) & MODELLESS:
            self._report("agents", f"{', '.join(asking)}: expected an agent that asks a model")

    def _check_sandbox(self) -> None:
        name = self.spec.sandbox
        self._try("sandbox", partial(sandbox_kind, name))
        if name == "local" and not local.is_permitted():
            self._report("sandbox", local.NOT_PERMITTED)
        if name == "local" and self.suite is not None and not self.suite.trusted:
            message = f"suite {self.suite.key} is not trusted: its tasks need a sandbox that confines them"
            self._report("sandbox", f"{message} (expected 'docker', not 'local')")

    def _check_models(self, field: str, names: tuple[str | None, ...]) -> None:
        for name in (each for each in names if each is not None):
            if model := self._try(field, partial(make_model, name)):
                self._models[name] = model
            preset = self._models[name].preset if name in self._models else None
            for variable in preset.variables if preset and not self.keys_elsewhere else ():
                if not os.environ.get(variable):
                    self._report(field, f"{name}: the environment variable {variable} is not set")

    def _check_hypotheses(self) -> None:
        """Check for known metrics and conditions of this file, each difference once."""
        if not self.spec.hypotheses or len(self._conditions) < len(self.spec.conditions):
            return  # names of conditions depend on all of them; what is wrong there is reported
        known, seen = list_conditions(self.spec), set[tuple[str, frozenset[str]]]()
        metrics = [key for key, metric in METRICS.items() if not metric.is_judged]
        for place, each in enumerate(self.spec.hypotheses):
            at = f"hypotheses.{place}"
            if each.metric not in metrics:
                expected = f"expected one of {', '.join(metrics)}"
                self._report(f"{at}.metric", f"unknown metric {each.metric!r} ({expected})")
            for field, name in (("condition", each.condition), ("against", each.against)):
                if name not in known:
                    wrong = f"no condition of this file (expected one of {', '.join(known)})"
                    self._report(f"{at}.{field}", f"{name!r} is {wrong}")
            if each.condition == each.against:
                self._report(f"{at}.against", f"{each.against!r} is the condition itself (expected another one)")
            if (pair := (each.metric, frozenset((each.condition, each.against)))) in seen:
                self._report(at, "declared twice (expected each difference once)")
            seen.add(pair)

    def _check_agents(self) -> None:
        """Check every agent by itself, then with every model it is to work with."""
        for agent in self.spec.agents:
            if agent != PUBLISHED_HARNESS and self._try("agents", partial(make_agent, agent)) is None:
                continue
            for model in self.spec.agent_models:
                if model is None:
                    self._try("agent_models", partial(self._pair, agent, None))
                elif model in self._models:
                    self._try("agents", partial(self._pair, agent, model))
        programs = dict.fromkeys(name for name, _ in self._pairs if isinstance(make_agent(name), ProgramAgent))
        if programs and self.spec.sandbox == "local":
            self._report("sandbox", f"{', '.join(programs)}: {_CONTAINED}")
        if self.spec.sandbox == "harbor" and programs.keys() - IN_HARBOR and not self.keys_elsewhere:
            self._try("sandbox", partial(find_installed, "node"))
        self._check_harbor()

    def _pair(self, agent: str, model: str | None) -> None:
        name = published_harness(model) if agent == PUBLISHED_HARNESS else agent
        known = self._pairs.setdefault((name, model), agent)
        if known != agent:
            raise SetupError(f"{known} and {agent} are the same with {model} (expected one of the two)")
        self._require_fit(name, model)

    def _require_fit(self, agent: str, model: str | None) -> None:
        try:
            make_agent(agent).needs(None if model is None else self._models[model])
        except NotOnThisMachine:
            if not self.keys_elsewhere:
                raise

    def _check_harbor(self) -> None:
        """Harbor's agents need its sandbox, and every task must be one that it can run."""
        spec, inside = self.spec, self.spec.sandbox == "harbor"
        theirs = [agent for agent in spec.agents if agent in IN_HARBOR]
        for agent in theirs if not inside else ():
            self._report("sandbox", f"{agent}: expected 'harbor', not {spec.sandbox!r}")
        if theirs and spec.limits.max_total_tokens is not None:
            self._report("limits.max_total_tokens", "Harbor's agents cannot be held to it (expected none)")
        if inside and self.suite is not None:
            units = units_of(spec, self.suite)
            explains = {explain_unsupported if agent in IN_HARBOR else explain_environment for agent in spec.agents}
            for explain in explains:
                self._try("sandbox", partial(_require_supported, units, explain))

    def _check_author(self) -> None:
        writing = [condition for condition in self._conditions if condition.has_author]
        if writing and None in self.spec.author_models:
            names = ", ".join(condition.name for condition in writing)
            self._report("author_models", f"{names}: expected an author model, found none")
            return
        self._check_generators()
        known = [name for name in self.spec.author_models if name in self._models]
        if len(known) < len(self.spec.author_models):
            return  # reported above
        for condition in writing:
            if not any(map(condition.suits, known)):
                self._report("author_models", f"{condition.name}: {_WANTED[condition.mode_at_start is OUTSIDE]}")
        for name in known if writing else ():
            if not any(condition.suits(name) for condition in writing):
                self._report("author_models", f"{name}: {_UNUSED[is_generator(str(name))]}")

    def _check_prompts(self) -> None:
        """Check every prompt of a pack that some condition needs, before the first one is used."""
        spec = self.spec
        writing = [condition.name for condition in self._conditions if list_asked(condition, spec.protocol)]
        for choice in (each for each in spec.prompts if each != OWN):
            names = [name_with_prompts(name, choice, spec.protocol) for name in writing]
            if not any("~" in name for name in names):
                self._report("prompts", f"{choice}: no condition has an author whom it asks (expected {OWN})")
            for name in (name for name in names if "~" in name):
                read = partial(choose_prompts, find_condition(name, spec.protocol), spec.protocol)
                self._try("prompts", read, once=True)

    def _check_author_agents(self) -> None:
        """Check every agent of an author by itself, then with every model it is to work with."""
        for agent in filter(None, self.spec.author_agents):
            if agent in IN_HARBOR:
                self._report("author_agents", f"{agent}: Harbor runs no author (expected an agent of ours)")
                continue
            if agent in MODELLESS:
                self._report("author_agents", f"{agent} asks no model and writes nothing (expected another agent)")
                continue
            made = self._try("author_agents", partial(make_agent, agent))
            if made is None:
                continue
            if isinstance(made, ProgramAgent) and self.spec.sandbox == "local":
                self._report("sandbox", f"{agent} as author: {_CONTAINED}")
            models = [model for works, model in authors_of(self.spec) if works == agent]
            if not models:
                self._report("author_agents", f"{agent} works for a model (expected one that is not a generator)")
            for model in filter(None, models):
                if isinstance(self._models.get(model), Recorded):
                    self._report(
                        "author_agents",
                        f"{agent} cannot work with {model}: a recording holds an author's answers and not what its "
                        "agent asked on the way (expected author_agent: null, or another model)",
                    )
                elif model in self._models:
                    self._try("author_agents", partial(self._require_fit, agent, model))

    def _check_generators(self) -> None:
        for name in self.spec.agent_models:
            if name is not None and is_generator(name):
                self._report("agent_models", f"{name} writes skills and works on no task (expected an author model)")
        for name, model in self._models.items():
            if isinstance(model, GeneratorModel) and self.spec.sandbox != "docker" and model.container_reason:
                message = f"{name}: {model.container_reason} (expected 'docker', not {self.spec.sandbox!r})"
                self._report("sandbox", message)

    def _check_budget(self) -> None:
        """Require prices for a budget in money."""
        for name, model in self._models.items() if self.spec.budget.usd is not None else ():
            if not model.priced:
                message = f"{name} reports no cost, so a budget in USD cannot limit it (expected budget.tokens)"
                self._report("budget.usd", message)

    def _check_whole(self) -> None:
        """Find what only a plan shows: a missing curated skill, samples where the protocol has none."""
        spec = self.spec
        if self.suite is None or len(self._conditions) < len(spec.conditions):
            return
        try:
            units = units_of(spec, self.suite)
        except SetupError:
            return  # reported above
        if not units:
            self._report("suite", f"{self.suite.key} has nothing that {spec.protocol} could run")
        sizes: list[int] = []
        for condition in self._conditions:
            variants = {name_with_prompts(condition.name, choice, spec.protocol) for choice in spec.prompts}
            authors = sum(condition.suits(model) for _, model in authors_of(spec)) * len(variants)
            cell = Cell(Arm(spec.agents[0], None, None, condition.name), 1, spec.seed)
            for unit in units:
                sizes.append(
                    authors * (self._try("conditions", partial(self._count_trials, unit, cell), once=True) or 0)
                )
        # Every trial becomes a row at the launch, and is planned in memory before.
        trials = sum(sizes) * len(spec.agents) * len(spec.agent_models) * spec.replicates
        if trials > settings.MAX_TRIALS:
            self._report(
                "the whole file",
                f"{trials:,} trials (expected at most {settings.MAX_TRIALS:,}, the setting MAX_TRIALS): ask for fewer"
                " replicates, samples, models or conditions, or for parts of the suite",
            )

    def _count_trials(self, unit: Environment, cell: Cell) -> int:
        return len(protocols.slots(make_plan(self.spec, unit, cell, episode=unit.key, digest="")))


# The order of episodes in the queue, for a query. Runs are made in the order of their cells.
EPISODE_ORDER = ("run__experiment_id", "ordinal", "run__replicate", "run_id")


@dataclass(frozen=True, slots=True)
class Planned(Shaped):
    """One trial at its place, in the order of a single worker when nothing fails."""

    place: int  # from 1
    cell: Cell
    unit: str
    slot: TrialSlot

    json_shape = JsonShape(
        "place condition=cell.arm.condition replicate=cell.replicate agent=cell.arm.agent",
        "agent_model=cell.arm.agent_model author_agent=cell.arm.author_agent? author_model=cell.arm.author_model",
        "seed=cell.seed episode=unit phase=slot.phase task=slot.task sample=slot.sample",
    )


def episodes_in_order(prepared: Prepared) -> list[tuple[Cell, EpisodePlan]]:
    """Return every episode in the order of its first hint."""
    placed = [
        ((ordinal, cell.replicate, row), cell, plan)
        for row, (cell, plans) in enumerate(prepared.plans.items())
        for ordinal, plan in enumerate(plans)
    ]
    return [(cell, plan) for _, cell, plan in sorted(placed, key=lambda item: item[0])]


def schedule(prepared: Prepared) -> Iterator[Planned]:
    """Yield every trial of the experiment, in order."""
    queue = deque((cell, plan, deque(slots(plan))) for cell, plan in episodes_in_order(prepared))
    place = 0
    while queue:
        cell, plan, left = queue.popleft()
        if not left:
            continue
        place += 1
        yield Planned(place, cell, plan.environment.key, left.popleft())
        if prepared.spec.order == "one-by-one":
            queue.appendleft((cell, plan, left))
        else:
            queue.append((cell, plan, left))
