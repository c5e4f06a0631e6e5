from __future__ import annotations

from django.core.management.base import BaseCommand, CommandError

from benchapp.deploy import environ
from benchapp.management.lookups import end_on
from runner.base.errors import SetupError
from runner.models.preset import Preset
from runner.models.presets import preset_files, read_preset_named


class Command(BaseCommand):
    help = "Lists presets: harness, models, and whether their variables are set here. Never prints a value."
    requires_system_checks: list[str] = []

    def handle(self, *args: object, **options: object) -> None:
        faulty = 0
        with end_on(SetupError):
            names = sorted(preset_files())
        for name in names:
            try:
                self.stdout.write(_render_preset(read_preset_named(name)))
            except SetupError as error:
                faulty += 1
                self.stderr.write(f"{name:<20} cannot be read: {error}")
        if faulty:
            raise CommandError(f"{faulty} of {len(names)} presets cannot be read")


def _render_preset(preset: Preset) -> str:
    states = (f"{name} is {'set' if environ.text(name) else 'not set'}" for name in preset.variables)
    variables = ", ".join(states) or "no variables"
    return f"{preset.name:<20} {preset.harness:<12} {preset.agent_model:<34} {preset.host_model:<44} {variables}"
