from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from django.core.management.base import BaseCommand, CommandError, CommandParser

from benchapp.launching import launch
from runner.errors import SetupError


class Command(BaseCommand):
    help = "Launches the experiment that a YAML or JSON file describes; running workers start on it at once."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path)

    def handle(self, *args: Any, **options: Any) -> None:
        path: Path = options["file"]
        try:
            value = yaml.safe_load(path.read_text())
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise CommandError(f"{path}: {error} (expected YAML or JSON)") from error
        if not isinstance(value, dict):
            raise CommandError(f"{path}: expected a mapping of fields such as name, suite, conditions")
        try:
            experiment = launch(value)
        except SetupError as error:
            raise CommandError(f"{path}: {error}") from error
        self.stdout.write(f"{experiment.public_id}  {experiment.name}")
