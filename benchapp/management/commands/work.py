from __future__ import annotations

import django_rq
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connections
from redis.exceptions import RedisError
from rq.logutils import setup_loghandlers

from benchapp.deploy.readiness import what_migrate_would_mend
from benchapp.deploy.workers import EpisodeWorker, ThreadedWorker, preload, sweep_at_start
from benchapp.experiments.launch_spec import sort_labels
from benchapp.experiments.work.call_queue import BrokerQueue
from benchapp.experiments.work.worker_labels import queues_of
from benchapp.management.lookups import end_on
from benchapp.record.pooling import share_connections
from runner.base.errors import NotOnThisMachine
from runner.engine.toolbox import read_engine_trials
from runner.models.wire.call_slots import use_queue
from runner.sandboxes.processes import hide_environment

MOST_TRIALS = 1_000  # threads of one process


class Command(BaseCommand):
    help = "Runs episodes until you stop it. One SIGTERM waits for the running trials; a second one interrupts them."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--trials",
            type=int,
            default=1,
            metavar="N",
            help="trials at a time (default: 1). More than one share this process, each in a thread",
        )
        parser.add_argument("--burst", action="store_true", help="exit when nothing waits, not even for another try")
        parser.add_argument(
            "--label",
            action="append",
            default=[],
            metavar="LABEL",
            help="what this host has, such as gpu or region=eu; may be repeated. Only workers with its labels take an"
            " experiment whose file names `worker_labels`",
        )
        parser.add_argument("--name", default=None, help="worker name, unique per broker")

    def handle(
        self, *args: object, trials: int, burst: bool, label: list[str], name: str | None, **options: object
    ) -> None:
        if not 1 <= trials <= MOST_TRIALS:
            raise CommandError(f"--trials {trials}: expected 1 to {MOST_TRIALS}")
        try:
            labels = sort_labels(label)
        except ValueError as error:
            raise CommandError(f"--label: {error}") from None
        with end_on(NotOnThisMachine):
            read_engine_trials()
        if trials > 1:
            share_connections()
        hide_environment()  # the parent of the work-horses, which hide themselves
        setup_loghandlers("INFO")
        if message := what_migrate_would_mend():
            raise SystemExit(message)  # the same line that every command prints
        try:
            django_rq.get_connection().ping()
        except (RedisError, OSError) as error:
            raise CommandError(f"cannot reach the broker: {error}") from error
        preload()
        use_queue(BrokerQueue())
        sweep_at_start()
        queues, given = queues_of(labels), {"name": name, "connection": django_rq.get_connection()}
        worker = ThreadedWorker(queues, trials=trials, **given) if trials > 1 else EpisodeWorker(queues, **given)
        connections.close_all()  # a work-horse is a fork: it opens its own
        worker.work(burst=burst, logging_level="INFO")
        if not burst and worker._shutdown_requested_date is None:  # rq logs its errors and returns
            raise CommandError("ended without being asked to: the line above with 'quitting' says why")
