"""Launching an experiment: every run, episode and planned trial becomes a row before the first one starts."""

from __future__ import annotations

import uuid
from typing import Any

from django.db import transaction

from benchapp import jobs, models
from benchapp.launch_spec import LaunchSpec, read_spec
from benchapp.models.base import derived_id
from benchapp.plans import environment_named, make_plan, setup_of
from benchapp.suite_files import suite_named
from benchapp.suite_rows import SuiteRows, record_suite
from runner.models import is_scripted
from runner.protocols import slots
from runner.protocols.plan import EpisodePlan
from runner.setup import setup_digest
from runner.toolbox import toolbox_for
from runner.types import Environment, Suite


def launch(value: dict[str, Any], *, by: models.User | None = None) -> models.Experiment:
    """Records the experiment as planned and hints at its episodes. SetupError when it could not run.

    A spec with a key is launched once: later calls give the experiment that is there.
    """
    spec = read_spec(value)
    if spec.key and (found := models.Experiment.objects.filter(public_id=experiment_id(spec.key)).first()):
        return found
    suite = suite_named(spec.suite)
    cells = _cells(spec, suite)
    with transaction.atomic():
        experiment = _record(spec, suite, cells, by)
        transaction.on_commit(lambda: _hint(experiment))
    return experiment


def experiment_id(key: str) -> uuid.UUID:
    return derived_id("launch", key)


# (condition, replicate) -> a plan for each environment
Cells = dict[tuple[str, int], list[EpisodePlan]]


def _cells(spec: LaunchSpec, suite: Suite) -> Cells:
    """Raises whatever would raise later, before anything is written."""
    digest = setup_digest(setup_of(spec, suite))
    cells: Cells = {}
    for condition in dict.fromkeys(spec.conditions):
        for replicate in range(1, spec.replicates + 1):
            cells[condition, replicate] = [
                make_plan(
                    spec,
                    environment,
                    episode=environment.key,
                    condition=condition,
                    seed=spec.seed + replicate - 1,
                    digest=digest,
                )
                for environment in _environments(spec, suite)
            ]
    for cell in cells.values():
        toolbox_for(cell[0], suite)
    return cells


def _environments(spec: LaunchSpec, suite: Suite) -> tuple[Environment, ...]:
    if not spec.environments:
        return suite.environments
    return tuple(environment_named(suite, key) for key in dict.fromkeys(spec.environments))


def _record(spec: LaunchSpec, suite: Suite, cells: Cells, by: models.User | None) -> models.Experiment:
    rows = record_suite(suite)
    experiment = models.Experiment.objects.create(
        name=spec.name,
        suite=rows.suite,
        spec=spec.model_dump(mode="json"),
        created_by=by,
        **({"public_id": experiment_id(spec.key)} if spec.key else {}),
    )
    setup = setup_of(spec, suite)
    for (condition, replicate), cell in cells.items():
        run = models.Run.objects.create(
            experiment=experiment,
            condition=condition,
            replicate=replicate,
            harness=spec.agent,
            harness_version=setup["agent"]["version"],
            agent_model=spec.agent_model or "",
            author_model=(spec.author_model or "") if cell[0].condition.has_author else "",
            scripted=any(is_scripted(name) for name in (spec.agent_model, spec.author_model) if name),
            seed=spec.seed + replicate - 1,
            setup=setup,
            setup_digest=cell[0].setup_digest,
        )
        for ordinal, plan in enumerate(cell, start=1):
            record_episode(run, plan, ordinal, rows)
    return experiment


def record_episode(run: models.Run, plan: EpisodePlan, ordinal: int, rows: SuiteRows) -> models.Episode:
    """The episode with every trial of its plan, waiting."""
    environment = plan.environment
    episode = models.Episode.objects.create(
        run=run,
        environment=rows.environments[environment.key],
        key=environment.key,
        title=environment.name,
        ordinal=ordinal,
        protocol=plan.protocol,
    )
    models.Trial.objects.bulk_create(
        models.Trial(
            episode=episode,
            task=rows.tasks[slot.task],
            task_revision=rows.revisions[slot.task],
            phase=slot.phase,
            sample=slot.sample,
        )
        for slot in slots(plan)
    )
    return episode


def _hint(experiment: models.Experiment) -> None:
    """Episodes side by side: the first environment of every run before the second of any."""
    episodes = models.Episode.objects.filter(run__experiment=experiment).order_by("ordinal", "run_id")
    for public_id in episodes.values_list("public_id", flat=True):
        jobs.hint(str(public_id))
