"""List the suites that can be launched here."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path

from django.core.management.base import BaseCommand

from benchapp.models import Suite
from benchapp.record.sets.suite_files import find_suite
from runner.base.errors import SetupError
from runner.suites import SUITES


class Command(BaseCommand):
    help = "Lists bundled and loaded suites: format, folder, and whether the folder has changed since loading."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", dest="as_json", action="store_true", help="print a JSON array instead of lines")

    def handle(self, *args: object, as_json: bool, **options: object) -> None:
        loaded = Suite.objects.exclude(path="").order_by("key").values_list("key", "format", "path", "digest")
        rows = [
            {"key": key, "format": format, "path": path, "state": _describe_state(key, path, digest)}
            for key, format, path, digest in [*((key, "bundled", "", "") for key in SUITES), *loaded]
        ]
        if as_json:
            self.stdout.write(json.dumps(rows, ensure_ascii=False))
            return
        for row in rows:
            self.stdout.write(f"{row['key']:<24}  {row['format']:<16}  {row['state']}  {row['path']}".rstrip())


def _describe_state(key: str, path: str, digest: str) -> str:
    try:
        now = find_suite(key).digest
    except SetupError as error:
        return f"cannot be used here: {str(error).splitlines()[0]}"
    if path and not Path(path).is_dir():
        return "read from the record: its folder is not on this machine"
    return "as loaded" if digest in ("", now) else "changed since it was loaded"
