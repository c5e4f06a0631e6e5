from __future__ import annotations

from django.core.management.base import BaseCommand

from benchapp.experiments.work.advance import reconcile


class Command(BaseCommand):
    help = "Queues every waiting episode that the queue has lost. Safe at any time."

    def handle(self, *args: object, **options: object) -> None:
        self.stdout.write(f"{reconcile()} episodes queued")
