"""One family from a small corpus to an admitted suite with the scripted model, killed in the middle,
tried in containers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docker_images import base_image

ROOT = Path(__file__).resolve().parents[3]
DEADLINE = 600

# Two processes over one record: the first is killed in the third call, the second does the rest.
SCRIPT = """
import json, sys, time
import django
django.setup()
from io import StringIO
from django.core.management import call_command
from benchapp.audit import findings
from benchapp.drafting import draft_orders, draft_suites
from benchapp.models import Draft
from demo.scripted import Scripted
from runner.base.types import File
from runner.drafting.loops import brief_from_plain
from runner.sandboxes import processes
from tests.worlds.drafting_loop import plain_workflow

stage, image, folder = sys.argv[1:]
complete, asked = Scripted.complete, []

def ask(self, request):
    asked.append(request)
    if stage == "killed" and len(asked) == 3:
        print("hangs", flush=True)
        time.sleep(600)
    return complete(self, request)

Scripted.complete = ask
if stage == "killed":
    call_command("migrate", interactive=False, verbosity=0)
    rules = b"# Rules of the carrier\\n\\n## Weights\\n\\n- A parcel weighs at most 31,500 grams; what is heavier is refused.\\n\\n"
    rules += b"## Storage\\n\\n- Parcels that lie at the depot for more than 14 days do not count as delivered.\\n"
    brief = brief_from_plain({"loop": "corpus", "family": "fee-tables", "tasks": 2, "image": image})
    draft_orders.start_draft(brief, {"corpus/rules.md": File(rules)}, "scripted/careful")
draft = Draft.objects.get()
draft_orders.enqueue_due()
draft_orders.work_off(draft)
assert draft.status == "done", draft.reason
calls = len(asked)
draft_orders.edit_file(draft, "workflow.json", plain_workflow("fee-tables").decode(), None, draft.head.digest)
suite = draft_suites.try_as_suite(draft, None)
open_before = sum(not each.is_ready for each in draft_suites.read_readiness(draft))
rules = f"{folder}/rules.yaml"
open(rules, "w").write("no_skill: null\\nno_corpus: {runs: 1, below: 0.5}\\nwith_corpus: null\\nreference: null\\n")
told = StringIO()
call_command("qualify_suite", suite.key, "--thresholds", rules, "--model", "scripted/careful", "--work", stdout=told)
admitted = draft_suites.admit(draft, "fee-tables", None)
print(json.dumps({
    "asked": calls,
    "open_before": open_before,
    "said": told.getvalue(),
    "admitted": list(admitted.tasks.values_list("key", flat=True)),
    "steps": list(draft.steps.values_list("kind", "status", "key", "scripted")),
    "flaws": list(map(str, findings())),
}))
"""  # noqa: E501


@pytest.mark.docker
@pytest.mark.slow
def test_a_small_corpus_becomes_an_admitted_suite_though_its_worker_was_killed(tmp_path: Path) -> None:
    told = {"SKILLGLASS_VAR": str(tmp_path), "REDIS_URL": "redis://127.0.0.1:1/0", "PYTHONPATH": str(ROOT)}
    environment = {**os.environ, **told, "DATABASE_URL": "", "DJANGO_SETTINGS_MODULE": "benchapp.settings"}

    def start(stage: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", SCRIPT, stage, base_image(), str(tmp_path)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(command, cwd=ROOT, env=environment, text=True, **pipes)

    first = start("killed")
    assert first.stdout is not None
    line = first.stdout.readline().strip()
    first.kill()
    _, err = first.communicate(timeout=DEADLINE)
    assert (line, first.returncode) == ("hangs", -9), err[-3_000:]
    out, err = (second := start("rest")).communicate(timeout=DEADLINE)
    assert second.returncode == 0, err[-3_000:]
    done = json.loads(out.splitlines()[-1])
    assert done["asked"] == 2, "what was answered before the kill is not asked again"
    assert done["open_before"] == 2
    assert "2 tasks: 2 admit, 0 reject, 0 look" in done["said"]
    assert len(done["admitted"]) == 2
    kinds = [kind for kind, *_ in done["steps"]]
    assert kinds == ["given", *["answer"] * 5, "edit", "trial", "admission"]
    answers = [
        (status, key.partition("/")[0], scripted) for kind, status, key, scripted in done["steps"] if kind == "answer"
    ]
    keys = ["units", "scenarios", "task", "task", "task"]
    assert answers == [("failed" if place == 2 else "taken", key, True) for place, key in enumerate(keys)]
    assert done["flaws"] == []
