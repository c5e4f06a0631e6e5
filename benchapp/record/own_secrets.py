"""Secrets of this process that no record may hold: keys, tokens and passwords from its environment and settings.

A trial in the local sandbox runs as the worker's own user and may find them. `runner.engine.toolbox` removes them from
all it leaves behind. Only values that can be searched for without hitting innocent text count: at least twelve
characters, or eight that are not a plain word. A secret that a trial wrote in another form (split, encoded) is not
found.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from django.conf import settings

from benchapp.record.redaction import MIN_KNOWN_CHARS, SHORTEST
from runner.base.errors import SetupError
from runner.base.host_variables import read_given_variables
from runner.models.presets import list_preset_variables

ENDINGS = ("_KEY", "_TOKEN", "_SECRET", "PASSWORD", "PASSWD", "_PAT")
FILES = "_FILE"  # NAME_FILE points at a file that holds the value of NAME
MAX_FILE_BYTES = 64 * 1024


def own_secrets() -> tuple[str, ...]:
    """Return the values to search for, the longest first."""
    found = {*environment_secrets(os.environ), settings.SECRET_KEY, *_passwords(settings.REDIS_URL)}
    found |= _preset_secrets(os.environ)
    found |= {value.strip() for value in read_given_variables().values()}  # under any name: tasks receive them
    found |= {str(database.get("PASSWORD") or "") for database in settings.DATABASES.values()}
    return tuple(sorted(filter(_can_be_searched, found), key=lambda value: (-len(value), value)))


def environment_secrets(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield values under a secret's name, contents of files named under one, and passwords of URLs under any name."""
    for name, value in environment.items():
        upper = name.upper()
        if upper.endswith(ENDINGS):
            yield value.strip()
        elif upper.endswith(FILES) and upper.removesuffix(FILES).endswith((*ENDINGS, "_URL")):
            yield from _file_secrets(Path(value))
        yield from _passwords(value)


def _preset_secrets(environment: Mapping[str, str]) -> set[str]:
    """Return the values of the variables that presets read keys and private addresses from, under any name."""
    try:
        names = list_preset_variables()
    except SetupError:  # reported by name when somebody launches with a preset
        return set()
    return {environment.get(name, "").strip() for name in names}


def _file_secrets(path: Path) -> Iterator[str]:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES).decode("utf-8", "replace").strip()
    except OSError:
        return  # reported where it is needed; here it cannot leak either
    yield content
    yield from _passwords(content)


def _passwords(url: str) -> Iterator[str]:
    """Yield the password of a URL, as written there and decoded."""
    try:
        password = urlsplit(url.strip()).password if "://" in url and "@" in url else None
    except ValueError:
        return
    if password:
        yield from (password, unquote(password))


def _can_be_searched(value: str) -> bool:
    return len(value) >= MIN_KNOWN_CHARS or (len(value) >= SHORTEST and not value.isalpha())
