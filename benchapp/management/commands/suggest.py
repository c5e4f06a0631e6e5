from __future__ import annotations

import argparse
from pathlib import Path
from uuid import UUID

import yaml
from django.core.management.base import BaseCommand, CommandError

from benchapp.analysis.trial_rules import RULES_VERSION
from benchapp.management.lookups import find_queue
from benchapp.review.suggestions.suggestion_runs import UnknownCode, suggest

MAX_NAMES_BYTES = 256 * 1024


class Command(BaseCommand):
    help = "Runs the rules over a review queue and stores their suggestions. Safe to repeat."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("queue", type=UUID, metavar="QUEUE_ID")
        parser.add_argument("--names", type=Path, metavar="FILE.yaml", help="maps rules to this codebook's code names")

    def handle(self, *args: object, queue: UUID, names: Path | None, **options: object) -> None:
        examined = find_queue(queue)
        try:
            found = suggest(examined, mapped=_read_names(names))
        except UnknownCode as error:
            raise CommandError(f"{names}: {error}") from error
        self.stdout.write(f"{RULES_VERSION}: suggestions for {found} of {examined.items.count()} items")


def _read_names(path: Path | None) -> dict[str, str]:
    if path is None:
        return {}
    try:
        if path.stat().st_size > MAX_NAMES_BYTES:
            raise CommandError(f"{path}: more than {MAX_NAMES_BYTES:,} bytes")
        given = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise CommandError(f"{path}: {error}") from error
    if not isinstance(given, dict) or not all(isinstance(part, str) for pair in given.items() for part in pair):
        raise CommandError(f"{path}: expected one mapping of rules to code names")
    return given
