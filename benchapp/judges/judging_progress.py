"""How far the judging of experiments has come, and what it has used."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Count, Q, QuerySet, Sum

from benchapp.models import Experiment, JudgingOrder, JudgingTry
from benchapp.models.stand_ins import StandIn, find_stand_ins
from benchapp.record.json_shape import JsonShape, Shaped
from runner.models import is_scripted


@dataclass(frozen=True, slots=True)
class JudgingProgress(Shaped):
    """One judge over one experiment. `gone_through`: runs; an open one counts as the share of its tasks that is
    done."""

    experiment: Experiment
    model: str
    prompts: str
    runs: int
    done: int
    stopped: int
    waiting: int  # of these, runs that have not ended
    gone_through: float
    reasons: tuple[str, ...]  # why runs stopped, each once
    calls: int
    cost_usd: float | None
    unknown_cost: int  # replies

    json_shape = JsonShape(
        *("experiment", "model", "prompts", "scripted", "state", "runs", "done", "stopped", "waiting", "gone_through"),
        *("reasons", "calls", "cost_usd", "unknown_cost"),
    )

    @property
    def stand_ins(self) -> frozenset[StandIn]:
        return find_stand_ins(self.scripted, self.model)

    @property
    def scripted(self) -> bool:
        return is_scripted(self.model)

    @property
    def is_open(self) -> bool:
        return self.done + self.stopped < self.runs

    @property
    def state(self) -> str:
        if self.is_open:
            return "waiting" if self.waiting == self.runs - self.done - self.stopped else "running"
        return "stopped" if self.stopped else "done"


def progress_of_judging(orders: QuerySet[JudgingOrder]) -> list[JudgingProgress]:
    """Return the latest requests first. Two queries."""
    found = (
        orders.filter(run__experiment__deleted_at=None).select_related("run__experiment").order_by("-asked_at", "pk")
    )
    found = found.defer("run__setup", "run__experiment__spec", "run__experiment__estimate")
    groups: dict[tuple[int, str, str], list[JudgingOrder]] = defaultdict(list)
    for order in found:
        groups[order.run.experiment_id, order.model, order.prompts].append(order)
    used = _used_by(order.judging_id for mine in groups.values() for order in mine)
    return [_sum(mine, used) for mine in groups.values()]


_Used = tuple[int, float | None, int]


def _sum(orders: list[JudgingOrder], used: dict[int, _Used]) -> JudgingProgress:
    status = JudgingOrder.Status
    parts = [used[order.judging_id] for order in orders if order.judging_id in used]
    known = [cost for _, cost, _ in parts if cost is not None]
    return JudgingProgress(
        experiment=orders[0].run.experiment,
        model=orders[0].model,
        prompts=orders[0].prompts,
        runs=len(orders),
        done=sum(order.status == status.DONE for order in orders),
        stopped=sum(order.status == status.STOPPED for order in orders),
        waiting=sum(order.status == status.WAITING and order.run.status != "done" for order in orders),
        gone_through=sum(
            1.0 if order.status == status.DONE else order.tasks_done / (order.tasks_total or 1) for order in orders
        ),
        reasons=tuple(dict.fromkeys(order.reason for order in orders if order.status == status.STOPPED)),
        calls=sum(calls for calls, _, _ in parts),
        cost_usd=sum(known) if known else None,
        unknown_cost=sum(unknown for _, _, unknown in parts),
    )


def _used_by(judgings: Iterable[int | None]) -> dict[int, _Used]:
    """Return judging pk -> calls, the sum of known costs, replies of unknown cost."""
    tries = JudgingTry.objects.filter(unit__judging__in={pk for pk in judgings if pk is not None}).order_by()
    told = tries.values_list("unit__judging").annotate(
        calls=Count("pk"), usd=Sum("cost_usd"), unknown=Count("pk", filter=Q(cost_usd=None, reply__isnull=False))
    )
    return {pk: (calls, usd, unknown) for pk, calls, usd, unknown in told}
