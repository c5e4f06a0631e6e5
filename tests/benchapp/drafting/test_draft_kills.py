"""Kill -9 ends a process that drafts, in a call and between a reply and its files; another process continues."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
KEYS = ["plan", "task/1/1", "critic/1/1", "task/2/1", "critic/2/1"]
AT = "task/1/1"
DEADLINE = 120

# One process that drafts. What it is to hang at, if anything: "call" or "take".
SCRIPT = """
import json, sys, time
import django
django.setup()
import pytest
from django.core.management import call_command
from benchapp.audit import findings
from benchapp.drafting import draft_orders
from benchapp.models import Draft
from tests.worlds.drafting_loop import BRIEF, CORPUS, Drafter, install_loop

hang = sys.argv[1]
patch = pytest.MonkeyPatch()
install_loop(patch)

def wait():
    print("hangs", flush=True)
    time.sleep(600)

drafter = Drafter({"task/1/1": [wait]} if hang == "call" else {})
patch.setattr(draft_orders, "make_model", lambda name: drafter)
take = draft_orders._Drafting._take
if hang == "take":
    patch.setattr(draft_orders._Drafting, "_take", lambda self, step: wait() if step.key == "task/1/1" else take(self, step))
if hang != "nothing":
    call_command("migrate", interactive=False, verbosity=0)
    draft_orders.start_draft(BRIEF, CORPUS, "litellm/test/drafter")
draft = Draft.objects.get()
draft_orders.enqueue_due()
draft_orders.work_off(draft)
print(json.dumps({
    "asked": drafter.keys,
    "status": draft.status,
    "steps": list(draft.steps.values_list("key", "status")),
    "flaws": list(map(str, findings())),
}))
"""  # noqa: E501


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    told = {"SKILLGLASS_VAR": str(tmp_path), "REDIS_URL": "redis://127.0.0.1:1/0", "PYTHONPATH": str(ROOT)}
    return {**os.environ, **told, "DATABASE_URL": "", "DJANGO_SETTINGS_MODULE": "benchapp.settings"}


def start(hang: str, environment: dict[str, str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SCRIPT, hang]
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def kill_where_it_hangs(hang: str, environment: dict[str, str]) -> None:
    process = start(hang, environment)
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        first = process.stdout.readline().strip()
        assert first == "hangs", process.stderr.read()[-3_000:]
    finally:
        process.kill()
        process.wait(DEADLINE)
    assert process.returncode == -9


def go_on(environment: dict[str, str]) -> dict[str, Any]:
    process = start("nothing", environment)
    out, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0, err[-3_000:]
    found: dict[str, Any] = json.loads(out)
    return found


@pytest.mark.slow
def test_a_process_killed_in_a_call_costs_that_call_and_no_other(environment: dict[str, str]) -> None:
    kill_where_it_hangs("call", environment)
    done = go_on(environment)
    assert done["asked"] == KEYS[1:]
    steps = [["", "taken"], ["plan", "taken"], [AT, "failed"], *([key, "taken"] for key in KEYS[1:])]
    assert (done["status"], done["steps"], done["flaws"]) == ("done", steps, [])


@pytest.mark.slow
def test_a_process_killed_after_a_reply_costs_nothing(environment: dict[str, str]) -> None:
    kill_where_it_hangs("take", environment)
    done = go_on(environment)
    assert done["asked"] == KEYS[2:]
    steps = [["", "taken"], *([key, "taken"] for key in KEYS)]
    assert (done["status"], done["steps"], done["flaws"]) == ("done", steps, [])
