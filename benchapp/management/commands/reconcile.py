from __future__ import annotations

from django.core.management.base import BaseCommand

from benchapp.experiments.work.advance import reconcile


class Command(BaseCommand):
    help = "Puts every episode that waits without a hint into the queue again. Safe at any time, also twice."

    def handle(self, *args: object, **options: object) -> None:
        self.stdout.write(f"{reconcile()} episodes queued")
