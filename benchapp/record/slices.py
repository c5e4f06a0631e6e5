"""Background work in slices, so that trials take turns with it.

The record says what is left to do, the queue only hints at it. A worker that was killed leaves a row whose lease ends,
and `enqueue_due` hints at it again. The epoch of the lease fences off the previous holder. Work that asks a model has
a budget.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Generic

import django_rq
from django.conf import settings
from django.db import transaction
from django.db.models import Count, Max, Model, Q, QuerySet, Sum
from django.db.models.functions import Now
from redis.exceptions import RedisError
from rq.job import Job
from rq.queue import Queue

from benchapp.models.base import Sliced, SlicedModel, SlicedQuerySet
from benchapp.record.error_text import text_of_error
from runner.base.errors import SetupError
from runner.sandboxes.processes import ProcessName, this_process

log = logging.getLogger(__name__)


class Stopped(Exception):
    """The work ends here, for the reason in the message. Answers are kept."""


class SliceOver(Stopped):
    """It is somebody else's turn: the work continues later, from here."""


@dataclass(slots=True)
class Budget:
    """Limits and use. None: no limit. A call is counted when it is made, its cost when it is known.

    A reply without usage, such as one that a filter withheld, counts as much as the dearest one so far.
    """

    calls: int | None = None
    usd: float | None = None
    used_calls: int = 0
    used_usd: float = 0.0
    dearest_usd: float = 0.0
    unpriced: int = 0

    def check(self) -> None:
        """Raise Stopped where the next call would exceed it. A dollar limit cannot hold where prices are unknown."""
        if self.calls is not None and self.used_calls >= self.calls:
            raise Stopped(f"the limit of {self.calls} calls is used up")
        spent = self.used_usd + self.unpriced * self.dearest_usd
        if self.usd is not None and spent >= self.usd:
            raise Stopped(f"the limit of ${self.usd:.2f} is used up (${spent:.4f})")
        if self.usd is not None and self.unpriced and not self.dearest_usd:
            raise Stopped(
                "the cost of this model is unknown, so a limit in dollars cannot hold: limit the calls instead"
            )

    def note(self, cost_usd: float | None) -> None:
        if cost_usd is None:
            self.unpriced += 1
        else:
            self.used_usd += cost_usd
            self.dearest_usd = max(self.dearest_usd, cost_usd)


SLICE_SECONDS = 20.0  # trials wait for a worker at most this long, and one call
LEASE = timedelta(minutes=75)  # longer than any single call with its tries: runner.models.litellm.client.CALL_SECONDS
MAX_FAILURES = 5  # processes in a row that vanish at one row
MAX_REASON = 2_000  # characters


def enqueue(
    job: str, hint: str, *arguments: object, description: str, at_front: bool = False, queue: Queue | None = None
) -> Job:
    """Queue a job by its dotted name. Its id says what it hints at: kind of hint, single arguments of the job, a random
    part. `queue`: default: the one of every worker."""
    named = (each for each in arguments if isinstance(each, str))
    return (django_rq.get_queue() if queue is None else queue).enqueue(
        job,
        *arguments,
        job_id="_".join((hint, *named, uuid.uuid4().hex[:12])),
        job_timeout=settings.JOB_SECONDS,
        result_ttl=60,
        failure_ttl=3600,
        at_front=at_front,
        description=description,
    )


def list_hinted(hint: str, *, waiting_only: bool = False, queue: Queue | None = None) -> set[str]:
    """Return the first argument of every job of that kind that waits or runs; the random part if it has none."""
    queue = django_rq.get_queue() if queue is None else queue
    running = [] if waiting_only else queue.started_job_registry.get_job_ids(cleanup=False)
    return {job.split("_")[1] for job in (*queue.get_job_ids(), *running) if job.startswith(f"{hint}_")}


@dataclass(frozen=True, slots=True)
class SliceEnd:
    """How a slice ended. WAITING: its time is over but work is left. `fields`: more columns of the row."""

    status: SlicedModel.Status
    reason: str = ""
    fields: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SlicedWork(Generic[Sliced]):
    """One kind of sliced work. `job`: dotted name of the function that the queue calls with a row's public id."""

    rows: Callable[[], SlicedQuerySet[Sliced]]
    hint: str
    job: str

    def enqueue_due(self) -> int:
        """Hint at every row that could be worked on now and has no hint. Safe at any time. Return how many."""
        for row in self.rows().open().exclude(worker=""):
            if (name := ProcessName.parse(row.worker)) and name.is_gone:
                self.mine(row).update(worker="", lease_until=None)
                log.warning("%s %s: its holder %s is gone", self.hint, row.public_id, row.worker)
        due = [str(each) for each in self.rows().due().values_list("public_id", flat=True)]
        if not due:
            return 0
        try:
            hinted = list_hinted(self.hint)
            for row_id in due:
                if row_id not in hinted:
                    self.enqueue(row_id)
        except (RedisError, OSError) as error:
            log.info("%s not queued: cannot reach the broker: %s", self.hint, error)
            return 0
        return len(due)

    def enqueue(self, row_id: str) -> None:
        enqueue(self.job, self.hint, row_id, description=f"{self.hint} {row_id}")

    def run(self, row_id: str, work: Callable[[Sliced], SliceEnd]) -> None:
        """Run one slice under the row's lease, unless it is held. SetupError stops the row; any other error is kept as
        its reason, and it is tried again."""
        row = self.claim(row_id)
        if row is None:
            return
        try:
            end = work(row)
        except SetupError as error:
            end = SliceEnd(SlicedModel.Status.STOPPED, str(error))
        except Exception as error:
            self.mine(row).update(worker="", lease_until=None, reason=text_of_error(error)[:MAX_REASON])
            raise
        self.release(row, end)
        if end.status == SlicedModel.Status.WAITING:
            self.enqueue_due()

    def claim(self, row_id: str) -> Sliced | None:
        """Claim the row. None where another worker has it, or nothing is to be done."""
        row = self.rows().due().filter(public_id=row_id).first()
        if row is None:
            return None
        if row.failures >= MAX_FAILURES:
            reason = row.reason or f"{MAX_FAILURES} processes in a row vanished while they worked on it"
            self.mine(row).update(status="stopped", worker="", lease_until=None, reason=reason)
            return None
        taken = {"worker": str(this_process()), "failures": row.failures + 1}
        epoch = row.lease_epoch + 1
        # By the epoch that was read: of two that read the same row one writes, on every database.
        if not self.mine(row).open().update(**taken, lease_until=Now() + LEASE, lease_epoch=epoch):
            return None
        row.lease_epoch = epoch
        for name, value in taken.items():
            setattr(row, name, value)
        return row

    def mine(self, row: Sliced) -> SlicedQuerySet[Sliced]:
        """Return the row while it is held as `row` says, nothing after another took it."""
        return self.rows().filter(pk=row.pk, lease_epoch=row.lease_epoch)

    def hold(self, row: Sliced, **fields: object) -> None:
        """Renew the lease. SliceOver where another has taken the row, or a person stopped it."""
        if not self.mine(row).open().update(lease_until=Now() + LEASE, **fields):
            raise SliceOver

    def release(self, row: Sliced, end: SliceEnd) -> None:
        """Give the row back. If a person stopped it in the meantime, it stays stopped."""
        with transaction.atomic():
            self.mine(row).open().update(status=end.status, reason=end.reason, **end.fields)
            self.mine(row).update(worker="", lease_until=None, failures=0)


@dataclass(slots=True)
class SliceBudget(Budget):
    """The limits of a row and the time of one slice. At least one call is allowed, so every slice progresses."""

    renew: Callable[[], None] = lambda: None
    made_before: int = 0
    until: float = field(default_factory=lambda: time.monotonic() + SLICE_SECONDS)

    @classmethod
    def of(
        cls, tries: QuerySet[Model], *, calls: int | None, usd: float | None, renew: Callable[[], None]
    ) -> SliceBudget:
        """Return the budget after these tries, rows with a `cost_usd` and a `reply`: what the record says was used."""
        used = tries.aggregate(
            calls=Count("pk"),
            usd=Sum("cost_usd"),
            dearest=Max("cost_usd"),
            unpriced=Count("pk", filter=Q(cost_usd=None, reply__isnull=False)),
        )
        spent, dearest = used["usd"] or 0.0, used["dearest"] or 0.0
        return cls(calls, usd, used["calls"], spent, dearest, used["unpriced"], renew, made_before=used["calls"])

    def check(self) -> None:
        Budget.check(self)
        if self.used_calls > self.made_before and time.monotonic() > self.until:
            raise SliceOver
        self.renew()
