"""Jobs are hints. `advance(episode)` says "there may be work here"; the record decides whether there is.

A hint may be lost, doubled, late or run by a worker that dies halfway: the lease lets one process work on an episode
at a time, the epoch fences off the others, and `reconcile` gives every free open episode a hint again.
"""

from __future__ import annotations

import logging
import traceback
import uuid
from datetime import timedelta
from typing import Any

import django_rq
from django.conf import settings
from django.utils import timezone
from redis.exceptions import RedisError

from benchapp import live
from benchapp.leases import Lease
from benchapp.models import Attempt, Episode, ModelCall, Trial
from benchapp.own_secrets import own_secrets
from benchapp.plans import plan_of, suite_of
from benchapp.processes import ProcessName, this_process
from benchapp.recording import RowRecorder
from benchapp.redaction import Redactor
from runner import engine
from runner.cleaning import Cleaner
from runner.errors import InfrastructureError, LeaseLost
from runner.sandboxes import sandbox_kind
from runner.toolbox import toolbox_for
from runner.trajectories.text import storable
from runner.types import Step

log = logging.getLogger(__name__)

HINT = "advance"
MAX_REASON = 20_000  # characters of a traceback kept as the reason of a block


def advance(episode_id: str) -> None:
    """One trial of the episode with its authoring. Returns at once when somebody else is at it, or nothing is left."""
    own = Episode.objects.own().select_related("run__experiment__suite", "environment")
    episode = own.filter(public_id=episode_id).first()
    lease = Lease.take(episode.pk) if episode else None
    if episode is None or lease is None:
        log.info("episode %s: not free, or ended", episode_id)
        return
    with lease:
        more = _work(episode, lease)
    episode.run.follow()
    if more:
        hint(episode_id)


def _work(episode: Episode, lease: Lease) -> bool:
    """Advances under the lease and gives it back. True when the episode wants another hint now."""
    held = {"pk": episode.pk, "epoch": lease.epoch}
    try:
        episode.run.follow()
        end_interrupted(episode, lease.epoch)
        more = _advance(episode, lease)
    except LeaseLost as error:
        log.warning("episode %s: %s", episode.public_id, error)
        return False
    except InfrastructureError as error:
        _postpone(episode, lease, error)
        return False
    except Exception as error:  # the worker's loop: record it, go on with other episodes
        log.exception("episode %s: blocked", episode.public_id)
        Episode.objects.block(**held, reason=_reason(error))
        return False
    if more:
        return Episode.objects.release(**held)
    Episode.objects.finish(**held)
    log.info("episode %s: done", episode.public_id)
    return False


def _advance(episode: Episode, lease: Lease) -> bool:
    suite = suite_of(episode)
    plan = plan_of(episode, suite)
    redactor = Redactor(own_secrets())

    def watch(attempt: str, step: Step) -> None:
        if lease.lost.is_set():
            raise LeaseLost(f"episode {episode.public_id} was taken over")
        live.publish(attempt, step)

    recorder = RowRecorder(episode, lease.epoch, worker=str(this_process()), watch=watch, redact=redactor.text)
    return engine.advance(plan, recorder, toolbox_for(plan, suite, Cleaner(redactor.text, redactor.step)))


def _postpone(episode: Episode, lease: Lease, error: InfrastructureError) -> None:
    """Backs off, or blocks once the retries are spent. The pause is a lease that nobody holds."""
    failures = Episode.objects.values_list("failures", flat=True).get(pk=episode.pk) + 1
    if failures > settings.INFRASTRUCTURE_RETRIES:
        reason = f"The machine failed {failures} times in a row. {_reason(error)}"
        Episode.objects.block(episode.pk, epoch=lease.epoch, reason=reason)
        log.error("episode %s: blocked after %d failures: %s", episode.public_id, failures, error)
        return
    delay = engine.retry_delay(failures, error)
    until = timezone.now() + timedelta(seconds=delay)
    Episode.objects.postpone(episode.pk, epoch=lease.epoch, until=until)
    log.warning("episode %s: failure %d, again in %.0f s: %s", episode.public_id, failures, delay, error)


def _reason(error: Exception) -> str:
    """What stopped an episode, fit to be stored and shown: a provider's message may quote the key it refused."""
    trace = "".join(traceback.format_exception(error))
    return Redactor(own_secrets()).text(storable(f"{type(error).__name__}: {error}\n\n{trace}"))[:MAX_REASON]


def end_interrupted(episode: Episode, epoch: int) -> int:
    """Ends what earlier holders left: their attempts' processes first, then the attempts and calls themselves."""
    left = Attempt.objects.filter(
        trial__episode=episode, status=Attempt.Status.RUNNING, lease_epoch__lt=epoch
    ).select_related("trial")
    for attempt in left:
        end_attempt_processes(attempt)
        log.warning("episode %s: attempt %s was interrupted", episode.public_id, attempt.public_id)
        Attempt.objects.filter(pk=attempt.pk, status=Attempt.Status.RUNNING).update(
            status=Attempt.Status.INTERRUPTED, finished_at=timezone.now()
        )
        Trial.objects.filter(pk=attempt.trial_id, is_done=False).update(status=Trial.Status.WAITING)
    episode.calls.filter(status=ModelCall.Status.STARTED).update(
        status=ModelCall.Status.FAILED, error="interrupted: its worker vanished", finished_at=timezone.now()
    )
    return len(left)


def end_attempt_processes(attempt: Attempt) -> None:
    kind = str(attempt.sandbox.get("kind", ""))
    if kind:
        sandbox_kind(kind).end_processes(attempt.sandbox)


def holders() -> list[int]:
    """Processes of this machine that work on an episode now."""
    owners = Episode.objects.own().exclude(lease_owner="").values_list("lease_owner", flat=True)
    return [name.pid for name in map(ProcessName.parse, owners) if name is not None and name.is_alive]


def end_left_sandboxes() -> None:
    """Ends what attempts of vanished holders still run here, when no worker will come soon to do it."""
    running = Attempt.objects.filter(status=Attempt.Status.RUNNING).exclude(worker="")
    for attempt in running:
        if (name := ProcessName.parse(attempt.worker)) and name.is_gone:
            end_attempt_processes(attempt)


# --- hints ------------------------------------------------------------------------------------------------------


def hint(episode_id: str) -> bool:
    """Puts a hint into the queue. False when the broker is away; the reconciler makes up for it."""
    try:
        django_rq.get_queue().enqueue(
            advance,
            episode_id,
            job_id=f"{HINT}_{episode_id}_{uuid.uuid4().hex[:12]}",
            job_timeout=settings.JOB_SECONDS,
            result_ttl=60,
            failure_ttl=3600,
            description=f"advance episode {episode_id}",
        )
    except (RedisError, OSError) as error:
        log.warning("episode %s: no hint, the broker is away: %s", episode_id, error)
        return False
    return True


def reconcile() -> int:
    """Gives every free open episode that has no hint in the queue one, and returns how many. Safe at any time.

    A lease whose holder is a process of this machine that ended is freed at once instead of when it runs out.
    """
    now = timezone.now()
    for episode in Episode.objects.own().held_by_the_dead():
        freed = Episode.objects.filter(pk=episode.pk, lease_epoch=episode.lease_epoch)
        freed.update(lease_owner="", lease_until=None)
        log.warning("episode %s: its holder %s is gone", episode.public_id, episode.lease_owner)
    free = {str(found) for found in Episode.objects.own().free(now).values_list("public_id", flat=True)}
    if not free:
        return 0
    return sum(hint(episode_id) for episode_id in sorted(free - _hinted()))


def _hinted() -> set[str]:
    """Episodes with a hint waiting in the queue."""
    try:
        waiting: list[Any] = django_rq.get_queue().get_job_ids()
    except (RedisError, OSError):
        return set()
    return {job.split("_")[1] for job in waiting if job.startswith(f"{HINT}_")}
