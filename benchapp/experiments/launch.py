"""Launch an experiment: every run, episode and planned trial becomes a row before the first one starts."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError, transaction

from benchapp import models
from benchapp.experiments.foresight import estimate
from benchapp.experiments.launch_spec import ADMITTED, LaunchSpec, SpecProblem, Unlaunchable, read_spec, try_spec
from benchapp.experiments.plans import Cell, differences
from benchapp.experiments.preparation import EPISODE_ORDER, Prepared, prepare
from benchapp.experiments.work import advance
from benchapp.judges.judging_orders import JudgingWish, order_judging
from benchapp.models.base import derived_id
from benchapp.record.sets.suite_files import SuiteRows, record_suite
from benchapp.record.writing.human_acts import note_activity
from runner.models import is_scripted
from runner.protocols import slots
from runner.protocols.plan import EpisodePlan


def launch(
    value: Mapping[str, object], *, by: models.User | None = None, keys_elsewhere: bool = False
) -> models.Experiment:
    """Record the experiment as planned and hint at its episodes. Raise Unlaunchable if it could not run.

    A file with a key is launched once: later calls return the existing experiment. Raise Unlaunchable if that was
    launched from another file.
    """
    if value.get("key") and (found := _find_launched(read_spec(value))):
        return found
    prepared = prepare(value, keys_elsewhere=keys_elsewhere)
    try:
        with transaction.atomic():
            experiment = launch_prepared(prepared, by=by)
            note_activity(by, "launch", experiment, detail={"runs": len(prepared.plans)})
    except IntegrityError:  # the same key, at the same moment (a button pressed twice)
        if found := _find_launched(prepared.spec):
            return found
        raise
    return experiment


def _find_launched(spec: LaunchSpec) -> models.Experiment | None:
    """Find the experiment of this key. Raise Unlaunchable if it was deleted, or launched from another file."""
    experiment = models.Experiment.objects.filter(public_id=experiment_id(spec.key)).first() if spec.key else None
    if experiment is None:
        return None
    if experiment.deleted_at is not None:
        raise Unlaunchable(
            [SpecProblem("key", f"the experiment launched as {spec.key!r:.100} was deleted (expected another key)")]
        )
    then, _ = try_spec(experiment.spec)  # with today's defaults, which may be newer
    if then and then.tasks and spec.tasks == ADMITTED:  # as they were admitted at the launch
        spec = spec.narrow(tasks=then.tasks)
    if then and {*spec.worker_labels} < {*then.worker_labels}:  # with those that its tasks need
        spec = spec.narrow(worker_labels=then.worker_labels)
    if then and spec.notice is None:  # likewise
        spec = spec.narrow(notice=then.notice)
    if changed := differences(then.file if then else experiment.spec, spec.file):
        message = (
            f"{spec.key!r:.100} was launched with another {', '.join(changed)} (expected the same file, or another key)"
        )
        raise Unlaunchable([SpecProblem("key", message)])
    return experiment


def launch_prepared(prepared: Prepared, *, by: models.User | None = None) -> models.Experiment:
    """Launch what `prepare` accepted."""
    spec = prepared.spec
    with transaction.atomic():
        rows = record_suite(prepared.suite)
        experiment = models.Experiment.objects.create(
            name=spec.name,
            suite=rows.suite,
            spec=spec.file,
            estimate=estimate(prepared).as_json(),
            created_by=by,
            **({"public_id": experiment_id(spec.key)} if spec.key else {}),
        )
        for cell, plans in prepared.plans.items():
            run = _record_run(experiment, spec, cell, plans[0], prepared.setups[cell.arm])
            for ordinal, plan in enumerate(plans, start=1):
                record_episode(run, plan, ordinal, rows)
        if (wanted := spec.judging) is not None:
            wish = JudgingWish(wanted.model, wanted.prompts, wanted.metrics, wanted.calls, wanted.usd)
            order_judging(experiment.runs.all(), wish, by)
        episodes = models.Episode.objects.filter(run__experiment=experiment).order_by(*EPISODE_ORDER)
        transaction.on_commit(lambda: [advance.hint(each) for each in episodes.prefetch_related("run__experiment")])
    return experiment


def experiment_id(key: str) -> uuid.UUID:
    return derived_id("launch", key)


def _record_run(
    experiment: models.Experiment, spec: LaunchSpec, cell: Cell, plan: EpisodePlan, setup: dict[str, Any]
) -> models.Run:
    arm = cell.arm
    return models.Run.objects.create(
        experiment=experiment,
        condition=arm.condition,
        replicate=cell.replicate,
        harness=arm.agent,
        harness_version=setup["agent"]["version"],
        agent_model=arm.agent_model or "",
        author_model=(arm.author_model or "") if plan.condition.has_author else "",
        author_agent=(arm.author_agent or "") if plan.condition.has_author else "",
        scripted=any(is_scripted(name) for name in (arm.agent_model, arm.author_model, spec.judge_model) if name),
        seed=cell.seed,
        setup=setup,
        setup_digest=plan.setup_digest,
        budget_usd=spec.budget.usd,
        budget_tokens=spec.budget.tokens,
    )


def record_episode(run: models.Run, plan: EpisodePlan, ordinal: int, rows: SuiteRows) -> models.Episode:
    """Record the episode with every trial of its plan, waiting."""
    unit, first = plan.environment, plan.environment.families[0]
    divides = unit.key == first.key  # the protocol's episodes are families, not environments
    episode = models.Episode.objects.create(
        run=run,
        environment=rows.environments[first.environment],
        family=rows.tasks[first.tasks[0].key].family if divides else None,
        key=unit.key,
        title=unit.name,
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
