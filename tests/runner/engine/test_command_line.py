"""`python -m runner` as a person uses it: real processes, real sandboxes, the bundled suite."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from runner.__main__ import RECORD, main

ROOT = Path(__file__).parents[3]


def _arguments(out: Path, condition: str, **options: str) -> list[str]:
    given = {"condition": condition, "environment": "E1", "out": str(out), "seed": "7"} | options
    return ["run", *(part for name, value in given.items() for part in (f"--{name.replace('_', '-')}", value))]


def _run(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "runner", *arguments], cwd=ROOT, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"environment": "E9"}, "suite starter has no environment 'E9' under skillevolbench; known: E1, E2"),
        ({"agent": "wizard"}, "unknown agent 'wizard'; known: "),
        ({"agent": "nop", "sandbox": "cloud"}, "unknown sandbox 'cloud'; known:"),
        ({"agent": "nop", "author_model": "none"}, "selfgen-always needs an author model"),
        ({"agent": "nop", "agent_model": "oracle/of-delphi"}, "unknown model provider 'oracle'"),
        ({"agent": "nop", "answers": "0"}, "answers and samples must be at least 1"),
    ],
)
def test_a_setup_that_cannot_run_is_named_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: dict[str, str], message: str
) -> None:
    assert main(_arguments(tmp_path / "out", "selfgen-always", **options)) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_there_is_nothing_to_print_where_nothing_ran(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["history", *_arguments(tmp_path, "no-skill", agent="nop", agent_model="none")[1:]]
    assert main(arguments) == 2
    assert f"{tmp_path / RECORD}: no such file" in capsys.readouterr().err


@pytest.mark.slow
def test_the_reference_solutions_pass_every_trial_and_can_be_printed_again(tmp_path: Path) -> None:
    arguments = _arguments(tmp_path, "curated-static", agent="oracle", agent_model="none", author_model="none")
    ran = _run(arguments)
    assert ran.returncode == 0, ran.stderr
    trials = [line for line in ran.stdout.splitlines() if " trial " in line]
    assert len(trials) == 12
    assert all(" passed " in line for line in trials)
    assert _run(["history", *arguments[1:]]).stdout == ran.stdout


@pytest.mark.slow
def test_a_killed_run_goes_on_to_the_history_of_an_undisturbed_one(tmp_path: Path) -> None:
    undisturbed = _run(_arguments(tmp_path / "whole", "selfgen-always"))
    assert undisturbed.returncode == 0, undisturbed.stderr
    arguments = _arguments(tmp_path / "killed", "selfgen-always")
    lines = len((tmp_path / "whole" / RECORD).read_bytes().splitlines())
    for share in (0.1, 0.3, 0.5, 0.8):
        _kill_when(arguments, tmp_path / "killed" / RECORD, int(lines * share))
    resumed = _run(arguments)
    assert resumed.returncode == 0, resumed.stderr
    assert resumed.stdout == undisturbed.stdout
    assert _decided(tmp_path / "killed" / RECORD) == _decided(tmp_path / "whole" / RECORD)


@pytest.mark.slow
def test_a_run_killed_between_student_and_teacher_goes_on_and_asks_neither_again(tmp_path: Path) -> None:
    """An agent that does nothing fails, so every round has its talk."""
    options = {"protocol": "skilllearnbench", "environment": "E1-LS1", "agent": "nop", "agent_model": "none"}
    undisturbed = _run(_arguments(tmp_path / "whole", "teacher-feedback", **options))
    assert undisturbed.returncode == 0, undisturbed.stderr
    arguments = _arguments(tmp_path / "killed", "teacher-feedback", **options)
    record = tmp_path / "whole" / RECORD
    lines = record.read_bytes().splitlines()
    turns = [
        place for place, line in enumerate(lines, start=1) if b'"key":"questions/' in line or b'"key":"advice/' in line
    ]
    assert len(turns) >= 8  # two talks, each turn begun and ended
    killed = tmp_path / "killed" / RECORD
    for place in turns[:8:2]:
        _kill_when(arguments, killed, place)
    resumed = _run(arguments)
    assert resumed.returncode == 0, resumed.stderr
    assert resumed.stdout == undisturbed.stdout
    assert _decided(killed) == _decided(record)
    finished = [
        line["key"] for line in map(json.loads, killed.read_bytes().splitlines()) if line.get("type") == "CallFinished"
    ]
    assert len(set(finished)) == len(finished)


def _decided(record: Path) -> list[dict[str, Any]]:
    """Decisions with their patches, seeds and the freeze, as recorded: everything that makes the final library."""
    lines = [json.loads(line) for line in record.read_bytes().splitlines()[1:]]
    return [line for line in lines if line["type"] in ("DecisionMade", "LibrarySeeded", "Noted")]


def _kill_when(arguments: list[str], record: Path, lines: int) -> None:
    """Starts a run and ends it with SIGKILL once its record has this many lines."""
    with subprocess.Popen(
        [sys.executable, "-m", "runner", *arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        until = time.monotonic() + 120
        while not record.exists() or record.read_bytes().count(b"\n") < lines:
            assert process.poll() is None, "the run ended before it could be killed"
            assert time.monotonic() < until, f"the record did not reach {lines} lines"
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
