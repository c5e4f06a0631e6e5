"""Workers and work-horses die by kill -9 while an experiment runs,
and the record shows no trace of it but interrupted attempts."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchapp.experiments.qualification import write_file
from lab.kill_workers import compare
from runner.suites import load_suite

ROOT = Path(__file__).resolve().parents[3]
SCRIPT, EXPERIMENTS = ROOT / "lab" / "kill_workers.py", ROOT / "examples" / "experiments"
OF_PROTOCOLS = {
    "skillevolbench": ["--environment", "E1", "--condition", "selfgen-always"],
    "skilllearnbench": [
        *("--file", str(EXPERIMENTS / "skilllearnbench.yaml")),
        *("--environment", "joined-tables", "--condition", "teacher-feedback", "--condition", "self-feedback"),
    ],
    "skillgenbench": [
        *("--file", str(EXPERIMENTS / "skillgenbench.yaml")),
        *("--environment", "storm-days", "--condition", "iterative", "--condition", "from-trajectories"),
    ],
    "skillgenbench-agnostic": [
        *("--file", str(EXPERIMENTS / "skillgenbench-agnostic.yaml")),
        *("--environment", "gaugekit", "--condition", "from-trajectories"),
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "protocol",
    [name if name == "skillevolbench" else pytest.param(name, marks=pytest.mark.full) for name in OF_PROTOCOLS],
)
def test_killed_workers_change_nothing_in_the_record(protocol: str) -> None:
    arguments = ["--kills", "4", *OF_PROTOCOLS[protocol]]
    done = subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr[-4_000:]
    assert "equal: trials, decisions, histories, final libraries" in done.stdout
    assert "'interrupted'" in done.stdout  # somebody was killed at work


@pytest.mark.slow
def test_killed_workers_change_nothing_in_a_qualification_that_stops_early(tmp_path: Path) -> None:
    """Which runs are left out follows from how earlier ones ended: whoever takes over must come to the same."""
    rules = {
        **{name: {"runs": 1} for name in ("solution", "untouched", "reference")},
        "no_skill": {"runs": 4, "at_most": 0.4},
    }
    file = write_file(load_suite("starter"), model="scripted/apprentice", rules=rules)
    (tmp_path / "file.yaml").write_text(yaml.safe_dump(file))
    arguments = ["--kills", "4", "--environment", "E1-LS1", "--file", str(tmp_path / "file.yaml")]
    done = subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr[-4_000:]
    assert "equal: trials, decisions, histories, final libraries" in done.stdout
    assert "'interrupted'" in done.stdout
    planned = 6 * (1 + 1 + 4 + 1)
    assert int(re.search(r"undisturbed: .*?(\d+) trials", done.stdout)[1]) < planned  # type: ignore[index]


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
