from __future__ import annotations

import django_rq
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connections
from django_rq.workers import get_worker
from redis.exceptions import RedisError
from rq.logutils import setup_loghandlers

from benchapp.deploy.readiness import what_migrate_would_mend
from benchapp.deploy.workers import EpisodeWorker, preload, sweep_at_start
from benchapp.experiments.work.call_queue import BrokerQueue
from runner.models.wire.call_slots import use_queue
from runner.sandboxes.processes import hide_environment


class Command(BaseCommand):
    help = "Runs episodes until you stop it. One SIGTERM waits for the running trial; a second one interrupts it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--burst", action="store_true", help="exit when the queue is empty")
        parser.add_argument("--name", default=None, help="worker name, unique per broker")

    def handle(self, *args: object, burst: bool, name: str | None, **options: object) -> None:
        hide_environment()  # the parent of the work-horses, which hide themselves
        setup_loghandlers("INFO")
        if told := what_migrate_would_mend():
            raise SystemExit(told)  # the same line that every command prints
        try:
            django_rq.get_connection().ping()
        except (RedisError, OSError) as error:
            raise CommandError(f"cannot reach the broker: {error}") from error
        preload()
        use_queue(BrokerQueue())
        sweep_at_start()
        worker = get_worker("default", worker_class=EpisodeWorker, name=name)
        connections.close_all()  # a work-horse is a fork: it opens its own
        worker.work(burst=burst, logging_level="INFO")
