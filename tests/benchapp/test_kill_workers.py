"""Workers and work-horses die by kill -9 while an experiment runs, and the record shows no trace of it but interrupted attempts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.kill_workers import compare

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "kill_workers.py"


@pytest.mark.slow
def test_killed_workers_change_nothing_in_the_record() -> None:
    arguments = ["--kills", "4", "--environment", "E1", "--condition", "selfgen-always"]
    done = subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr[-4_000:]
    assert "equal: trials, decisions, histories, final libraries" in done.stdout
    assert "'interrupted'" in done.stdout  # somebody was killed at work


def world(**changes: Any) -> dict[str, Any]:
    same: dict[str, Any] = {
        "status": ["done"],
        "trials": [["T1", True]],
        "decisions": [],
        "histories": [],
        "libraries": [],
    }
    return {**same, "blocked": [], "most_counting": 1, **changes}


@pytest.mark.parametrize(
    "changes",
    [
        {"status": ["blocked"]},
        {"trials": [["T1", False]]},
        {"trials": [["T1", True], ["T2", True]]},
        {"libraries": [["E1", "digest"]]},
        {"most_counting": 2},
        {"blocked": ["SandboxError"]},
    ],
)
def test_the_comparison_sees_a_difference(changes: dict[str, Any]) -> None:
    assert compare(world(), world()) == []
    assert compare(world(), world(**changes))
