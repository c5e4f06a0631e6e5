from __future__ import annotations

import sys

from django.core.management.base import BaseCommand

from benchapp.deploy.doctor_checks import findings


class Command(BaseCommand):
    help = "Checks this machine: what works, what is missing, what you lose. Exit status: 1 if the demo cannot run."
    requires_system_checks: list[str] = []

    def handle(self, *args: object, **options: object) -> None:
        found = []
        for finding in findings():
            found.append(finding)
            word, style = ("missing", self.style.ERROR) if finding.needed else ("absent ", self.style.WARNING)
            line = f"{style(word)}  {finding.name}: {finding.detail} - {finding.cost}"
            there = f"{self.style.SUCCESS('ok     ')}  {finding.name}: {finding.detail}"
            self.stdout.write(there if finding.is_there else line)
        fatal = [finding.name for finding in found if finding.is_fatal]
        if fatal:
            self.stdout.write(self.style.ERROR(f"The demo cannot run: {', '.join(fatal)}."))
            sys.exit(1)
        self.stdout.write(self.style.SUCCESS("The demo has everything it needs."))
