"""A worker that is killed while a generator's program runs: nothing is recorded twice, and nothing lives on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runner.sandboxes import local
from runner.sandboxes.local import read_labels
from tests.worlds.corpora import COUNTED, plan_for

ROOT = Path(__file__).parents[3]
# Runs the episode beside the record at argv[1]; the generator is taken for one that comes along.
WORKER = """
import sys
from dataclasses import replace
from pathlib import Path
from runner.engine.engine import run_episode
from runner.engine.recorders import JsonLinesRecorder
from runner.models import make_model
from runner.engine.toolbox import toolbox_for
from tests.worlds.corpora import handbook_suite, plan_for
plan = plan_for("plug-in", author_model="generator/slow")
recorder = JsonLinesRecorder(Path(sys.argv[1]), plan)
toolbox = replace(toolbox_for(plan_for("plug-in"), handbook_suite()), author_model=make_model("generator/slow"))
run_episode(plan, recorder, toolbox)
print([decision.status.value for decision in recorder.decisions], len(recorder.calls), len(recorder.results))
"""
SLOW = """
echo begun >> "$(cat program/where)"
[ "$(wc -l < "$(cat program/where)")" -gt 1 ] || sleep 300
mkdir -p output/skills/slow
printf -- '---\\nname: slow\\ndescription: Take time. Use when in a hurry.\\n---\\n\\n# Slow\\n\\n1. Wait.\\n' > output/skills/slow/SKILL.md
"""  # noqa: E501


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    folder = tmp_path / "generators" / "slow"
    folder.mkdir(parents=True)
    (folder / "generator.toml").write_text(
        'name = "slow"\nversion = "1"\ncommand = ["sh", "program/run.sh"]\ntimeout_seconds = 600\n'
    )
    (folder / "run.sh").write_text(SLOW)
    (folder / "where").write_text(str(tmp_path / "begun"))
    monkeypatch.setenv("SKILLGLASS_SANDBOXES", str(tmp_path / "boxes"))
    return {**os.environ, "SKILLGLASS_GENERATORS": str(tmp_path / "generators")}


def killed_at_work(tmp_path: Path, environment: dict[str, str]) -> None:
    """Starts the worker and kills it once its program has begun."""
    with subprocess.Popen(
        [sys.executable, "-c", WORKER, str(tmp_path / "record")], cwd=ROOT, env=environment
    ) as worker:
        until = time.monotonic() + 120
        while not (tmp_path / "begun").exists():
            assert worker.poll() is None, "it ended before it could be killed"
            assert time.monotonic() < until, "the program did not begin"
            time.sleep(0.02)
        os.kill(worker.pid, signal.SIGKILL)


def boxes(tmp_path: Path) -> list[str]:
    return [str(label["name"]) for label in read_labels(tmp_path / "boxes")]


@pytest.mark.slow
def test_whoever_takes_over_ends_the_program_and_runs_it_once_more(tmp_path: Path, environment: dict[str, str]) -> None:
    killed_at_work(tmp_path, environment)
    assert [name.startswith("generator-") for name in boxes(tmp_path)] == [True]
    command = [sys.executable, "-c", WORKER, str(tmp_path / "record")]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("['applied']")
    assert (tmp_path / "begun").read_text() == "begun\nbegun\n"
    assert boxes(tmp_path) == []


@pytest.mark.slow
def test_where_nobody_takes_over_the_next_look_ends_it(tmp_path: Path, environment: dict[str, str]) -> None:
    killed_at_work(tmp_path, environment)
    living = local.open_sandbox(plan_for("no-skill").task(COUNTED[0]), name="of-this-process")
    assert local.end_ownerless() == 1
    assert boxes(tmp_path) == ["of-this-process"]
    living.close()
