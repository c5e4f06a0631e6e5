"""Judge in the background: an order for a run is processed in slices, so that trials take turns with it.

Answers are kept one by one, so a killed worker causes at most one question to be asked again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db import transaction
from django.db.models import Count, F, Q, QuerySet, Sum
from django.utils import timezone

from benchapp.judges.judge_passes import judge_run
from benchapp.models import JudgingOrder, JudgingTry, Run, User
from benchapp.models.stand_ins import StandIn, find_stand_ins
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.record.slices import SliceBudget, SlicedWork, SliceEnd
from runner.base.errors import SetupError
from runner.judging.judge_prompts import version_of
from runner.judging.metrics import SCORED, Metric
from runner.models import Model, is_scripted, make_model
from runner.prompts.prompt_pack import PromptPack, find_judge_pack
from runner.prompts.roles import OWN

WORK = SlicedWork(JudgingOrder.objects.all, "judging", f"{__name__}.judge_slice")


@dataclass(frozen=True, slots=True)
class JudgingWish:
    """Which judge should judge what. `metrics` empty: all. The limits apply to each run; None: none."""

    model: str
    prompts: str = OWN
    metrics: tuple[str, ...] = ()
    max_calls: int | None = None
    max_usd: float | None = None

    def check(self) -> Model:
        """Check the wish. SetupError explains what is wrong and what was expected."""
        read_metrics(self.metrics)
        find_prompts(self.prompts)
        return make_model(self.model)


def read_metrics(names: Sequence[str]) -> list[Metric]:
    """Read the metrics. Raise SetupError for an unknown name."""
    if unknown := sorted(set(names) - set(SCORED)):
        raise SetupError(f"{', '.join(unknown)}: no such metric of a judge (expected some of {', '.join(SCORED)})")
    return [metric for metric in SCORED if not names or metric in names]


def find_prompts(name: str) -> PromptPack | None:
    """Return the pack; None for our own prompts. Raise SetupError if no pack of this name has prompts for a judge."""
    return None if name == OWN else find_judge_pack(name)


def order_judging(runs: Iterable[Run], wish: JudgingWish, by: User | None = None) -> int:
    """Open an order for each of these runs, even if one has ended; existing answers stay. Return how many."""
    detail = {"metrics": list(wish.metrics), "max_calls": wish.max_calls, "max_usd": wish.max_usd, "asked_by": by}
    anew = {"status": JudgingOrder.Status.WAITING, "reason": "", "tasks_done": 0, "failures": 0}
    free = {"worker": "", "lease_until": None}
    ordered = 0
    with transaction.atomic():
        for run in runs:
            order, _ = JudgingOrder.objects.update_or_create(
                run=run,
                model=wish.model,
                prompts=wish.prompts,
                defaults={**detail, **anew, **free, "asked_at": timezone.now()},
            )
            JudgingOrder.objects.filter(pk=order.pk).update(lease_epoch=F("lease_epoch") + 1)
            ordered += 1
        transaction.on_commit(enqueue_due)
    return ordered


enqueue_due = WORK.enqueue_due


def judge_slice(order_id: str) -> None:
    """Run the job: ask for a slice of time, then put the rest at the end of the queue."""
    WORK.run(order_id, _work)


def _work(order: JudgingOrder) -> SliceEnd:
    pack, model = find_prompts(order.prompts), make_model(order.model)
    outcome = judge_run(
        order.run,
        model,
        read_metrics(order.metrics),
        budget=_budget_of(order, model, version_of(pack)),
        pack=pack,
        skip=order.tasks_done,
        after_task=lambda done, total: WORK.hold(order, tasks_done=done, tasks_total=total),
    )
    fields = {"judging": outcome.judging}
    if outcome.goes_on:
        return SliceEnd(JudgingOrder.Status.WAITING, fields=fields)
    status = JudgingOrder.Status.STOPPED if outcome.stopped else JudgingOrder.Status.DONE
    return SliceEnd(status, outcome.stopped, fields)


def _budget_of(order: JudgingOrder, model: Model, prompt_version: str) -> SliceBudget:
    """Return the budget, with what earlier slices have used since the order, according to the record."""
    tries = JudgingTry.objects.filter(
        unit__judging__run=order.run,
        unit__judging__model=model.name[:200],
        unit__judging__prompt_version=prompt_version,
        unit__judging__repeat=1,
        asked_at__gte=order.asked_at,
    )
    return SliceBudget.of(tries, calls=order.max_calls, usd=order.max_usd, renew=lambda: WORK.hold(order))


class JudgingProgress(Shaped):
    """One judge over one experiment. `gone_through`: runs; an open one counts as the share of its tasks that is
    done. `waiting`: runs that have not ended. `reasons`: why runs stopped, each once. `unknown_cost`: replies."""

    json_shape = JsonShape(
        "experiment model prompts scripted state runs done stopped waiting gone_through reasons calls cost_usd",
        "unknown_cost",
    )

    def __init__(self, orders: list[JudgingOrder], used: dict[int, _Used]) -> None:
        status = JudgingOrder.Status
        parts = [used[order.judging_id] for order in orders if order.judging_id in used]
        known = [cost for _, cost, _ in parts if cost is not None]
        self.experiment = orders[0].run.experiment
        self.model = orders[0].model
        self.prompts = orders[0].prompts
        self.scripted = is_scripted(self.model)
        self.runs = len(orders)
        self.done = sum(order.status == status.DONE for order in orders)
        self.stopped = sum(order.status == status.STOPPED for order in orders)
        self.waiting = sum(order.status == status.WAITING and order.run.status != "done" for order in orders)
        self.gone_through = sum(
            1.0 if order.status == status.DONE else order.tasks_done / (order.tasks_total or 1) for order in orders
        )
        self.reasons = list(dict.fromkeys(order.reason for order in orders if order.status == status.STOPPED))
        self.calls = sum(calls for calls, _, _ in parts)
        self.cost_usd = sum(known) if known else None
        self.unknown_cost = sum(unknown for _, _, unknown in parts)

    @property
    def stand_ins(self) -> frozenset[StandIn]:
        return find_stand_ins(self.scripted, self.model)

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
    return [JudgingProgress(mine, used) for mine in groups.values()]


_Used = tuple[int, float | None, int]


def _used_by(judgings: Iterable[int | None]) -> dict[int, _Used]:
    """Return judging pk -> calls, the sum of known costs, replies of unknown cost."""
    tries = JudgingTry.objects.filter(unit__judging__in={pk for pk in judgings if pk is not None}).order_by()
    sums = tries.values_list("unit__judging").annotate(
        calls=Count("pk"), usd=Sum("cost_usd"), unknown=Count("pk", filter=Q(cost_usd=None, reply__isnull=False))
    )
    return {pk: (calls, usd, unknown) for pk, calls, usd, unknown in sums}
