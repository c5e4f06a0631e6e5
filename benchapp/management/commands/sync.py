from __future__ import annotations

import os
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from benchapp.management.lookups import end_on
from skillglass.record_rows import RecordError
from skillglass.sending import EVENTS, RunSender


class Command(BaseCommand):
    help = (
        "Sends run logs that `skillglass.start` wrote to an installation: what it has not got yet. Safe to stop and "
        "repeat. The token (scope: log, from the page Your account) is read from SKILLGLASS_TOKEN."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "folders", nargs="*", metavar="FOLDER", default=["skillglass-runs"], help="default: %(default)s"
        )
        parser.add_argument(
            "--server", default=os.environ.get("SKILLGLASS_SERVER", ""), help="default: SKILLGLASS_SERVER"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if not options["server"]:
            raise CommandError("name the installation: --server https://HOST, or SKILLGLASS_SERVER")
        for folder in map(Path, options["folders"]):
            logs = sorted(path.parent for path in folder.rglob(EVENTS))
            if not logs:
                raise CommandError(f"{folder}: there is no run log below it")
            for log in logs:
                with end_on(RecordError):
                    sent = RunSender(log, options["server"], os.environ.get("SKILLGLASS_TOKEN", "")).send()
                self.stdout.write(f"{log}: {sent:,} bytes sent" if sent else f"{log}: nothing left to send")
