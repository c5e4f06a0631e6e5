#!/usr/bin/env python
"""Skillglass' command line: `python manage.py help` lists what it can do."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchapp.settings")
    try:
        from django.core.management import execute_from_command_line
    except ImportError as error:
        raise SystemExit(f"{error}: run `make demo` once, or use .venv/bin/python") from error
    from django.db import DatabaseError

    try:
        execute_from_command_line(sys.argv)
    except DatabaseError as error:
        from benchapp.readiness import what_migrate_would_mend

        if "--traceback" in sys.argv or not (told := what_migrate_would_mend()):
            raise
        raise SystemExit(told) from error


if __name__ == "__main__":
    main()
