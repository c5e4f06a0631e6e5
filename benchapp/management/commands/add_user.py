from __future__ import annotations

import sys
from getpass import getpass
from pathlib import Path

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser

from benchapp.models import User
from benchapp.people.accounts import add_account


class Command(BaseCommand):
    help = "Adds an account. Type the password when asked, or give a file: never put it in the command."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--level", choices=User.Level.values, default=User.Level.REVIEWER, help="default: reviewer")
        parser.add_argument(
            "--password-file",
            type=Path,
            help="read the password from the first line of this file; - reads standard input",
        )

    def handle(self, *args: object, name: str, level: str, password_file: Path | None, **options: object) -> None:
        password = _read_password(password_file) if password_file else _ask_password()
        try:
            user = add_account(name, password, level, by=None)
        except ValidationError as error:
            problems = "; ".join(f"{field}: {' '.join(texts)}" for field, texts in error.message_dict.items())
            raise CommandError(problems) from error
        self.stdout.write(f"{user.username} can log in as {user.level}. Exports name this person {user.pseudonym}.")


def _read_password(path: Path) -> str:
    try:
        text = sys.stdin.readline() if str(path) == "-" else path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path}: cannot be read as text: {error}") from error
    return text.partition("\n")[0].rstrip("\r")


def _ask_password() -> str:
    if not sys.stdin.isatty():
        raise CommandError("cannot ask for a password without a terminal: use --password-file")
    password = getpass("Password: ")
    if getpass("Again: ") != password:
        raise CommandError("the passwords do not match")
    return password
