"""The rq workers of this project. Each reconciles while it listens, and ends with `--burst` when nothing waits.

`EpisodeWorker` works on one trial at a time, in a process of its own (a work-horse). `ThreadedWorker` works on many,
each in a thread: a trial mostly waits for its model or its sandbox.
"""

from __future__ import annotations

import importlib
import logging
import os
import signal
import threading
import time
from datetime import datetime, timedelta
from resource import struct_rusage
from types import FrameType
from typing import Any

from django.db import DatabaseError, connections
from redis.client import Pipeline
from redis.exceptions import RedisError
from rq import Worker
from rq.executions import Execution
from rq.job import Job
from rq.queue import Queue
from rq.timeouts import TimerDeathPenalty
from rq.utils import now

from benchapp.drafting import draft_orders
from benchapp.experiments import alerts
from benchapp.experiments.work import advance
from benchapp.experiments.work.progress import TRIALS
from benchapp.experiments.work.sandbox_sweep import sweep_sandboxes
from benchapp.experiments.work.worker_labels import Labels, labels_of
from benchapp.exports import publications
from benchapp.imports import upload_import
from benchapp.judges import judging_orders
from benchapp.search.indexing import follow_if_waiting
from runner.agents import AGENTS
from runner.base.errors import SandboxError
from runner.models import MODELS
from runner.protocols.registry import PROTOCOLS
from runner.sandboxes import SANDBOXES
from runner.suites import SUITES

log = logging.getLogger(__name__)

RECONCILE_SECONDS = 5
BURST_SECONDS = 2.0  # between two looks of `--burst` at an empty queue
SEARCH_SECONDS = 15  # between two checks for the search index


def preload() -> None:
    """Import what episodes name, once, before the first fork, so that a work-horse starts without importing."""
    for registry in (AGENTS, MODELS, SANDBOXES, SUITES, PROTOCOLS):
        for place in registry.values():
            importlib.import_module(place.partition(":")[0])


def sweep_at_start() -> None:
    """Remove what dead processes of this machine left on its engine, if it has one."""
    try:
        advance.end_left_sandboxes()
        swept = sweep_sandboxes()
    except SandboxError as error:
        log.info("no sandboxes swept: %s", error)
        return
    except DatabaseError:
        log.warning("no sandboxes swept: cannot reach the database", exc_info=True)
        return
    for failure in swept.failed:
        log.warning("not swept: %s", failure)
    log.info("sandboxes swept: %d removed, %d kept", len(swept.removed), len(swept.kept))


def _render_exit(status: int) -> str:
    """Render a wait status: "signal SIGKILL", "exit code 1"."""
    if not isinstance(status, int):
        return "an unknown status"
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"exit code {code}"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
    return f"signal {name}" + (" (perhaps out of memory, or ended by hand)" if name == "SIGKILL" else "")


class EpisodeWorker(Worker):
    """Listen for RECONCILE_SECONDS at a time. This is the parent of its work-horses and never works itself."""

    _searched_at: datetime | None = None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{**options, "job_monitoring_interval": 10})
        self._reconciled_at = now() - timedelta(hours=1)

    @property
    def labels(self) -> Labels:
        return labels_of(self.queue_names())

    @property
    def dequeue_timeout(self) -> int:
        return RECONCILE_SECONDS

    def dequeue_job_and_maintain_ttl(
        self, timeout: int | None, max_idle_time: int | None = None
    ) -> tuple[Job, Queue] | None:
        """With `--burst` (no `timeout`) return None only when nothing waits:
        an episode between two tries still does."""
        while (found := super().dequeue_job_and_maintain_ttl(timeout, max_idle_time)) is None:
            if timeout is not None or not self._is_work_left():
                return None
            self._pause()
        return found

    def _is_work_left(self) -> bool:
        try:
            return advance.is_any_waiting(self.labels)
        except DatabaseError:
            log.warning("no answer whether work is left: cannot reach the database")
            return True
        finally:
            connections.close_all()

    def _pause(self) -> None:
        time.sleep(BURST_SECONDS)

    def heartbeat(self, timeout: int | None = None, pipeline: Pipeline | None = None) -> None:
        """Called before and after every job and whenever listening times out."""
        super().heartbeat(timeout, pipeline)
        if (
            not self.is_horse
            and not self.horse_pid
            and now() - self._reconciled_at > timedelta(seconds=RECONCILE_SECONDS)
        ):
            self._reconcile()
            self._follow_with_search()

    def handle_work_horse_killed(self, job: Job, retpid: int, ret_val: int, rusage: struct_rusage) -> None:
        super().handle_work_horse_killed(job, retpid, ret_val, rusage)  # type: ignore[no-untyped-call]  # in rq
        self._note_end(job, ret_val)
        # End what it left, before the episode is free for others: they may be elsewhere, and this worker may run for
        # months before the next one sweeps at its start.
        try:
            advance.end_left_sandboxes()
        except DatabaseError:
            log.warning("work-horse's leftovers not cleaned up: cannot reach the database")
        self._reconcile()

    def _note_end(self, job: Job, status: int) -> None:
        """Note how a work-horse ended, which only its parent learns; the next holder counts the failure."""
        if not job.args:  # its job was not an episode
            return
        try:
            advance.note_killed(str(job.args[0]), _render_exit(status))
        except DatabaseError:
            log.warning("not noted how the work-horse of %s ended: cannot reach the database", job.id)

    def _reconcile(self) -> None:
        """Reconcile. The connection is closed afterwards: a work-horse is a fork and must not share it."""
        self._reconciled_at = now()
        try:
            advance.reconcile(self.labels)
            judging_orders.enqueue_due()
            draft_orders.enqueue_due()
            publications.enqueue_due()
            alerts.note_and_send()
            upload_import.tend_uploads()
        except DatabaseError:
            log.warning("not reconciled: cannot reach the database", exc_info=True)
        finally:
            connections.close_all()

    def _follow_with_search(self) -> None:
        """Update the search index, rarely: even with nothing to do, this reads the whole record."""
        if self._searched_at and now() - self._searched_at < timedelta(seconds=SEARCH_SECONDS):
            return
        self._searched_at = now()
        try:
            follow_if_waiting()
        except DatabaseError:
            log.warning("search index not updated: cannot reach the database")
        finally:
            connections.close_all()


class _JobTimeLimit(TimerDeathPenalty):
    """The time limit of a job in a thread. rq's own timer would keep an ending process alive for hours."""

    def new_timer(self) -> threading.Timer:
        timer = threading.Timer(self._timeout, self.handle_death_penalty)
        timer.daemon = True
        return timer


class ThreadedWorker(EpisodeWorker):
    """Work on up to `trials` jobs at a time, each in a thread. The main thread listens and reconciles."""

    death_penalty_class = _JobTimeLimit

    def __init__(self, *args: object, trials: int, **options: object) -> None:
        super().__init__(*args, **options)
        self.trials = trials
        self._at_work: dict[threading.Thread, tuple[Job, Execution]] = {}
        self._one_ended = threading.Event()
        self._maintained_at = now()

    def serialize(self) -> dict[str, object]:
        return {**super().serialize(), TRIALS: self.trials}

    def execute_job(self, job: Job, queue: Queue) -> None:
        execution = self.prepare_execution(job)
        thread = threading.Thread(target=self._perform, args=(job, queue, execution), name=job.id, daemon=True)
        self._at_work[thread] = (job, execution)
        thread.start()
        while len(self._at_work) >= self.trials:
            self._pause()

    def _perform(self, job: Job, queue: Queue, execution: Execution) -> None:
        try:
            self.perform_job(job, queue, execution)
        finally:
            connections.close_all()
            del self._at_work[threading.current_thread()]
            self._one_ended.set()

    def _pause(self) -> None:
        """Wait until a job ends, for a while."""
        self._one_ended.wait(BURST_SECONDS)
        self._one_ended.clear()
        try:
            self.heartbeat()
        except (RedisError, OSError) as error:  # no reason to end the trials under way
            log.warning("no sign of life given: cannot reach the broker: %s", error)

    def _is_work_left(self) -> bool:
        return bool(self._at_work) or super()._is_work_left()

    def heartbeat(self, timeout: int | None = None, pipeline: Pipeline | None = None) -> None:
        if threading.current_thread() is not threading.main_thread():
            Worker.heartbeat(self, timeout, pipeline)
            return
        super().heartbeat(timeout, pipeline)
        if now() - self._maintained_at > timedelta(seconds=2 * self.job_monitoring_interval):
            self._maintained_at = now()
            for job, execution in tuple(self._at_work.values()):
                self.maintain_heartbeats(job, execution)

    def teardown(self) -> None:
        while self._at_work:
            self._pause()
        super().teardown()  # type: ignore[no-untyped-call]  # in rq

    def request_force_stop(self, signum: int, frame: FrameType | None) -> None:
        """End as if killed, because threads cannot be ended: leases and sandboxes are freed as after a kill. rq
        ignores a second signal that comes with the first."""
        try:
            super().request_force_stop(signum, frame)
        except SystemExit:
            log.warning("stopped with %d trials under way: other workers continue them", len(self._at_work))
            os._exit(1)
