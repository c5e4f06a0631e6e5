"""Real files from outside that once broke a reader: each log is read, and what is none is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchapp.models import Attempt, Task, Trajectory, Trial
from tests.benchapp.import_folders import bring_in

CONTACT = Path(__file__).resolve().parents[3].parent / "shared" / "contact"
LOGS = {
    "swe-agent/function_calling_simple.traj": ("swe-agent", "swe-agent", 7),
    "mini-swe-agent/github_issue.traj.json": ("mini-swe-agent", "mini-swe-agent", 12),
    "mini-swe-agent/local.traj.json": ("mini-swe-agent", "mini-swe-agent", 4),
    "claude-code/session-with-agent-progress.jsonl": ("claude-session", "claude-code", None),
}

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.shared_data,
    pytest.mark.skipif(not CONTACT.is_dir(), reason="needs the files of first contact beside the project"),
]


@pytest.mark.parametrize("name", LOGS)
def test_it_reads_each_log_alone(name):
    source_format, harness, steps = LOGS[name]
    bring_in(CONTACT / name)
    main = Trajectory.objects.get(kind="main")
    assert (main.source_format, main.attempt.trial.episode.run.harness) == (source_format, harness)
    assert main.steps_total == steps if steps else main.steps_total >= 10
    assert Trial.objects.get().is_done


def test_it_reads_the_whole_folder_and_tells_what_is_no_log():
    folders = [CONTACT / name for name in ("claude-code", "mini-swe-agent", "skilllearnbench", "swe-agent")]
    report = bring_in(*folders)
    assert Trial.objects.count() == len(LOGS)
    told = [problem for problem in report.problems if problem.expected == "logs in a known format"]
    assert ["query_params.json" in problem.message for problem in told] == [True]
    again = bring_in(*folders)
    assert (again.counts["created"], again.counts["changed"]) == (0, 0)
    assert again.counts["unchanged"] == Attempt.objects.count()


def test_it_titles_the_session_by_a_request():
    bring_in(CONTACT / "claude-code")
    assert not Task.objects.get().title.startswith(("[", "<", "#", "Caveat", "session"))
