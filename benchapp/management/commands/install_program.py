"""manage.py install_program NAME...: agent programs in their pinned versions, into the var folder."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from runner.base.errors import SetupError
from runner.programs import names, pin_of
from runner.programs.installing import install


class Command(BaseCommand):
    help = "Installs agent programs in their pinned versions. Without a name it lists them."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(names()))

    def handle(self, *args: Any, **options: Any) -> None:
        if not options["names"]:
            for name in names():
                self.stdout.write(f"{name} {pin_of(name).version}")
            return
        for name in options["names"]:
            try:
                folder = install(name, tell=lambda line: self.stdout.write(f"  {line}"))
            except SetupError as error:
                raise CommandError(str(error)) from error
            self.stdout.write(f"{name} {pin_of(name).version}: {folder}")
