"""The commands at a terminal: unprintable characters made visible, failures of the machine in one line."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable

from django.core.checks import Tags
from django.core.management import ManagementUtility
from django.core.management.base import ALL_CHECKS, BaseCommand, OutputWrapper
from django.db import DatabaseError

from benchapp.deploy import view_record
from benchapp.record.error_text import describe_failure
from benchapp.record.visible import visible


class VisibleOutput(OutputWrapper):
    """Output of a command, with every invisible character written out."""

    def write(  # type: ignore[override]  # as Django's own is, of a text stream's
        self, msg: object = "", style_func: Callable[[str], str] | None = None, ending: str | None = None
    ) -> None:
        super().write(visible(str(msg)), style_func, ending)


class CommandLine(ManagementUtility):
    """Django's commands. Those of this project write visible output and skip the checks that load every page, which
    `manage.py check` and the tests run."""

    def fetch_command(self, subcommand: str) -> BaseCommand:
        command: BaseCommand = super().fetch_command(subcommand)
        if type(command).__module__.startswith(("benchapp.", "inspector.")):  # Django colours its own output
            command.stdout = VisibleOutput(sys.stdout)
            style = command.stderr.style_func
            command.stderr = VisibleOutput(sys.stderr)
            command.stderr.style_func = style
            if command.requires_system_checks == ALL_CHECKS:
                command.requires_system_checks = [Tags.security]
        return command


def run(arguments: list[str]) -> None:
    """Run the command that the arguments name. If the machine or the database fails, or somebody presses Ctrl-C, raise
    SystemExit with one line, unless the person asks for the traceback."""
    if arguments[1:2] == ["view"]:
        view_record.set_up(arguments[2:])
    try:
        CommandLine(arguments).execute()
    except KeyboardInterrupt:
        if "--traceback" in arguments:
            raise
        sys.stderr.write("\nInterrupted.\n")
        raise SystemExit(128 + signal.SIGINT) from None
    except (DatabaseError, OSError) as error:
        if "--traceback" in arguments or not (message := _what_to_say(error)):
            raise
        raise SystemExit(message) from error


def _what_to_say(error: DatabaseError | OSError) -> str:
    if message := describe_failure(error):
        return message
    from benchapp.deploy.readiness import what_migrate_would_mend  # it needs settings, which may be what failed

    return what_migrate_would_mend() if isinstance(error, DatabaseError) else ""
