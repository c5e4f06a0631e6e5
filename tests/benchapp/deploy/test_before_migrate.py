"""Commands on a database that nobody set up say what to do, in one line."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings

SUITE = "examples/suites/skillflow"
SQUASHED = "0001_squashed_0029_joined_suites"

pytestmark = pytest.mark.slow  # every test starts processes, and they migrate a database of their own


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    var = tmp_path / "var"
    return {
        **{name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"},
        "SKILLGLASS_VAR": str(var),
        "DATABASE_URL": f"sqlite:///{tmp_path}/fresh.sqlite3",
        "REDIS_URL": "redis://127.0.0.1:1/0",  # no broker is there either
    }


def manage(environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(settings.BASE_DIR / "manage.py"), *words]
    return subprocess.run(command, env=environment, cwd=settings.BASE_DIR, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("command", ["episodes", "sweep", "work"])
def test_a_command_before_migrate_says_so_in_one_line(environment: dict[str, str], command: str) -> None:
    done = manage(environment, command)
    assert done.returncode == 1
    assert done.stderr == "The database is not set up yet: run manage.py migrate\n"


def test_a_database_of_an_older_version_is_told_apart(environment: dict[str, str]) -> None:
    assert manage(environment, "migrate", "--verbosity", "0").returncode == 0
    with sqlite3.connect(environment["DATABASE_URL"].removeprefix("sqlite:///")) as database:
        database.execute("DELETE FROM django_migrations WHERE name IN (?, '0029_joined_suites')", (SQUASHED,))
        database.execute("ALTER TABLE benchapp_taskrevision DROP COLUMN foreign_digests")
    done = manage(environment, "load_suite", SUITE)
    assert done.returncode == 1
    assert done.stderr.startswith("The database is behind this version (")
    assert done.stderr.endswith(" not applied): run manage.py migrate\n")


def test_whoever_asks_for_the_traceback_gets_it(environment: dict[str, str]) -> None:
    assert "Traceback (most recent call last)" in manage(environment, "episodes", "--traceback").stderr
