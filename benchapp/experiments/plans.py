"""The cells of an experiment, and what the runner works with, rebuilt from rows:
the suite on disk and an episode's plan."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import ceil, floor

from benchapp.experiments.launch_spec import LaunchSpec, QualificationSpec, read_spec
from benchapp.models import Episode, Run
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.record.sets.suite_files import find_suite
from runner import protocols
from runner.agents import Limits, agent_title
from runner.base.errors import SetupError
from runner.base.suite import Suite
from runner.base.types import Environment, Family, JsonValue
from runner.engine.setup import describe_setup, setup_digest
from runner.models import is_generator
from runner.models.presets import read_preset_named
from runner.protocols.conditions import find_condition
from runner.protocols.plan import AuthorSampling, EpisodePlan, Probe, Rule
from runner.protocols.prompt_choice import describe_prompts, name_with_prompts

PUBLISHED_HARNESS = "preset"  # as an agent's name: the harness that the model's preset was published with


@dataclass(frozen=True, slots=True)
class Arm(Shaped):
    """A cell without its replicate: what an estimate or a comparison calls one line."""

    agent: str
    agent_model: str | None
    author_model: str | None  # of the experiment, even in conditions without an author
    condition: str
    author_agent: str | None = None  # likewise

    json_shape = JsonShape("condition agent agent_model author_agent? author_model")

    def __str__(self) -> str:
        models = " + ".join(name for name in (self.agent_model, self.author_model) if name)
        author = f" · {agent_title(self.author_agent)} as author" if self.author_agent else ""
        return f"{self.condition} · {self.agent}" + (f" · {models}" if models else "") + author


@dataclass(frozen=True, slots=True)
class Cell:
    """One run of an experiment: an arm and its replicate."""

    arm: Arm
    replicate: int  # from 1
    seed: int

    def __str__(self) -> str:
        return f"{self.arm} · rep {self.replicate}"


def pairs_of(spec: LaunchSpec) -> Iterator[tuple[str, str | None]]:
    """Yield agent and model of every cell. Raise SetupError if "preset" meets a model that is not a preset."""
    for agent, model in product(spec.agents, spec.agent_models):
        yield (published_harness(model) if agent == PUBLISHED_HARNESS else agent), model


def authors_of(spec: LaunchSpec) -> Iterator[tuple[str | None, str | None]]:
    """Yield agent and model of every author."""
    for works, model in product(spec.author_agents, spec.author_models):
        if works is None or model is None or not is_generator(model):
            yield works, model


def published_harness(model: str | None) -> str:
    if model is None or "/" in model:
        raise SetupError(f"the agent 'preset' needs a preset as its agent model, not {model!r}")
    return read_preset_named(model).harness


def cells_of(spec: LaunchSpec) -> tuple[Cell, ...]:
    """Return every cell, with the replicates of an arm together (`benchapp.experiments.preparation` orders the work).

    With two authors, a condition without one runs once for each, as its control. Impossible pairs are left out: an
    outside program where a model must write, a model where a program must, and an agent that works for a program. A
    choice of prompts does not affect conditions that ask nobody: those run once for all choices.
    """
    arms = []
    for (agent, model), (works, author), name in product(pairs_of(spec), authors_of(spec), list_conditions(spec)):
        condition = find_condition(name, spec.protocol)
        if condition.agent:  # such an agent asks no model
            agent, model = condition.agent, None
        if condition.suits(author):
            arms.append(Arm(agent, model, author, name, works))
    return tuple(
        Cell(arm, replicate, spec.seed + replicate - 1)
        for arm in dict.fromkeys(arms)
        for replicate in range(1, spec.replicates + 1)
    )


def list_conditions(spec: LaunchSpec) -> tuple[str, ...]:
    """Return the conditions by name, each with every choice of prompts that changes it."""
    names = (name_with_prompts(name, choice, spec.protocol) for name, choice in product(spec.conditions, spec.prompts))
    return tuple(dict.fromkeys(names))


def cell_of(run: Run) -> Cell:
    """Return the cell as launched: its setup holds the author model even if no author works."""
    setup = run.setup
    arm = Arm(
        agent=setup["agent"]["name"],
        agent_model=setup["agent"]["model"],
        author_model=setup["author"]["model"],
        condition=run.condition,
        author_agent=setup["author"].get("agent", {}).get("name"),
    )
    return Cell(arm, run.replicate or 1, run.seed or 0)


ROUNDING = 1e-9  # 0.7 of 10 runs are 7


def suite_of(episode: Episode) -> Suite:
    """Return the episode's suite as it is on disk now. `plan_of` checks that it is still the one that was launched."""
    return find_suite(spec_of(episode.run).suite)


def spec_of(run: Run) -> LaunchSpec:
    """Return the launched file. Raise SetupError if it is not, or is no longer, a valid one."""
    return read_spec(run.experiment.spec)


def spec_alone(episode: Episode, **changes: object) -> LaunchSpec:
    """Return the launched file with some fields changed, for an experiment of this episode's unit and arm alone."""
    arm = cell_of(episode.run).arm
    return spec_of(episode.run).narrow(
        key="",
        environments=[episode.key],
        agents=[arm.agent],
        agent_models=[arm.agent_model],
        author_models=[arm.author_model],
        author_agents=[arm.author_agent],
        hypotheses=[],  # about conditions that it does not have
        replicates=1,
        **changes,
    )


def plan_of(episode: Episode, suite: Suite) -> EpisodePlan:
    """Return the plan as launched. Raise SetupError, naming the differences, if the setup changed since."""
    run, spec = episode.run, spec_of(episode.run)
    cell = cell_of(run)
    now = setup_of(spec, cell.arm, suite)
    if setup_digest(now) != run.setup_digest:
        changed = ", ".join(differences(run.setup, now)) or "its digest"
        raise SetupError(f"the setup changed since the launch: {changed}. Launch again, or restore what was launched")
    unit = protocols.find_unit(spec.protocol, keep_tasks(suite, spec.tasks), episode.key)
    return make_plan(spec, unit, cell, episode=str(episode.public_id), digest=run.setup_digest)


def make_plan(spec: LaunchSpec, unit: Environment, cell: Cell, *, episode: str, digest: str) -> EpisodePlan:
    return EpisodePlan(
        episode=episode,
        environment=unit,
        condition=find_condition(cell.arm.condition, spec.protocol),
        run_seed=cell.seed,
        setup_digest=digest,
        agent=cell.arm.agent,
        agent_model=cell.arm.agent_model,
        author_model=cell.arm.author_model,
        author_agent=cell.arm.author_agent,
        author_limits=author_limits_of(spec),
        judge_model=spec.judge_model,
        sandbox=spec.sandbox,
        protocol=spec.protocol,
        feedback=spec.feedback,
        profile=spec.profile,
        notice=spec.notice or "ours",
        author_sampling=sampling_of(spec),
        answers=spec.answers,
        samples=spec.samples,
        placebo_replay=spec.placebo_replay,
        limits=limits_of(spec),
        record_calls=spec.record,
        probe=None if spec.probe is None else Probe(spec.probe.library, spec.probe.tasks),
        rules=None if spec.qualification is None else rules_of(spec.qualification),
    )


def rules_of(asked: QualificationSpec) -> dict[str, Rule]:
    """Return the rules, with shares as numbers of runs. Checks that are left out have no rule."""
    rules: dict[str, Rule] = {}
    if asked.solution:
        rules["solution"] = Rule(asked.solution.runs, asked.solution.runs, asked.solution.runs)
    if asked.untouched:
        rules["untouched"] = Rule(asked.untouched.runs, 0, 0)
    if asked.trap:
        rules["trap"] = Rule(asked.trap.runs, 0, 0)
    if asked.no_skill:
        rules["no_skill"] = Rule(asked.no_skill.runs, 0, floor(asked.no_skill.at_most * asked.no_skill.runs + ROUNDING))
    for name, found in (("no_corpus", asked.no_corpus), ("with_corpus", asked.with_corpus)):
        if found:
            rules[name] = Rule(found.runs, 0, ceil(found.below * found.runs - ROUNDING) - 1)
    if asked.reference:
        rules["reference"] = Rule(asked.reference.runs, asked.reference.passes, asked.reference.runs)
    return rules


def keep_tasks(suite: Suite, keys: Collection[str]) -> Suite:
    """Return the suite with only these tasks, its digest unchanged; all if none is named. Practice tasks stay: they do
    not count in results."""
    if not keys:
        return suite

    def keep(family: Family) -> Family:
        return replace(family, tasks=tuple(task for task in family.tasks if task.practice or task.key in keys))

    def narrow(environment: Environment) -> Environment:
        families = (keep(family) for family in environment.families)
        kept = tuple(family for family in families if any(not task.practice for task in family.tasks))
        return replace(environment, families=kept)

    narrowed = map(narrow, suite.environments)
    return replace(suite, environments=tuple(environment for environment in narrowed if environment.families))


def setup_of(spec: LaunchSpec, arm: Arm, suite: Suite) -> dict[str, JsonValue]:
    """Return what the setup digest covers. The author model is included in every condition, even without an author's
    work, so that the conditions of one author model are comparable. Prompts of packs belong to the conditions that name
    them."""
    return describe_setup(
        suite,
        protocol=spec.protocol,
        agent=arm.agent,
        agent_model=arm.agent_model,
        author_model=arm.author_model,
        sandbox=spec.sandbox,
        feedback=spec.feedback,
        profile=spec.profile,
        answers=spec.answers,
        samples=spec.samples,
        limits=limits_of(spec),
        judge_model=spec.judge_model,
        prompts=describe_prompts(find_condition(arm.condition, spec.protocol), spec.protocol),
        author_agent=arm.author_agent,
        author_limits=author_limits_of(spec),
        author_sampling=sampling_of(spec),
        tasks=spec.tasks,
        notice=spec.notice or "ours",
    )


def author_limits_of(spec: LaunchSpec) -> Limits:
    """Return the file's limits, with those of the protocol's paper as defaults."""
    given = {name: value for name, value in spec.author_limits.model_dump().items() if value is not None}
    return replace(protocols.author_limits(spec.protocol), **given)


def sampling_of(spec: LaunchSpec) -> AuthorSampling:
    return AuthorSampling(**spec.author_sampling.model_dump())


def limits_of(spec: LaunchSpec) -> Limits:
    return Limits(**spec.limits.model_dump())


def differences(before: object, after: object, place: str = "") -> list[str]:
    """List where two JSON values differ: ["suite.digest", ...]."""
    if isinstance(before, dict) and isinstance(after, dict):
        return [
            found
            for key in sorted(before.keys() | after.keys())
            for found in differences(before.get(key), after.get(key), f"{place}.{key}" if place else key)
        ]
    return [] if before == after else [place]
