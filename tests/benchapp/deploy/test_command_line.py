"""Commands say a failure of the machine in one line, and show no name that hides or pretends."""

from __future__ import annotations

import errno
import os
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from django.conf import settings
from django.db import DatabaseError, IntegrityError, OperationalError

from benchapp.deploy.command_line import CommandLine, run
from benchapp.record.error_text import describe_failure
from tests.benchapp.import_folders import job, write

ODD = "\u202egnp\u200b\x1b[31m"


def manage(
    var: Path | str, *words: object, before: Callable[[], None] | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("DJANGO_SETTINGS_MODULE", "DATABASE_URL")}
    return subprocess.run(
        [sys.executable, str(settings.BASE_DIR / "manage.py"), *map(str, words)],
        env={**kept, "SKILLGLASS_VAR": str(var), "LOG_LEVEL": "ERROR", **environment},
        cwd=settings.BASE_DIR,
        capture_output=True,
        text=True,
        preexec_fn=before,
    )


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    return line


@pytest.fixture(scope="module")
def var(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("var")
    assert manage(folder, "migrate", "-v0").returncode == 0
    return folder


@pytest.mark.slow
def test_a_database_that_cannot_be_opened_is_one_line(tmp_path: Path) -> None:
    for words in (("migrate",), ("episodes",), ("import_runs", tmp_path)):
        done = manage(tmp_path, *words, DATABASE_URL=f"sqlite:///{tmp_path}/none/record.sqlite3")
        assert one_line(done) == "The database cannot be opened: its folder is missing, full, closed or read-only"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/sys/kernel").exists(), reason="needs a folder in which nobody can write")
def test_a_folder_that_cannot_be_written_is_one_line() -> None:
    told = one_line(manage("/sys/kernel", "migrate"))
    assert told.startswith("/sys/kernel/")
    assert told.endswith((": Permission denied", ": Operation not permitted", ": Read-only file system"))


@pytest.mark.slow
def test_a_full_disk_is_one_line(var: Path, tmp_path: Path) -> None:
    """No file may grow: what the system says then is what a full disk makes of a write that was not foreseen."""

    def fill() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    done = manage(var, "import_runs", job(tmp_path / "job"), before=fill)
    assert one_line(done) == "The disk of the database cannot be read or written; it may be full"


@pytest.mark.slow
def test_a_locked_database_is_one_line(var: Path, tmp_path: Path) -> None:
    with sqlite3.connect(var / "skillglass.sqlite3", isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        done = manage(var, "import_runs", job(tmp_path / "job"))
        other.execute("ROLLBACK")
    told = "The database is locked: another process writes to it. Try again when that has ended"
    assert one_line(done) == told


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OperationalError("database or disk is full"), "The disk of the database is full"),
        (
            OperationalError('could not extend file "base/1": No space left on device\nHINT: x'),
            "The disk of the database is full",
        ),
        (
            OperationalError("attempt to write a readonly database"),
            "The database cannot be written: its file or folder is read-only",
        ),
        (DatabaseError("database disk image is malformed"), "The database is damaged"),
        (OperationalError("connection failed: refused"), "The database does not answer"),
        (OSError(errno.ENOSPC, "No space left on device", "/x/out.csv"), "/x/out.csv: No space left on device"),
        (PermissionError(errno.EACCES, "Permission denied", "/x"), "/x: Permission denied"),
        (IntegrityError("a connection"), ""),
        (OperationalError("no such column: x"), ""),
        (FileNotFoundError(errno.ENOENT, "No such file", "/x"), ""),
        (ValueError("x"), ""),
    ],
)
def test_what_failed_is_said_only_of_the_machine(error: Exception, told: str) -> None:
    assert describe_failure(error) == told


@pytest.mark.slow
def test_an_interrupted_command_ends_with_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(line: CommandLine) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(CommandLine, "execute", interrupt)
    with pytest.raises(SystemExit) as ended:
        run(["manage.py", "import_runs", "x"])
    assert (ended.value.code, capsys.readouterr().err) == (130, "\nInterrupted.\n")
    with pytest.raises(KeyboardInterrupt):
        run(["manage.py", "import_runs", "x", "--traceback"])


def test_names_in_what_a_command_prints_are_visible(var: Path, tmp_path: Path) -> None:
    folder = job(tmp_path / f"job{ODD}")
    write(folder / "sum-csv__0000002" / "verifier" / "reward.txt", f"ten{ODD}")
    done = manage(var, "import_runs", folder)
    assert "job⟨U+202E⟩gnp⟨U+200B⟩/sum-csv__0000002/verifier/reward.txt" in done.stdout
    assert not set("\u202e\u200b\x1b") & set(done.stdout + done.stderr)


@pytest.mark.slow
def test_an_empty_key_file_is_named(tmp_path: Path) -> None:
    """As a process leaves it that was stopped while it wrote the key."""
    (tmp_path / "secret_key").touch()
    told = manage(tmp_path, "check", SECRET_KEY="").stderr
    assert told.endswith(
        "/secret_key is empty: another process is writing it, or one was stopped; remove it if it stays so\n"
    )
