from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from benchapp import record_check
from benchapp.models import Attempt, Blob, Decision, Trajectory, Trial


class Command(BaseCommand):
    help = "Re-reads the whole record; prints the id of everything that does not hold and exits with 1 if there is any."

    def handle(self, *args: Any, **options: Any) -> None:
        found = 0
        for flaw in record_check.flaws():
            found += 1
            self.stdout.write(str(flaw))
        sizes = ", ".join(
            f"{model.objects.count():,} {model._meta.verbose_name_plural}"
            for model in (Trial, Attempt, Trajectory, Decision, Blob)
        )
        if found:
            raise CommandError(f"{found} flaws in {sizes}")
        self.stdout.write(f"The record holds: {sizes}.")
