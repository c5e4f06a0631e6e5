"""Judging in the background: what was ordered for a run is worked off in slices, so that trials take turns with it.

The record says what is left to do, the queue only hints at it: a worker that was killed leaves an order whose lease ends, and
`enqueue_due` hints at it again. Answers are kept one by one, so at most the question under way is asked a second time.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import django_rq
from django.conf import settings
from django.db import transaction
from django.db.models import Count, F, Max, Q, Sum
from django.utils import timezone
from redis.exceptions import RedisError

from benchapp.judges.judge_budget import Budget, SliceOver
from benchapp.judges.judge_passes import PassOutcome, judge_run
from benchapp.models import Judging, JudgingOrder, JudgingTry, Run, User
from benchapp.record.error_text import words_of
from benchapp.record.processes import ProcessName, this_process
from runner.base.errors import SetupError
from runner.judging.judge_prompts import version_of
from runner.judging.metrics import SCORED, Metric
from runner.models import Model, make_model
from runner.prompts.prompt_pack import PromptPack, find_judge_pack
from runner.prompts.roles import OWN

log = logging.getLogger(__name__)

HINT = "judging"
SLICE_SECONDS = 20.0  # trials wait for a worker at most so long, and one call, because of it
LEASE = timedelta(minutes=30)  # longer than any single call
MAX_FAILURES = 5  # processes in a row that vanish at one order


@dataclass(frozen=True, slots=True)
class JudgingWish:
    """Who is to judge what. `metrics` empty: all. The limits are those of each run by itself; None: none."""

    model: str
    prompts: str = OWN
    metrics: tuple[str, ...] = ()
    max_calls: int | None = None
    max_usd: float | None = None

    def check(self) -> Model:
        """SetupError says what is wrong and what was expected."""
        read_metrics(self.metrics)
        find_prompts(self.prompts)
        return make_model(self.model)


def read_metrics(names: Sequence[str]) -> list[Metric]:
    """SetupError for a name that no metric has."""
    if unknown := sorted(set(names) - set(SCORED)):
        raise SetupError(f"{', '.join(unknown)}: no such metric of a judge (expected some of {', '.join(SCORED)})")
    return [metric for metric in SCORED if not names or metric in names]


def find_prompts(name: str) -> PromptPack | None:
    """None: ours. SetupError where no pack of this name asks a judge."""
    return None if name == OWN else find_judge_pack(name)


def order_judging(runs: Iterable[Run], wish: JudgingWish, by: User | None = None) -> int:
    """Opens an order for each of these runs, also where one has ended; what was answered stays. How many."""
    told = {"metrics": list(wish.metrics), "max_calls": wish.max_calls, "max_usd": wish.max_usd}
    anew = {"status": JudgingOrder.Status.WAITING, "reason": "", "tasks_done": 0, "failures": 0}
    with transaction.atomic():
        ordered = 0
        for run in runs:
            order, _ = JudgingOrder.objects.update_or_create(
                run=run,
                model=wish.model,
                prompts=wish.prompts,
                defaults={
                    **told,
                    **anew,
                    "asked_by": by,
                    "asked_at": timezone.now(),
                    "worker": "",
                    "lease_until": None,
                },
            )
            JudgingOrder.objects.filter(pk=order.pk).update(lease_epoch=F("lease_epoch") + 1)
            ordered += 1
        transaction.on_commit(enqueue_due)
    return ordered


# --- the queue --------------------------------------------------------------------------------------------------


def enqueue_due() -> int:
    """Hints at every order that somebody could work on now and that has no hint. Safe at any time."""
    _free_what_the_dead_hold()
    due = [str(each) for each in JudgingOrder.objects.due(timezone.now()).values_list("public_id", flat=True)]
    if not due:
        return 0
    try:
        queue = django_rq.get_queue()
        known = [*queue.get_job_ids(), *queue.started_job_registry.get_job_ids(cleanup=False)]
        hinted = {job.split("_")[1] for job in known if job.startswith(f"{HINT}_")}
        for order_id in due:
            if order_id not in hinted:
                _enqueue(order_id)
    except (RedisError, OSError) as error:
        log.info("judging not queued: cannot reach the broker: %s", error)
        return 0
    return len(due)


def _free_what_the_dead_hold() -> None:
    """A lease whose holder is a process of this machine that ended is free at once."""
    for order in JudgingOrder.objects.open().exclude(worker=""):
        if (name := ProcessName.parse(order.worker)) and name.is_gone:
            JudgingOrder.objects.filter(pk=order.pk, lease_epoch=order.lease_epoch).update(worker="", lease_until=None)
            log.warning("judging order %s: its holder %s is gone", order.public_id, order.worker)


def _enqueue(order_id: str) -> None:
    django_rq.get_queue().enqueue(
        judge_slice,
        order_id,
        job_id=f"{HINT}_{order_id}_{uuid.uuid4().hex[:12]}",
        job_timeout=settings.JOB_SECONDS,
        result_ttl=60,
        failure_ttl=3600,
        description=f"judge for order {order_id}",
    )


# --- one slice --------------------------------------------------------------------------------------------------


def judge_slice(order_id: str) -> None:
    """The job: asks for SLICE_SECONDS, and gives what is left back to the end of the queue."""
    order = _claim(order_id)
    if order is None:
        return
    try:
        outcome = _work(order)
    except SetupError as error:
        _release(order, JudgingOrder.Status.STOPPED, str(error))
        return
    except Exception as error:
        JudgingOrder.objects.filter(pk=order.pk, lease_epoch=order.lease_epoch).update(
            worker="", lease_until=None, reason=words_of(error)[:2_000]
        )
        raise
    if outcome.goes_on:
        _release(order, JudgingOrder.Status.WAITING, judging=outcome.judging)
        enqueue_due()
    else:
        status = JudgingOrder.Status.STOPPED if outcome.stopped else JudgingOrder.Status.DONE
        _release(order, status, outcome.stopped, outcome.judging)


def _claim(order_id: str) -> JudgingOrder | None:
    """None where another has it, or nothing is to be done."""
    now = timezone.now()
    free = JudgingOrder.objects.filter(pk__in=JudgingOrder.objects.due(now).filter(public_id=order_id).values("pk"))
    if free.filter(failures__gte=MAX_FAILURES).update(status=JudgingOrder.Status.STOPPED, worker="", lease_until=None):
        JudgingOrder.objects.filter(public_id=order_id, reason="").update(
            reason=f"{MAX_FAILURES} processes in a row vanished while they worked on it"
        )
        return None
    taken = free.update(
        worker=str(this_process()),
        lease_until=now + LEASE,
        lease_epoch=F("lease_epoch") + 1,
        failures=F("failures") + 1,
    )
    return JudgingOrder.objects.select_related("run__experiment").get(public_id=order_id) if taken else None


def _work(order: JudgingOrder) -> PassOutcome:
    pack, model = find_prompts(order.prompts), make_model(order.model)
    budget = _budget_of(order, model, version_of(pack))
    return judge_run(
        order.run,
        model,
        read_metrics(order.metrics),
        budget=budget,
        pack=pack,
        skip=order.tasks_done,
        after_task=lambda done, total: _hold(order, tasks_done=done, tasks_total=total),
    )


def _hold(order: JudgingOrder, **told: object) -> None:
    """Renews the lease. SliceOver where another holds the order by now: it was asked for again, or the lease ran out."""
    mine = JudgingOrder.objects.filter(pk=order.pk, lease_epoch=order.lease_epoch)
    if not mine.update(lease_until=timezone.now() + LEASE, **told):
        raise SliceOver


def _release(
    order: JudgingOrder, status: JudgingOrder.Status, reason: str = "", judging: Judging | None = None
) -> None:
    mine = JudgingOrder.objects.filter(pk=order.pk, lease_epoch=order.lease_epoch)
    mine.update(status=status, reason=reason, judging=judging, worker="", lease_until=None, failures=0)


@dataclass(slots=True)
class SliceBudget(Budget):
    """Of one slice: the order's limits, and the time. One call at least is made, so that every slice comes further."""

    renew: Callable[[], None] = lambda: None
    made_before: int = 0
    until: float = field(default_factory=lambda: time.monotonic() + SLICE_SECONDS)

    def check(self) -> None:
        Budget.check(self)
        if self.used_calls > self.made_before and time.monotonic() > self.until:
            raise SliceOver
        self.renew()


def _budget_of(order: JudgingOrder, model: Model, prompt_version: str) -> SliceBudget:
    """With what earlier slices used since it was asked for, as the record has it."""
    tries = JudgingTry.objects.filter(
        unit__judging__run=order.run,
        unit__judging__model=model.name[:200],
        unit__judging__prompt_version=prompt_version,
        unit__judging__repeat=1,
        asked_at__gte=order.asked_at,
    )
    used = tries.aggregate(
        calls=Count("pk"),
        usd=Sum("cost_usd"),
        dearest=Max("cost_usd"),
        unpriced=Count("pk", filter=Q(cost_usd=None, reply__isnull=False)),
    )
    return SliceBudget(
        calls=order.max_calls,
        usd=order.max_usd,
        used_calls=used["calls"],
        used_usd=used["usd"] or 0.0,
        dearest_usd=used["dearest"] or 0.0,
        unpriced=used["unpriced"],
        renew=lambda: _hold(order),
        made_before=used["calls"],
    )
