from __future__ import annotations

from django.core.management.base import BaseCommand, CommandError

from benchapp.experiments.work.deletion_sweep import StillWorking, sweep
from benchapp.imports.uploads import sweep_uploads


class Command(BaseCommand):
    help = "Permanently removes deleted experiments and contents that nothing uses, and unfinished uploads."

    def handle(self, *args: object, **options: object) -> None:
        try:
            swept = sweep()
        except StillWorking as error:
            raise CommandError(f"{error}; nothing was removed") from None
        self.stdout.write(f"removed {swept.experiments} experiments, {swept.snapshots} snapshots, {swept.blobs} blobs")
        if uploads := sweep_uploads():
            self.stdout.write(f"removed {uploads} unfinished uploads")
        for name in swept.kept:
            self.stdout.write(f"kept {name}: people reviewed or commented on it")
