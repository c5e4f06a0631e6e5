from __future__ import annotations

from django.core.management.base import BaseCommand, CommandError

from benchapp import audit
from benchapp.models import Attempt, Blob, Decision, Trajectory, Trial


class Command(BaseCommand):
    help = "Checks the whole record and prints the id of every flaw. Exit status: 0 without flaws, 1 with flaws."

    def handle(self, *args: object, **options: object) -> None:
        found = unchecked = 0
        for finding in audit.findings():
            found += isinstance(finding, audit.Flaw)
            unchecked += isinstance(finding, audit.Unchecked)
            self.stdout.write(str(finding))
        sizes = ", ".join(
            f"{model.objects.count():,} {model._meta.verbose_name_plural}"
            for model in (Trial, Attempt, Trajectory, Decision, Blob)
        )
        if unchecked:
            self.stdout.write(f"{unchecked:,} episodes cannot be compared with their plans. That is not a flaw.")
        if found:
            raise CommandError(f"{found} flaws in {sizes}")
        self.stdout.write(f"The record holds: {sizes}.")
