"""With several processes that read, the record is that of one, and no process is left over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from benchapp.imports import trial_rows
from benchapp.imports.batch import import_paths
from benchapp.imports.problems import ProblemList
from benchapp.imports.trial_rows import read_ahead
from benchapp.models import Experiment
from benchapp.record.record_digest import record_digest
from tests.benchapp.import_folders import job, trial, write

REPOSITORY = Path(__file__).resolve().parents[3]


def told(folder: Path, processes: int) -> tuple[str, dict[str, object]]:
    """(digest of the record, report) of an import into an empty record."""
    Experiment.objects.all().delete()
    report = import_paths([folder], processes=processes)
    return record_digest(Experiment.objects.get()), report.as_json()


@pytest.fixture
def odd_job(tmp_path: Path) -> Path:
    """Seven trials; of one the verifier's report is odd, another one has no result."""
    folder = job(tmp_path / "job", trials=7)
    write(folder / "sum-csv__0000002" / "verifier" / "reward.txt", "ten")
    (folder / "sum-csv__0000005" / "result.json").unlink()
    return folder


@pytest.mark.django_db
@pytest.mark.parametrize("processes", [2, 3, 20])
def test_the_record_the_counts_and_the_problems_are_those_of_one_process(odd_job, processes):
    alone = told(odd_job, 1)
    assert alone[1]["problems"]
    assert told(odd_job, processes) == alone


@pytest.mark.django_db
def test_they_read_new_trials_and_the_import_none(odd_job, monkeypatch):
    report = import_paths([odd_job / "sum-csv__0000001"])
    assert report.counts["created"] == 1
    readings = []
    receive = trial_rows.ReadingProcess.receive
    monkeypatch.setattr(
        trial_rows.ReadingProcess, "receive", lambda self: readings.append(receive(self)) or readings[-1]
    )
    assert import_paths([odd_job], processes=2).counts["created"] == 6
    assert sorted(reading is None for reading in readings) == 6 * [False] + [True]


@pytest.mark.django_db
def test_what_a_process_does_not_give_the_import_reads_itself(odd_job, monkeypatch):
    alone, here = told(odd_job, 1), os.getpid()
    read_short = trial_rows._read_short

    def end_or_fail(found, *rest):
        if os.getpid() != here and found.path.endswith("3"):
            os._exit(1)
        if found.path.endswith("4"):
            raise ValueError("odd")
        return read_short(found, *rest)

    monkeypatch.setattr(trial_rows, "_read_short", end_or_fail)
    assert told(odd_job, 2) == alone


@pytest.mark.django_db
def test_a_long_source_is_left_to_the_import(odd_job, monkeypatch):
    alone = told(odd_job, 1)
    monkeypatch.setattr(trial_rows, "IN_MEMORY_BYTES", 10)
    assert told(odd_job, 2) == alone


def test_they_end_when_nobody_waits_for_them(monkeypatch):
    monkeypatch.setattr(trial_rows, "_read_short", lambda *given: None)
    pids = []
    fork = os.fork
    monkeypatch.setattr(os, "fork", lambda: pids.append(fork()) or pids[-1])
    with closing(read_ahead([None] * 9, [True] * 9, ProblemList(), 2)) as ahead:
        assert next(ahead) is None
    assert len(pids) == 2
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.slow
def test_they_end_with_an_import_that_is_killed(tmp_path):
    folder = tmp_path / "job"
    for number in range(1, 201):
        trial(folder, number)
    environment = {**os.environ, "SKILLGLASS_VAR": str(tmp_path / "var")}
    environment.pop("DATABASE_URL", None)
    manage = [sys.executable, str(REPOSITORY / "manage.py")]
    subprocess.run([*manage, "migrate", "-v0"], env=environment, check=True, cwd=REPOSITORY)
    command = [*manage, "import_runs", str(folder), "--jobs", "2"]
    importing = subprocess.Popen(command, env=environment, cwd=REPOSITORY, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while len(_processes_about(folder)) < 3 and time.monotonic() < deadline:
        assert importing.poll() is None, "it ended before it could be killed"
        time.sleep(0.01)
    importing.send_signal(signal.SIGKILL)
    importing.wait()
    while _processes_about(folder) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _processes_about(folder)


def _processes_about(folder: Path) -> list[str]:
    """Ids of processes whose command names the folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if str(folder).encode() in (entry / "cmdline").read_bytes():
                found.append(entry.name)
        except OSError:
            continue
    return found


@pytest.mark.parametrize("jobs", [0, -1])
def test_fewer_than_one_process_is_refused(jobs):
    with pytest.raises(CommandError, match="--jobs: expected a number from 1, found"):
        call_command("import_runs", "nowhere", jobs=jobs)
