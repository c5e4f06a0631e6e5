"""Tries every task of a bundled suite with the scripted model, and writes the results for the suite's page into its
folder.

    SKILLGLASS_VAR=/tmp/qualified .venv/bin/python tools/qualify_bundled.py starter-environments

Makes a record of its own below SKILLGLASS_VAR, and takes minutes. Ids and addresses of that record are left out.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import django
from django.core.management import call_command
from django.test import Client

os.environ |= {"DJANGO_SETTINGS_MODULE": "benchapp.settings", "SINGLE_USER": "1", "DEBUG": "1"}
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
django.setup()

from inspector.pages.suites.suite_fitness import SHIPPED  # noqa: E402
from runner.suites import load_suite  # noqa: E402

MODEL = "scripted/apprentice"
OWN = {"id", "json", "url"}  # what is of use in that record alone


def write_verdicts(key: str) -> Path:
    """What the page's twin says once all is tried."""
    folder = load_suite(key).environments[0].families[0].tasks[0].folder.parent.parent
    call_command("migrate", verbosity=0)
    call_command("qualify_suite", key, model=MODEL, work=True)
    qualification = Client(HTTP_HOST="localhost").get(f"/suites/{key}.json").json()["qualification"]
    path = folder / SHIPPED
    path.write_text(json.dumps(drop_own(qualification), indent=1) + "\n")
    return path


def drop_own(value: object) -> object:
    if isinstance(value, dict):
        return {name: drop_own(each) for name, each in value.items() if name not in OWN}
    return [drop_own(each) for each in value] if isinstance(value, list) else value


if __name__ == "__main__":
    print(write_verdicts(sys.argv[1]))
