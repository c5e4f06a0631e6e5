from __future__ import annotations

from django.core.management.base import BaseCommand, CommandError, CommandParser

from benchapp.deploy import environ
from benchapp.management.lookups import end_on
from benchapp.record.log_context import errors_only
from runner.base.errors import SetupError
from runner.models.litellm.client import LiteLLM
from runner.models.preset import Preset
from runner.models.presets import preset_files, read_preset_named
from runner.models.tryout import Tryout, model_at


class Command(BaseCommand):
    help = (
        "Lists presets: harness, models, and whether their variables are set here. Never prints a value."
        " --try asks one, or a server that has no preset yet, what it can do."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        tried = parser.add_mutually_exclusive_group()
        tried.add_argument("--try", dest="tried", metavar="NAME", help="try this preset with a few short calls")
        tried.add_argument("--url", help="try the server at this address, such as http://127.0.0.1:8080/v1")
        parser.add_argument("--model", default="", help="with --url: the model's id; default: the first it serves")
        parser.add_argument("--key-variable", help="with --url: NAME of the variable with the key")

    def handle(
        self, *args: object, tried: str | None, url: str | None, model: str, key_variable: str | None, **options: object
    ) -> None:
        with end_on(SetupError):
            if tried:
                self._try(LiteLLM.of_preset(read_preset_named(tried)))
            elif url:
                self._try(model_at(url, model, key_variable))
            else:
                self._list()

    def _try(self, model: LiteLLM) -> None:
        tryout = Tryout(model)
        with errors_only("runner"):  # each answer says what failed
            for answer in tryout.ask():
                word, style = ("yes", self.style.SUCCESS) if answer.passed else ("NO ", self.style.ERROR)
                advice = f"\n       {answer.advice}" if answer.advice else ""
                self.stdout.write(f"{style(word)}  {answer.question} {answer.said}.{advice}")
                self.stdout.flush()
        if not tryout.answers:
            raise CommandError(f"{model.name} cannot be used as it is")

    def _list(self) -> None:
        faulty = 0
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
