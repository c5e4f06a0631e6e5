"""Tries every task of a bundled suite with the scripted model, and writes what the suite's page says of it beside the tasks.

    SKILLGLASS_VAR=/tmp/qualified .venv/bin/python tools/qualify_bundled.py starter-environments

Needs a var folder of its own, as it makes a database there. Takes minutes. Addresses and ids of that database are left out.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import django
from django.core.management import call_command
from django.core.serializers.json import DjangoJSONEncoder

os.environ |= {"DJANGO_SETTINGS_MODULE": "benchapp.settings"}
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
django.setup()

from benchapp.record.json_shape import to_json  # noqa: E402
from inspector.pages.suites.qualified import SHIPPED, read_qualification  # noqa: E402
from runner.suites import load_suite  # noqa: E402

MODEL = "scripted/apprentice"


def write_verdicts(key: str) -> Path:
    suite = load_suite(key)
    call_command("migrate", verbosity=0)
    call_command("qualify_suite", key, model=MODEL, work=True)
    told = to_json(read_qualification(key, suite.digest))
    path = suite.environments[0].families[0].tasks[0].folder.parent.parent / SHIPPED
    path.write_text(json.dumps(drop_addresses(told), indent=1, cls=DjangoJSONEncoder) + "\n")
    return path


def drop_addresses(value: object) -> object:
    if isinstance(value, dict):
        return {name: drop_addresses(each) for name, each in value.items() if name not in ("id", "json", "url")}
    return [drop_addresses(each) for each in value] if isinstance(value, list) else value


if __name__ == "__main__":
    print(write_verdicts(sys.argv[1]))
