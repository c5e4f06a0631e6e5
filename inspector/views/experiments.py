"""`/experiments/<id>/`: conditions beside each other, and the runs behind them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Avg, Count
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe

from benchapp.metrics import skillevolbench
from benchapp.metrics.comparability import compare_setups
from benchapp.metrics.rates import Rate
from benchapp.metrics.spending import Spending, spent_by
from benchapp.metrics.tally import Tally, tally_by
from benchapp.models import Attempt, Episode, Experiment, Run, Trial
from inspector.pages import absolute, next_url, paginate, render_page

PER_PAGE = 40  # runs
CONDITIONS_PER_PAGE = 25  # condition x models x harness


@dataclass(frozen=True, slots=True)
class Member:
    """A run as the list of members shows it."""

    run: Run
    tally: Tally
    spent: Spending
    mean_reward: float | None
    rewards: int  # trials that have one


@dataclass(frozen=True, slots=True)
class ConditionRow:
    """The runs of one condition with the same models and harness, their counts added up."""

    condition: str
    runs: list[Run]
    rates: Mapping[str, Rate]

    @property
    def cells(self) -> list[Rate | None]:
        return [self.rates.get(metric.key) for metric in skillevolbench.METRICS]


@require_safe
def experiment(request: HttpRequest, public_id: UUID, *, as_json: bool = False) -> HttpResponse:
    found = get_object_or_404(Experiment.objects.for_list(), public_id=public_id)
    runs = list(found.runs.all())
    page = paginate(request, runs, per_page=PER_PAGE)
    trials = Trial.objects.filter(episode__run__experiment=found)
    tallies = tally_by(trials, "episode__run")
    tainted = Episode.objects.filter(run__experiment=found, is_tainted=True).count()
    rates = skillevolbench.rates_by_run(trials.filter(episode__is_tainted=False))
    conditions = paginate(request, _conditions(runs, rates), per_page=CONDITIONS_PER_PAGE, name="conditions")
    setups = compare_setups(runs)
    members = _members(list(page), tallies)
    total = sum(tallies.values(), Tally())
    data = {
        **_facts(found, runs, total),
        "metrics": [{"key": metric.key, "meaning": metric.meaning} for metric in skillevolbench.METRICS],
        "conditions": [_condition_as_json(row) for row in conditions],
        "conditions_next": next_url(request, conditions, name="conditions"),
        "setup": {"differs": setups.differs, "unknown": setups.unknown},
        "tainted_episodes": tainted,
        "runs": [_member_as_json(request, member) for member in members],
        "next": next_url(request, page),
    }
    context = {
        "experiment": found,
        "page": page,
        "rows": conditions,
        "members": members,
        "columns": skillevolbench.METRICS,
        "replicates": max((len(row.runs) for row in conditions), default=0),
        "total": total,
        "scripted": data["scripted"],
        "comparability": setups,
    }
    return render_page(request, "inspector/experiment.html", data=data, context=context, as_json=as_json)


def _conditions(runs: Iterable[Run], rates: Mapping[int, Mapping[str, Rate]]) -> list[ConditionRow]:
    """Grouped by condition, models and harness, in the order of their first run; runs without a metric have no row."""
    groups: dict[tuple[str, ...], list[Run]] = {}
    for run in runs:
        if run.pk in rates and rates[run.pk]:
            key = (run.condition, run.agent_model, run.author_model, run.harness)
            groups.setdefault(key, []).append(run)
    return [
        ConditionRow(condition, members, skillevolbench.total(rates[run.pk] for run in members))
        for (condition, *_), members in groups.items()
    ]


def _members(runs: list[Run], tallies: Mapping[int, Tally]) -> list[Member]:
    spent = spent_by(Attempt.objects.billed().filter(trial__episode__run__in=runs), "trial__episode__run")
    rewards = (
        Trial.objects.filter(episode__run__in=runs)
        .order_by()
        .values_list("episode__run")
        .annotate(Avg("reward"), Count("reward"))
    )
    known = {run: (mean, count) for run, mean, count in rewards}
    return [
        Member(run, tallies.get(run.pk, Tally()), spent.get(run.pk, Spending()), *known.get(run.pk, (None, 0)))
        for run in runs
    ]


def _facts(found: Experiment, runs: list[Run], total: Tally) -> dict[str, Any]:
    return {
        "id": found.public_id,
        "name": found.name,
        "status": found.status,
        "origin": found.origin,
        "suite": found.suite.key if found.suite else None,
        "source": found.source or None,
        "scripted": any(run.scripted for run in runs),
        "trials": total.as_json(),
        "runs_total": len(runs),
        "created_at": found.created_at,
        "started_at": found.started_at,
        "finished_at": found.finished_at,
    }


def _condition_as_json(row: ConditionRow) -> dict[str, Any]:
    run = row.runs[0]
    return {
        "condition": row.condition,
        "agent_model": run.agent_model,
        "author_model": run.author_model,
        "harness": run.harness,
        "runs": [member.public_id for member in row.runs],
        "metrics": {key: rate.as_json() for key, rate in row.rates.items()},
    }


def _member_as_json(request: HttpRequest, member: Member) -> dict[str, Any]:
    run = member.run
    return {
        "id": run.public_id,
        "condition": run.condition,
        "replicate": run.replicate,
        "harness": run.harness,
        "harness_version": run.harness_version or None,
        "agent_model": run.agent_model,
        "author_model": run.author_model,
        "scripted": run.scripted,
        "status": run.status,
        "setup_digest": run.setup_digest or None,
        "trials": member.tally.as_json(),
        "mean_reward": member.mean_reward,
        "rewards": member.rewards,
        "spent": member.spent.as_json(),
        "url": absolute(request, "run-json", run.public_id),
    }
