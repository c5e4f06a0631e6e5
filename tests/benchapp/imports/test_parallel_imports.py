"""Four processes import the same runs at once: the record is that of one import, whatever the moment."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType

import pytest
from django.core.management import call_command

from benchapp.imports import batch
from tests.benchapp.import_folders import JOB_ID, trial, write
from tests.conftest import SHARED_DATA

SCRIPT = Path(__file__).resolve().parents[3] / "lab" / "parallel_imports.py"
EQUAL = "rounds: equal digests, no holes, no traceback"
POSTGRESQL = [pytest.mark.postgresql]
DATABASES = [pytest.param("sqlite", id="sqlite"), pytest.param("postgresql", id="postgresql", marks=POSTGRESQL)]
# Either race on one database each time, both on both with FULL=1: a race takes a dozen processes.
SQLITE_FIRST = [DATABASES[0], pytest.param("postgresql", id="postgresql", marks=[*POSTGRESQL, pytest.mark.full])]
POSTGRESQL_FIRST = [pytest.param("sqlite", id="sqlite", marks=pytest.mark.full), DATABASES[1]]


def race(database: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    server = ["--database", os.environ["TEST_POSTGRESQL_URL"]] if database == "postgresql" else []
    outside = {name: value for name, value in os.environ.items() if name != "REDIS_URL"}
    command = [sys.executable, str(SCRIPT), *map(str, arguments), *server]
    return subprocess.run(command, env=outside, capture_output=True, text=True)


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    """Two jobs of one suite, so that they share tasks; each has many samples of one task, written in no order."""
    for place, ident in enumerate((JOB_ID, JOB_ID.replace("1", "2"))):
        folder = tmp_path / "jobs" / f"job-{place}"
        write(folder / "config.json", {"job_name": folder.name, "jobs_dir": "/jobs", "agents": [{"name": "tester"}]})
        write(folder / "result.json", {"id": ident, "n_total_trials": 30, "stats": {}, "finished_at": None})
        for number in range(30):
            start = f"2026-03-01T10:{number * 7 % 60:02d}:00Z"
            found = trial(folder, place * 30 + number + 1, started_at=start, finished_at=start.replace(":00Z", ":30Z"))
            for name in ("result.json", "config.json"):
                write(found / name, (found / name).read_text().replace(JOB_ID, ident))
    return tmp_path / "jobs"


@pytest.mark.slow
@pytest.mark.parametrize("database", POSTGRESQL_FIRST)
def test_four_imports_of_one_folder_leave_the_record_of_one(database: str, jobs: Path) -> None:
    done = race(database, jobs, "--rounds", 1)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"1 {EQUAL}" in done.stdout
    assert "60 trials" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("database", SQLITE_FIRST)
def test_imports_of_a_parent_and_of_its_child_leave_it_too_when_one_is_killed(database: str, jobs: Path) -> None:
    done = race(database, jobs, jobs / "job-1", "--rounds", 1, "--kill")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"1 {EQUAL}" in done.stdout
    assert done.stdout.count("killed after") == 1


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.shared_data
@pytest.mark.parametrize("database", DATABASES)
def test_so_do_imports_of_real_runs(database: str) -> None:
    done = race(database, SHARED_DATA / "harbor", SHARED_DATA / "harbor" / "oracle-all", "--rounds", 1)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"1 {EQUAL}" in done.stdout


# --- the turn -------------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_an_import_says_in_one_line_whom_it_waits_for(tmp_path, monkeypatch, capsys):
    """The other one is another lock on the same file, as another process would hold it."""
    database = tmp_path / "record.sqlite3"
    monkeypatch.setattr(batch, "turn", lambda waiting: batch._turn_beside(database, waiting))
    trial(tmp_path / "job")
    with database.with_name(f"{database.name}{batch.ENDING}").open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        release = threading.Timer(0.5, lambda: fcntl.flock(other, fcntl.LOCK_UN))
        release.start()
        call_command("import_runs", str(tmp_path / "job"))
        release.join()
    told = [line for line in capsys.readouterr().err.splitlines() if "waits" in line]
    assert told == ["Another import is running; this one waits until it ends."]


# --- the check itself -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def script() -> ModuleType:
    found = importlib.util.spec_from_file_location("parallel_imports", SCRIPT)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_the_check_sees_holes_and_repetitions(script: ModuleType) -> None:
    assert not list(script.holes([("a", 1), ("a", 0), ("b", 0)]))
    assert list(script.holes([("a", 0), ("a", 2)]))
    assert list(script.holes([("a", 0), ("a", 0)]))


def test_the_check_sees_another_digest_and_another_experiment(script: ModuleType) -> None:
    assert not list(script.differences({"x": "1"}, {"x": "1"}))
    assert list(script.differences({"x": "1"}, {"x": "2"}))
    assert list(script.differences({"x": "1"}, {}))
    assert list(script.differences({}, {"x": "1"}))
