from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from benchapp.experiments.work.sandbox_sweep import sweep_sandboxes
from runner.base.errors import SandboxError


class Command(BaseCommand):
    help = "Removes containers, networks and volumes that interrupted attempts left on the Docker engine."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="name what would be removed, remove nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            swept = sweep_sandboxes(dry_run=options["dry_run"])
        except SandboxError as error:
            raise CommandError(str(error)) from None
        verb = "would remove" if options["dry_run"] else "removed"
        for found in swept.removed:
            self.stdout.write(f"{verb} {found.kind} {found.name[:40]} {found.task}".rstrip())
        for found in swept.kept:
            self.stdout.write(f"kept {found.kind} {found.name[:40]}: it may be in use")
        self.stdout.write(f"{verb} {len(swept.removed)}, kept {len(swept.kept)}")
        if swept.failed:
            raise CommandError("\n".join(swept.failed))
