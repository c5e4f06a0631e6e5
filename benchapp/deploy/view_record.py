"""`manage.py view` has a record of its own for the paths it shows, in the user's cache. Its folder is chosen before the
settings are read."""

from __future__ import annotations

import hashlib
import os
from argparse import ArgumentParser
from collections.abc import MutableMapping
from pathlib import Path


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "paths", nargs="+", metavar="PATH", help="a folder or file: jobs, runs, a workspace, logs, an archive"
    )
    parser.add_argument(
        "--record", metavar="FOLDER", help="keep the record here, and use it again (default: in your cache)"
    )
    parser.add_argument("--follow", action="store_true", help="keep reading while files change")
    parser.add_argument("--port", type=int, default=0, help="default: 8765, or a free one")
    parser.add_argument("--no-browser", action="store_true", help="print the address only")


def set_up(arguments: list[str], environment: MutableMapping[str, str] = os.environ) -> None:
    """Set the variables that settings read: the record's folder, one user, no broker. `arguments`: of the command."""
    parser = ArgumentParser(add_help=False, exit_on_error=False)
    add_arguments(parser)
    if {"-h", "--help"} & set(arguments):
        return
    args, _ = parser.parse_known_args(arguments)  # what is wrong with them ends the program here, in one line
    cache = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache").resolve() / "skillglass"
    environment["SKILLGLASS_VAR"] = str(Path(args.record).resolve() if args.record else cache / name_record(args.paths))
    # Of all records, and not of another installation: it would take the files from one that runs.
    installed = hashlib.sha256(str(Path(__file__).resolve().parent).encode()).hexdigest()[:8]
    environment["SKILLGLASS_STATIC"] = str(cache / f"static-{installed}")
    environment["SINGLE_USER"] = "1"
    environment.setdefault("LOG_LEVEL", "ERROR")
    for name in ("DATABASE_URL", "DATABASE_URL_FILE", "REDIS_URL", "REDIS_URL_FILE", "ALLOWED_HOSTS"):
        environment.pop(name, None)  # of an installation that others may use


def name_record(paths: list[str]) -> str:
    """Name the record of some paths: "monday-1f2e3d4c", the same for the same paths."""
    resolved = sorted({str(Path(path).resolve()) for path in paths})
    plain = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in Path(resolved[0]).name)[:40]
    return f"records/{plain.lstrip('.') or 'all'}-{hashlib.sha256(chr(0).join(resolved).encode()).hexdigest()[:8]}"
