"""From rows back to what the runner works with: the suite on disk and the plan of an episode."""

from __future__ import annotations

from typing import Any

from benchapp.launch_spec import LaunchSpec
from benchapp.models import Episode, Run
from benchapp.suite_files import suite_named
from runner.agents import Limits
from runner.errors import SetupError
from runner.protocols.conditions import condition_named
from runner.protocols.plan import EpisodePlan
from runner.setup import describe_setup, setup_digest
from runner.types import Environment, Suite


def suite_of(episode: Episode) -> Suite:
    """The episode's suite as it lies on disk now. `plan_of` makes sure that it is still the one that was launched."""
    return suite_named(spec_of(episode.run).suite)


def spec_of(run: Run) -> LaunchSpec:
    return LaunchSpec.model_validate(run.experiment.spec)


def plan_of(episode: Episode, suite: Suite) -> EpisodePlan:
    """The plan as launched. SetupError, naming what differs, when the setup is no longer that of the launch."""
    run, spec = episode.run, spec_of(episode.run)
    now = setup_of(spec, suite)
    if setup_digest(now) != run.setup_digest:
        changed = ", ".join(differences(run.setup, now)) or "its digest"
        raise SetupError(f"the setup changed since the launch: {changed}. Launch again, or restore what was launched")
    return make_plan(
        spec,
        environment_named(suite, episode.environment.key if episode.environment else ""),
        episode=str(episode.public_id),
        condition=run.condition,
        seed=run.seed or 0,
        digest=run.setup_digest,
    )


def make_plan(
    spec: LaunchSpec, environment: Environment, *, episode: str, condition: str, seed: int, digest: str
) -> EpisodePlan:
    return EpisodePlan(
        episode=episode,
        environment=environment,
        condition=condition_named(condition),
        run_seed=seed,
        setup_digest=digest,
        agent=spec.agent,
        agent_model=spec.agent_model,
        author_model=spec.author_model,
        sandbox=spec.sandbox,
        protocol=spec.protocol,
        feedback=spec.feedback,
        profile=spec.profile,
        answers=spec.answers,
        samples=spec.samples,
        placebo_replay=spec.placebo_replay,
        limits=limits_of(spec),
    )


def setup_of(spec: LaunchSpec, suite: Suite) -> dict[str, Any]:
    """What the setup digest covers. The experiment's author model belongs to it in every condition, also where the
    author never works, so that conditions of one experiment are comparable."""
    return describe_setup(
        suite,
        protocol=spec.protocol,
        agent=spec.agent,
        agent_model=spec.agent_model,
        author_model=spec.author_model,
        sandbox=spec.sandbox,
        feedback=spec.feedback,
        profile=spec.profile,
        answers=spec.answers,
        samples=spec.samples,
        limits=limits_of(spec),
    )


def limits_of(spec: LaunchSpec) -> Limits:
    return Limits(
        max_turns=spec.limits.max_turns,
        max_output_tokens=spec.limits.max_output_tokens,
        timeout_seconds=spec.limits.timeout_seconds,
    )


def environment_named(suite: Suite, key: str) -> Environment:
    for environment in suite.environments:
        if environment.key == key:
            return environment
    known = ", ".join(environment.key for environment in suite.environments)
    raise SetupError(f"suite {suite.key} has no environment {key!r}; known: {known}")


def differences(before: Any, after: Any, place: str = "") -> list[str]:
    """Where two JSON values differ: ["suite.digest", ...]."""
    if isinstance(before, dict) and isinstance(after, dict):
        return [
            found
            for key in sorted(before.keys() | after.keys())
            for found in differences(before.get(key), after.get(key), f"{place}.{key}" if place else key)
        ]
    return [] if before == after else [place]
