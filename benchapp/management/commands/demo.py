from __future__ import annotations

import logging
import signal
import threading

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, connection

from benchapp.archive import ArchiveError
from benchapp.deploy import environ
from benchapp.deploy.installation import Installation, Unable
from benchapp.deploy.static_files import collect_if_changed
from benchapp.deploy.supervisor import AlreadyRunning
from benchapp.experiments.example_experiment import DEMO, SMALL_DEMO
from benchapp.experiments.launch import launch
from benchapp.experiments.launch_spec import Unlaunchable
from benchapp.imports.shipped_example import take_in_example
from benchapp.management.lookups import end_on
from benchapp.models import Experiment

log = logging.getLogger(__name__)

OPEN = (Experiment.Status.WAITING, Experiment.Status.RUNNING)


class Command(BaseCommand):
    help = (
        "Starts everything on this machine, in the foreground: broker, web, two workers, a finished example and the "
        "demo experiment."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--port", type=int, default=None, help="default: PORT from the environment, else 8000")
        parser.add_argument("--workers", type=int, default=2)
        parser.add_argument(
            "--model", choices=["small"], help="serve a small language model here, and run a small experiment with it"
        )
        parser.add_argument("--no-experiment", action="store_true", help="start without launching the demo experiment")

    def handle(
        self, *args: object, port: int | None, workers: int, model: str | None, no_experiment: bool, **options: object
    ) -> None:
        installation = Installation(self._choose_port(port), workers, with_small_model=model == "small")
        self._stop = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._stop_on)
        try:
            installation.supervisor.hold()
        except AlreadyRunning:
            raise CommandError(f"already running with {settings.VAR_DIR}; end that one first") from None
        try:
            with end_on(Unable):
                call_command("migrate", interactive=False, verbosity=0)
                collect_if_changed()
                installation.start()
                if model and not no_experiment:
                    self.launch_demo(SMALL_DEMO)  # first, as it takes longer
                self._run(installation, with_experiment=not no_experiment)
        finally:
            installation.end()

    def _choose_port(self, asked: int | None) -> int:
        with end_on(ImproperlyConfigured):
            port = environ.number("PORT", 8000) if asked is None else asked
        if not 0 < port < 65536:
            raise CommandError(f"port {port}: expected 1 to 65535")
        return port

    def _stop_on(self, number: int, _: object) -> None:
        log.warning("%s: ending", signal.Signals(number).name)
        self._stop.set()

    def _run(self, installation: Installation, *, with_experiment: bool) -> None:
        if with_experiment:
            threading.Thread(target=self.take_in_example, daemon=True).start()  # the pages need not wait for it
        experiment = self.launch_demo(DEMO) if with_experiment else None
        answered = reported = False
        while not self._stop.wait(0.5):
            installation.tend()
            if not answered and (answered := installation.answers()):
                self.stdout.write(self.style.SUCCESS(f"\n  Skillglass is at {installation.address}\n"))
                if experiment is not None and experiment.status in OPEN:
                    self.stdout.write("  A finished example opens in a moment. The demo experiment runs next to it.")
                self.stdout.write(f"  Stored in {settings.VAR_DIR}, with logs in log/. Ctrl-C ends everything.\n")
                self.stdout.flush()
            if experiment is not None and not reported:
                reported = self._tell_end(experiment)
        self.stdout.write("Ending ...")
        self.stdout.flush()

    def take_in_example(self) -> None:
        """Import something finished to look at. The demo starts without it if it cannot be read."""
        try:
            take_in_example()
        except (ArchiveError, DatabaseError) as error:
            self.stderr.write(self.style.WARNING(f"The example: {error}"))
        finally:
            connection.close()

    def launch_demo(self, file: dict[str, object]) -> Experiment | None:
        """Launch it. Return None if it was deleted, or an older version had another demo: the pages work anyway."""
        try:
            return launch(file)
        except Unlaunchable as error:
            self.stderr.write(self.style.WARNING(f"The demo experiment: {error}"))
            return None

    def _tell_end(self, experiment: Experiment) -> bool:
        """Report once how the demo experiment ended, if it was still open when this start began."""
        was_open = experiment.status in OPEN
        try:
            experiment.refresh_from_db(fields=["status"])
        except DatabaseError:  # busy for a moment
            return False
        if experiment.status in OPEN:
            return False
        if was_open:
            self.stdout.write(f"  The demo experiment ended: {experiment.status}.")
            self.stdout.flush()
        return True
