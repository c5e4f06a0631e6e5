#!/usr/bin/env python
"""Skillglass' command line: `python manage.py help` lists what it can do."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchapp.settings")
    try:
        from benchapp.deploy.command_line import run
    except ImportError as error:
        raise SystemExit(f"{error}: run `make demo` once, or use .venv/bin/python") from error
    run(sys.argv)


if __name__ == "__main__":
    main()
