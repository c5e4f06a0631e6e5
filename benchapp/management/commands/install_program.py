"""manage.py install_program NAME...: agent programs in their pinned versions, into the var folder."""

from __future__ import annotations

from argparse import ArgumentParser

from django.core.management.base import BaseCommand

from benchapp.management.lookups import end_on
from runner import programs
from runner.base.errors import SetupError
from runner.programs.installing import install


class Command(BaseCommand):
    help = "Installs agent programs at their pinned versions. Lists them if you name none."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(programs.names()))

    def handle(self, *args: object, names: list[str], **options: object) -> None:
        if not names:
            for name in programs.names():
                self.stdout.write(f"{name} {programs.pin_of(name).version}")
            return
        for name in names:
            with end_on(SetupError):
                folder = install(name, tell=lambda line: self.stdout.write(f"  {line}"))
            self.stdout.write(f"{name} {programs.pin_of(name).version}: {folder}")
