from __future__ import annotations

from django.core.management.base import BaseCommand, CommandError, CommandParser

from benchapp.experiments.work.sandbox_sweep import sweep_sandboxes
from benchapp.management.lookups import end_on
from runner.base.errors import SandboxError


class Command(BaseCommand):
    help = "Removes Docker containers, networks and volumes left by interrupted attempts."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="list what would be removed; remove nothing")

    def handle(self, *args: object, dry_run: bool, **options: object) -> None:
        with end_on(SandboxError):
            swept = sweep_sandboxes(dry_run=dry_run)
        verb = "would remove" if dry_run else "removed"
        for found in swept.removed:
            self.stdout.write(f"{verb} {found.kind} {found.name[:40]} {found.task}".rstrip())
        for found in swept.kept:
            self.stdout.write(f"kept {found.kind} {found.name[:40]}: it may be in use")
        self.stdout.write(f"{verb} {len(swept.removed)}, kept {len(swept.kept)}")
        if swept.failed:
            raise CommandError("\n".join(swept.failed))
