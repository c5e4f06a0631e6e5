"""Runs of terminal-bench 1: rows, trial folders, and the three places where an agent's work may be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchapp.imports.batch import import_paths
from benchapp.imports.format_check import check_format
from benchapp.imports.logs import terminal_bench
from benchapp.models import Run, Trajectory, Trial
from benchapp.record.trajectory_store import read_steps
from tests.benchapp.import_folders import write

pytestmark = pytest.mark.django_db
METADATA = {
    "run_id": "run-1",
    "dataset_name": "core",
    "dataset_version": "0.1",
    "agent_name": "terminus",
    "model_name": "lab/model-1",
    "n_concurrent_trials": 4,
    "username": "dev",
}


def row(number: int, **changes: Any) -> dict[str, Any]:
    found = {
        "id": f"00000000-0000-4000-8000-{number:012d}",
        "trial_name": f"fix-git.{number}-of-4.run-1",
        "task_id": "fix-git",
        "instruction": "Bring my changes back.",
        "is_resolved": True,
        "failure_mode": "unset",
        "parser_results": {"test_file": "passed", "test_branch": "passed"},
        "recording_path": None,
        "total_input_tokens": 900,
        "total_output_tokens": 80,
        "trial_started_at": "2026-03-01T10:00:00+00:00",
        "trial_ended_at": "2026-03-01T10:02:00+00:00",
        "agent_started_at": "2026-03-01T10:00:10+00:00",
        "agent_ended_at": "2026-03-01T10:01:10+00:00",
        "test_started_at": "2026-03-01T10:01:20+00:00",
        "test_ended_at": "2026-03-01T10:01:50+00:00",
    }
    return {**found, **changes}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Trial 1: episodes of Terminus. 2: a stream on the terminal, timed out. 3: a recording, tests timed out.
    4: a row only."""
    folder = tmp_path / "runs" / "run-1"
    rows = [
        row(1),
        row(2, is_resolved=False, failure_mode="agent_timeout", parser_results={"a": "failed", "b": "passed"}),
        row(
            3,
            is_resolved=None,
            failure_mode="test_timeout",
            parser_results=None,
            total_input_tokens=0,
            total_output_tokens=0,
        ),
        row(4),
    ]
    write(folder / "run_metadata.json", METADATA)
    write(folder / "results.json", {"id": "r", "results": rows, "accuracy": 0.5})
    first, second, third = (folder / "fix-git" / each["trial_name"] for each in rows[:3])
    for path, content in zip((first, second, third), rows[:3], strict=True):
        write(path / "results.json", content)
    answer = {"analysis": "It is in the reflog.", "commands": [{"keystrokes": "git reflog\n"}], "task_complete": False}
    write(first / "agent-logs/episode-0/prompt.txt", "Bring my changes back.")
    write(first / "agent-logs/episode-0/response.json", answer)
    write(first / "agent-logs/episode-1/prompt.txt", "abc HEAD@{1}")
    write(first / "panes/post-test.txt", "\x1b[32m2 passed\x1b[0m\n")
    message = {"id": "m", "role": "assistant", "content": [{"type": "text", "text": "Done."}], "usage": {}}
    events = [
        {"type": "system", "subtype": "init", "session_id": "s", "model": "lab/model-1", "tools": []},
        {"type": "assistant", "session_id": "s", "message": message},
    ]
    printed = "\r\n".join(["root@a:/app# claude -p", *map(json.dumps, events), "root@a:/app# "])
    write(second / "sessions/agent.log", f"\x1b[?2004h{printed}")
    cast = [{"version": 2, "width": 80}, [0.1, "o", "root@a:/app# ls\r\n"], [0.2, "i", "x"], [0.3, "o", "a b\r\n"]]
    write(third / "sessions/agent.cast", "".join(f"{json.dumps(line)}\n" for line in cast))
    return folder


def steps(number: int) -> list[tuple[str, str, int]]:
    trajectory = Trajectory.objects.get(attempt__source_key=f"terminal-bench:{row(number)['id']}")
    return [(each.step.source, each.step.message, len(each.step.tool_calls)) for each in read_steps(trajectory, 1, 9)]


def test_rows_are_trials_with_what_the_tests_found(run: Path) -> None:
    assert list(import_paths([run]).problems) == []
    found = Trial.objects.order_by("sample")
    assert list(found.values_list("success", "input_tokens")) == [(True, 900), (False, 900), (None, None), (True, 900)]
    assert [trial.exception_type for trial in found] == ["", "agent_timeout", "test_timeout", ""]
    assert Run.objects.values_list("harness", "agent_model").get() == ("terminus", "lab/model-1")
    assert import_paths([run.parent]).counts["unchanged"] == 4


@pytest.mark.parametrize("format", ["auto", "terminal-bench"])
def test_the_results_of_several_runs_may_be_all_there_is(tmp_path: Path, run: Path, format: str) -> None:
    """As people hand in to its leaderboard: the results of each run, in files named after their start."""
    folder = tmp_path / "goose"
    for day in (1, 2):
        rows = [row(day * 10, is_resolved=day == 1), row(day * 10 + 1)]
        write(folder / f"2026-03-0{day}__results.json", {"results": rows, "accuracy": 0.5})
    assert list(import_paths([folder], format=format).problems) == []
    found = Trial.objects.order_by("pk").values_list("episode__run__setup__run", "success")
    assert list(found) == [("2026-03-01", True), ("2026-03-01", True), ("2026-03-02", False), ("2026-03-02", True)]
    import_paths([tmp_path], format=format)
    assert (Trial.objects.count(), Run.objects.count()) == (8, 3)


def test_the_agent_s_own_log_comes_before_its_terminal(run: Path) -> None:
    import_paths([run])
    assert steps(1) == [
        ("user", "Bring my changes back.", 0),
        ("agent", "Analysis: It is in the reflog.", 1),
        ("agent", "", 0),
    ]
    assert steps(2) == [("agent", "Done.", 0)]
    assert steps(3) == [("agent", "root@a:/app# ls\na b", 0)]
    assert not Trajectory.objects.filter(attempt__source_key__endswith=row(4)["id"]).exists()


def test_an_interrupted_run_keeps_its_trials(run: Path) -> None:
    (run / "results.json").unlink()
    (run / "fix-git" / row(2)["trial_name"] / "results.json").unlink()
    (problem,) = import_paths([run]).problems
    assert problem.message == "none that can be read: it is unfinished"
    assert Trial.objects.count() == 3


def test_a_trial_given_alone_is_in_the_same_experiment(run: Path) -> None:
    import_paths([run])
    report = import_paths([run / "fix-git" / row(1)["trial_name"]])
    assert Trial.objects.count() == 4
    assert list(report.problems) == []


def test_the_format_s_check_finds_nothing(run: Path) -> None:
    assert check_format(terminal_bench, [run]).faults == []
