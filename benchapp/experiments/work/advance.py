"""Jobs are hints. `advance(episode)` says "there may be work here"; the record decides whether there is.

A hint may be lost, doubled, late or run by a worker that dies halfway. The lease lets one process at a time work on an
episode, the epoch fences off the others, and `reconcile` gives every free open episode a new hint.
"""

from __future__ import annotations

import logging
import random
import threading
import time
import traceback
from contextlib import suppress
from dataclasses import replace
from types import TracebackType

from django.conf import settings
from django.db import DatabaseError, InterfaceError, OperationalError, connection, transaction
from django.db.models import F
from django.utils import timezone
from redis.exceptions import RedisError
from rq import get_current_job
from rq.utils import as_text

from benchapp.analysis.diagnoses.diagnosis_queue import enqueue_reading, select_unread
from benchapp.experiments.plans import plan_of, suite_of
from benchapp.experiments.preparation import EPISODE_ORDER
from benchapp.experiments.work import budgets
from benchapp.experiments.work.worker_labels import Labels, list_needs, needs_of, queue_for
from benchapp.models import Attempt, Episode, Experiment, Run, Trial
from benchapp.models.episodes import EpisodeQuerySet
from benchapp.record import live, log_context, slices
from benchapp.record.error_text import describe_failure, is_spent, log_of, render_error, text_of_error, with_end_of_log
from benchapp.record.pooling import give_back
from benchapp.record.redaction import Redactor, own_secrets
from benchapp.record.sets.suite_files import find_folder
from benchapp.record.writing.recording import RowRecorder
from runner.base.errors import (
    AccountRefused,
    BudgetSpent,
    InfrastructureError,
    KeyRefused,
    LeaseLost,
    SandboxError,
    SetupError,
    TrialsLeft,
)
from runner.base.text import cut, storable
from runner.base.types import Step
from runner.engine import engine
from runner.engine.toolbox import Cleaner, Toolbox, toolbox_for
from runner.protocols.plan import EpisodePlan
from runner.sandboxes import local, sandbox_kind
from runner.sandboxes.processes import ProcessName, this_machine, this_process

log = logging.getLogger(__name__)


class Lease:
    """An episode's lease, renewed by a thread of its own as long as the `with` block runs.

    `lost` is set after a renewal found that somebody else holds the episode. The fence does not depend on it: every
    recording transaction checks the epoch itself. It only lets long work stop early.
    """

    def __init__(self, episode: int, epoch: int, seconds: float) -> None:
        self.episode, self.epoch, self.seconds = episode, epoch, seconds
        self.lost = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._renew, name=f"lease-{episode}", daemon=True)

    @classmethod
    def take(cls, episode: int, *, seconds: float | None = None) -> Lease | None:
        """Take the lease of a free, open episode; None when it is not available."""
        seconds = settings.LEASE_SECONDS if seconds is None else seconds
        epoch = Episode.objects.take(episode, owner=str(this_process())[:200], seconds=seconds)
        return None if epoch is None else cls(episode, epoch, seconds)

    def __enter__(self) -> Lease:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _renew(self) -> None:
        """Renew three times per lease, so that two may fail. The thread has its own connection and closes it."""
        try:
            while not self._stop.wait(self.seconds / 3):
                if not self._try_renewal():
                    self.lost.set()
                    return
        finally:
            connection.close()

    def _try_renewal(self) -> bool:
        try:
            return Episode.objects.renew(self.episode, epoch=self.epoch, seconds=self.seconds)
        except DatabaseError:
            log.warning("episode %s: lease not renewed, trying again", self.episode, exc_info=True)
            return True
        finally:
            give_back()


HINT = "advance"
ENOUGH_HINTS = 1_000  # in the queue: they keep every worker busy until the next look
HINT_SECONDS = 7 * 86_400  # how long the hints given to an episode are remembered
MAX_REASON = 20_000  # characters of an error and its traceback kept as the reason of a block
MAX_MESSAGE = 8_000  # of these, of the error and the end of its log
SUITE_PAUSE_SECONDS = 10.0  # before the next machine may check whether it has the suite
LONGER = 1.25  # at most: episodes that hit one limit at the same moment should not all return together
DATABASE_PAUSES = (0.5, 1, 2, 4, 8, 16)  # seconds


def advance(episode_id: str) -> None:
    """Run one trial of the episode with its authoring. Return at once if another process has it, or nothing is left."""
    own = Episode.objects.own().select_related("run__experiment__suite", "environment")
    episode = own.filter(public_id=episode_id).first()
    needs = needs_of(episode.run.experiment) if episode else frozenset()
    job = get_current_job()
    if episode and job and job.origin != queue_for(needs).name:
        hint(episode)  # left by a version that queued without regard to labels
        return
    lease = Lease.take(episode.pk) if episode else None
    if episode is None or lease is None:
        log.info("episode %s: not free, or ended", episode_id)
        return
    about = log_context.about(experiment=episode.run.experiment.public_id, run=episode.run.public_id)
    with about, live.keep_tail(episode_id):
        with lease:
            more = _work(episode, lease)
        if Episode.objects.filter(pk=episode.pk).grant():
            log.info("episode %s: paused or cancelled, as wished", episode_id)
            more = False
    episode.run.follow()
    enqueue_reading(select_unread(Episode.objects.filter(pk=episode.pk)))
    if more:
        _drop_hints(episode_id, needs)
        hint(episode, first=episode.run.experiment.spec.get("order") == "one-by-one")


def _work(episode: Episode, lease: Lease) -> bool:
    """Advance under the lease and release it. Return True if the episode needs another hint now."""
    held = {"pk": episode.pk, "epoch": lease.epoch}
    try:
        episode.run.follow()
        if _should_stop(episode, lease):
            return False
        more = engine.advance(*_build_means(episode, lease))
    except LeaseLost as error:
        log.warning("episode %s: %s", episode.public_id, error)
        return False
    except InfrastructureError as error:
        _postpone(episode, lease, error)
        return False
    except (OperationalError, InterfaceError) as error:
        _retry_later(episode, lease, error)
        return False
    except (BudgetSpent, KeyRefused, AccountRefused) as error:
        _stop_run(episode, lease, error)
        return False
    except TrialsLeft as error:
        log.error("episode %s: blocked: %s", episode.public_id, error)
        Episode.objects.block(**held, reason=cut(str(error), MAX_REASON))
        return False
    except Exception as error:  # the worker's loop: record it, continue with other episodes
        if is_spent(error):  # a full disk blocks no episode: another worker has its own
            _postpone(episode, lease, InfrastructureError(describe_failure(error)))
            return False
        log.exception("episode %s: blocked: %s", episode.public_id, _render_error(error))
        Episode.objects.block(**held, reason=_render_reason(error))
        return False
    if more:
        return Episode.objects.release(**held)
    with transaction.atomic():  # trials that were planned but not needed go with it
        if Episode.objects.finish(**held) and episode.trials.untried().delete()[0]:
            Run.objects.filter(pk=episode.run_id).touch()
    log.info("episode %s: done", episode.public_id)
    return False


def _stop_run(episode: Episode, lease: Lease, error: BudgetSpent | KeyRefused | AccountRefused) -> None:
    """Stop the run: its episodes share the budget, the key and the models. Episodes under way stop themselves at their
    next call; the others do not begin an attempt that must fail."""
    reason = Redactor(own_secrets()).text(storable(str(error)))[:MAX_REASON]
    message = reason if isinstance(error, BudgetSpent) else render_error(type(error).__name__, reason)
    Episode.objects.block(episode.pk, epoch=lease.epoch, reason=message)
    others = budgets.block_all(episode.run, message)
    log.error("run %s: blocked, with %d more episodes: %s", episode.run.public_id, others, message)
    if isinstance(error, BudgetSpent) and budgets.was_raised(
        episode.run
    ):  # after the call was refused, before we blocked
        for going_on in budgets.let_go_on(episode.run):
            hint(going_on)


def _should_stop(episode: Episode, lease: Lease) -> bool:
    """Clean up after earlier holders, and release the lease if there is nothing to do now."""
    held = {"pk": episode.pk, "epoch": lease.epoch}
    if end_interrupted(episode, lease.epoch) and _stop_looping(episode, lease):
        return True
    if (
        Episode.objects.filter(pk=episode.pk).exclude(wish="").exists()
    ):  # a wish to a vanished worker; granted once we let go
        Episode.objects.postpone(**held, reason=episode.last_failure, counts=False)
        return True
    if missing := _explain_missing_suite(episode):
        Episode.objects.postpone(**held, seconds=SUITE_PAUSE_SECONDS, reason=missing, counts=False)
        log.warning("episode %s: left to other machines: %s", episode.public_id, missing)
        return True
    return False


def _stop_looping(episode: Episode, lease: Lease) -> bool:
    """Count a holder that vanished at its work. Block the episode if too many in a row did so at one place."""
    reason = "Its worker vanished: the process was killed, ran out of memory, or its machine stopped."
    failures = Episode.objects.count_vanished(episode.pk, epoch=lease.epoch, reason=reason)
    if failures is None or failures <= settings.INFRASTRUCTURE_RETRIES:
        return failures is None
    last = Episode.objects.values_list("last_failure", flat=True).get(pk=episode.pk)
    message = f"The machine failed {failures} times in a row, the last time because its worker vanished. {last}"
    Episode.objects.block(episode.pk, epoch=lease.epoch, reason=message[:MAX_REASON])
    log.error("episode %s: blocked after %d failures: its workers vanish", episode.public_id, failures)
    return True


def _explain_missing_suite(episode: Episode) -> str:
    """Explain why this machine cannot work on the episode though another may: it has neither the suite's folder nor its
    files from the record."""
    suite = episode.run.experiment.suite
    if suite is None or not suite.path:
        return ""
    try:
        find_folder(suite)
    except SetupError as error:
        return f"{this_machine()}: {error}. Other workers may run it."
    return ""


def _retry_later(episode: Episode, lease: Lease, error: Exception) -> None:
    """Handle an unreachable database: release the lease when it answers again; else it expires, to the same effect."""
    log.warning("episode %s: cannot reach the database: %s", episode.public_id, error)
    for pause in DATABASE_PAUSES:
        time.sleep(pause)
        connection.close_if_unusable_or_obsolete()
        try:
            Episode.objects.postpone(episode.pk, epoch=lease.epoch, reason=_render_reason(error), counts=False)
            return
        except (OperationalError, InterfaceError):
            continue


def _build_means(episode: Episode, lease: Lease) -> tuple[EpisodePlan, RowRecorder, Toolbox]:
    suite = suite_of(episode)
    plan = plan_of(episode, suite)
    redactor = Redactor(own_secrets())

    def watch(attempt: str, step: Step) -> None:
        if lease.lost.is_set():
            raise LeaseLost(f"episode {episode.public_id} was taken over")
        live.publish(attempt, step)

    def sleep(seconds: float) -> None:
        """Wait before asking a model again that does not answer. A cancel, or another holder, ends the wait."""
        if lease.lost.wait(seconds):
            raise LeaseLost(f"episode {episode.public_id} was cancelled or taken over while it waited for its model")

    recorder = RowRecorder(episode, lease.epoch, worker=str(this_process()), watch=watch, redact=redactor.text)
    toolbox = toolbox_for(plan, suite, Cleaner(redactor.text, redactor.step), sleep)
    budgeted = replace(toolbox, budget=budgets.guard(episode), has_budget=budgets.is_set(episode.run))
    return plan, recorder, budgeted


def _postpone(episode: Episode, lease: Lease, error: InfrastructureError) -> None:
    """Back off, or block when the retries are spent. The pause is a lease without a holder.

    If the trials are independent, the one that spent the retries is set aside first. The failure count continues: if
    the next trial fails too before anything succeeds, the machine is at fault.
    """
    failures = Episode.objects.values_list("failures", flat=True).get(pk=episode.pk) + 1
    first_spent = failures == settings.INFRASTRUCTURE_RETRIES + 1
    if failures > settings.INFRASTRUCTURE_RETRIES and not (first_spent and _pass_over(episode, lease, error)):
        reason = f"The machine failed {failures} times in a row. {_render_reason(error)}"
        Episode.objects.block(episode.pk, epoch=lease.epoch, reason=reason)
        log.error("episode %s: blocked after %d failures: %s", episode.public_id, failures, _render_error(error))
        return
    delay = engine.retry_delay(failures, error) * random.uniform(1.0, LONGER)
    Episode.objects.postpone(episode.pk, epoch=lease.epoch, seconds=delay, reason=_render_reason(error))
    log.warning("episode %s: failure %d, again in %.0f s: %s", episode.public_id, failures, delay, _render_error(error))


def _pass_over(episode: Episode, lease: Lease, error: InfrastructureError) -> bool:
    plan, recorder, _ = _build_means(episode, lease)
    try:
        return engine.pass_over(plan, recorder, error)
    except LeaseLost:  # the new holder meets the same error, and decides
        return False


def _render_reason(error: Exception) -> str:
    """Render what stopped an episode, safe to store and show: a provider's message may quote the key it refused."""
    trace = "".join(traceback.format_exception(error))
    return f"{_render_error(error)}\n\n{cut(Redactor(own_secrets()).text(storable(trace)), MAX_REASON - MAX_MESSAGE)}"


def _render_error(error: Exception) -> str:
    """Render the error without its traceback, for the log."""
    clean = Redactor(own_secrets()).text
    return with_end_of_log(clean(storable(text_of_error(error))), clean(storable(log_of(error))), MAX_MESSAGE)


def end_interrupted(episode: Episode, epoch: int) -> int:
    """End what earlier holders left: first their attempts' processes, then the attempts and calls. Return how many
    attempts and calls."""
    left = Attempt.objects.filter(trial__episode=episode, status=Attempt.Status.RUNNING, lease_epoch__lt=epoch)
    ended = sum(end_attempt(attempt) for attempt in left.select_related("trial"))
    return ended + end_calls(episode)


def end_attempt(attempt: Attempt) -> int:
    """Mark a running attempt as interrupted, after ending what it left running on this machine. Return 1, or 0."""
    end_attempt_processes(attempt)
    log.warning("trial %s: attempt %s was interrupted", attempt.trial.public_id, attempt.public_id)
    ended = Attempt.objects.filter(pk=attempt.pk, status=Attempt.Status.RUNNING).update(
        status=Attempt.Status.INTERRUPTED, finished_at=timezone.now()
    )
    waiting = Trial.objects.filter(pk=attempt.trial_id, is_done=False).exclude(status=Trial.Status.SKIPPED)
    waiting.update(status=Trial.Status.WAITING)
    return ended


def end_calls(episode: Episode) -> int:
    return episode.calls.end_started("interrupted: its worker vanished")


def end_stopped() -> int:
    """End what still runs for episodes that stopped under a live worker (cancelled) or after it vanished (blocked,
    paused). They have no holder that would end it."""
    left = Attempt.objects.filter(
        status=Attempt.Status.RUNNING,
        trial__episode__status__in=[Episode.Status.CANCELLED, Episode.Status.BLOCKED, Episode.Status.PAUSED],
        trial__episode__lease_owner="",
        trial__episode__lease_epoch__gte=F("lease_epoch"),
        trial__episode__run__experiment__origin=Experiment.Origin.RUN,
    )
    return sum(end_attempt(attempt) for attempt in left.select_related("trial"))


def end_attempt_processes(attempt: Attempt) -> None:
    kind = str(attempt.sandbox.get("kind", ""))
    if kind:
        sandbox_kind(kind).end_processes(attempt.sandbox)


def note_killed(episode_id: str, how: str) -> None:
    """Record how a work-horse was killed, unless another process has taken over already."""
    now = timezone.now()
    log.warning("episode %s: its work-horse ended: %s", episode_id, how)
    for episode in Episode.objects.own().open().filter(public_id=episode_id):
        if episode.lease_owner and (name := ProcessName.parse(episode.lease_owner)) and name.is_gone:
            message = f"At {now:%Y-%m-%d %H:%M:%S} UTC the process that worked on it ended: {how}."
            Episode.objects.filter(pk=episode.pk, lease_epoch=episode.lease_epoch).update(last_failure=message)


def holders() -> list[int]:
    """Return the processes of this machine that work on an episode now."""
    owners = Episode.objects.own().exclude(lease_owner="").values_list("lease_owner", flat=True)
    return [name.pid for name in map(ProcessName.parse, owners) if name is not None and name.is_alive]


def end_left_sandboxes() -> None:
    """End what attempts of vanished processes of this machine still run here. The next holder of their episodes may be
    on another machine and cannot reach them, or there is none."""
    running = Attempt.objects.filter(status=Attempt.Status.RUNNING).exclude(worker="")
    for attempt in running:
        if (name := ProcessName.parse(attempt.worker)) and name.is_gone:
            try:
                end_attempt_processes(attempt)
            except SandboxError as error:
                log.warning("attempt %s: its sandbox was not ended: %s", attempt.public_id, error)
    try:
        local.end_ownerless()  # those without an attempt: of generators
    except SandboxError as error:
        log.warning("a local sandbox was not ended: %s", error)


# --- hints ------------------------------------------------------------------------------------------------------


def _given(episode_id: str) -> str:
    """Return the broker's key of the hints that the episode was given since its last trial."""
    return f"skillglass:hints:{episode_id}"


def hint(episode: Episode, *, first: bool = False) -> bool:
    """Put a hint at the end of the queue for the labels that the episode needs, or at its front: then the next free
    worker that has them continues it. Prefetch `run__experiment` of many. Return False if the broker cannot be
    reached: the reconciler retries."""
    return put_hint(str(episode.public_id), needs_of(episode.run.experiment), first=first)


def put_hint(episode_id: str, needs: Labels, *, first: bool = False) -> bool:
    description = f"advance episode {episode_id}"
    try:
        job = slices.enqueue(
            f"{__name__}.advance", HINT, episode_id, at_front=first, description=description, queue=queue_for(needs)
        )
        pipeline = job.connection.pipeline()
        pipeline.sadd(_given(episode_id), job.id)
        pipeline.expire(_given(episode_id), HINT_SECONDS)
        pipeline.execute()
    except (RedisError, OSError) as error:
        log.warning("episode %s: not queued: cannot reach the broker: %s", episode_id, error)
        return False
    return True


def reconcile(labels: Labels = frozenset()) -> int:
    """Give hints to free open episodes that have none in their queue, and return how many. Safe at any time.
    `labels`: of the worker: what needs others is left to the workers that have them.

    A queue that is long enough for all workers is left alone, so this costs the same however many episodes wait.
    If a lease's holder was a process of this machine that ended, the lease is freed now, before it expires. What a
    killed worker could not record or end is recorded and ended here, because nothing else would.
    """
    for episode in Episode.objects.own().held_by_the_dead():
        freed = Episode.objects.filter(pk=episode.pk, lease_epoch=episode.lease_epoch)
        freed.update(lease_owner="", lease_until=None)
        log.warning("episode %s: its holder %s is gone", episode.public_id, episode.lease_owner)
    end_stopped()
    for run in Run.objects.ended_unsaid():
        run.follow()
    needing, free = list_needs(), Episode.objects.own().free()
    hinted = _fill_queue(free.exclude(run__experiment__in=needing), frozenset())
    for needs in set(needing.values()):
        if needs <= labels:
            alike = [pk for pk, each in needing.items() if each == needs]
            hinted += _fill_queue(free.filter(run__experiment__in=alike), needs)
    return hinted


def _fill_queue(free: EpisodeQuerySet, needs: Labels) -> int:
    queue = queue_for(needs)
    with suppress(RedisError, OSError):
        if queue.count >= ENOUGH_HINTS:
            return 0
    try:
        hinted = slices.list_hinted(HINT, waiting_only=True, queue=queue)
    except (RedisError, OSError):
        hinted = set()
    # Of these, fewer than ENOUGH_HINTS are hinted already: the others fill the queue.
    found = free.order_by(*EPISODE_ORDER).values_list("public_id", flat=True)[: 2 * ENOUGH_HINTS]
    without = [episode_id for episode_id in map(str, found) if episode_id not in hinted]
    return sum(put_hint(episode_id, needs) for episode_id in without[:ENOUGH_HINTS])


def is_any_waiting(labels: Labels = frozenset()) -> bool:
    """Does an open episode that a worker with these labels can do wait for one, or between two tries?"""
    beyond = [pk for pk, needs in list_needs().items() if not needs <= labels]
    return Episode.objects.own().open().filter(lease_owner="").exclude(run__experiment__in=beyond).exists()


def _drop_hints(episode_id: str, needs: Labels) -> None:
    """Remove the episode's waiting hints from the queue before it gets the next one. Duplicates (reconciled while a
    worker was about to begin, resumed twice) would each cause another, turn by turn. A hint that a worker takes at this
    moment stays. The queue itself is not searched: it may be long, and this runs after each trial."""
    try:
        queue = queue_for(needs)
        for job_id in sorted(map(as_text, queue.connection.smembers(_given(episode_id)))):
            if queue.remove(job_id) and (job := queue.fetch_job(job_id)):
                job.delete(remove_from_queue=False)
        queue.connection.delete(_given(episode_id))
    except (RedisError, OSError) as error:
        log.warning("episode %s: duplicates stay in the queue: cannot reach the broker: %s", episode_id, error)
