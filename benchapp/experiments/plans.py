"""Rebuild from rows what the runner works with: the suite on disk and the plan of an episode."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from math import ceil, floor

from benchapp.experiments.cells import Arm, Cell, cell_of
from benchapp.experiments.launch_spec import LaunchSpec, QualificationSpec, read_spec
from benchapp.models import Episode, Run
from benchapp.record.sets.suite_files import find_suite
from runner import protocols
from runner.agents import Limits
from runner.base.errors import SetupError
from runner.base.suite import Suite
from runner.base.types import Environment, Family, JsonValue
from runner.engine.setup import describe_setup, setup_digest
from runner.protocols.conditions import find_condition
from runner.protocols.plan import AuthorSampling, EpisodePlan, Probe, Rule
from runner.protocols.prompt_choice import describe_prompts

ROUNDING = 1e-9  # 0.7 of 10 runs are 7


def suite_of(episode: Episode) -> Suite:
    """Return the episode's suite as it is on disk now. `plan_of` checks that it is still the one that was launched."""
    return find_suite(spec_of(episode.run).suite)


def spec_of(run: Run) -> LaunchSpec:
    """Return the launched file. Raise SetupError if it is not, or is no longer, a valid one."""
    return read_spec(run.experiment.spec)


def plan_of(episode: Episode, suite: Suite) -> EpisodePlan:
    """Return the plan as launched. Raise SetupError, naming the differences, if the setup changed since."""
    run, spec = episode.run, spec_of(episode.run)
    cell = cell_of(run)
    now = setup_of(spec, cell.arm, suite)
    if setup_digest(now) != run.setup_digest:
        changed = ", ".join(differences(run.setup, now)) or "its digest"
        raise SetupError(f"the setup changed since the launch: {changed}. Launch again, or restore what was launched")
    unit = find_unit(spec.protocol, keep_tasks(suite, spec.tasks), episode.key)
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
    return AuthorSampling(spec.author_sampling.temperature, spec.author_sampling.max_tokens)


def limits_of(spec: LaunchSpec) -> Limits:
    return Limits(
        max_turns=spec.limits.max_turns,
        max_output_tokens=spec.limits.max_output_tokens,
        max_total_tokens=spec.limits.max_total_tokens,
        timeout_seconds=spec.limits.timeout_seconds,
    )


def find_unit(protocol: str, suite: Suite, key: str) -> Environment:
    """Return what one episode of the protocol is about. SetupError names the known ones."""
    units = protocols.units(protocol, suite)
    for unit in units:
        if unit.key == key:
            return unit
    known = ", ".join(unit.key for unit in units)
    raise SetupError(f"suite {suite.key} has no environment {key!r} under {protocol}; known: {known}")


def differences(before: object, after: object, place: str = "") -> list[str]:
    """List where two JSON values differ: ["suite.digest", ...]."""
    if isinstance(before, dict) and isinstance(after, dict):
        return [
            found
            for key in sorted(before.keys() | after.keys())
            for found in differences(before.get(key), after.get(key), f"{place}.{key}" if place else key)
        ]
    return [] if before == after else [place]
