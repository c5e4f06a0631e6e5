"""New databases get their tables at once; those that an older version set up get the same, step by step."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from django.db.migrations.loader import MigrationLoader

from benchapp.management.commands.migrate import BETWEEN, TABLES
from tests.conftest import ROOT

IN_TESTS = ("DATABASE_URL", "DJANGO_SETTINGS_MODULE")
SQUASHED = "0001_squashed_0029_joined_suites.py"


def migrate(project: Path, var: Path, *target: str) -> dict[str, list[str]]:
    """name -> kind and words of each table, index and trigger; columns in no order,
    as later ones were added at the end."""
    var.mkdir(exist_ok=True)
    command = [sys.executable, "manage.py", "migrate", *target, "-v", "0", "--skip-checks"]
    outside = {name: value for name, value in os.environ.items() if name not in IN_TESTS}
    subprocess.run(command, cwd=project, env={**outside, "SKILLGLASS_VAR": str(var)}, check=True)
    with sqlite3.connect(var / "skillglass.sqlite3") as database:
        rows = database.execute("SELECT name, type, coalesce(sql, '') FROM sqlite_master").fetchall()
    return {name: [kind, *sorted(sql.replace(")", ",").split(","))] for name, kind, sql in rows}


def test_the_tables_of_an_empty_record_name_every_migration() -> None:
    named = [each.split("'")[1:4:2] for each in TABLES.read_text().split(BETWEEN) if "django_migrations (" in each]
    shipped = sorted(MigrationLoader(None, ignore_no_migrations=True).disk_migrations)
    assert sorted(map(tuple, named)) == shipped, "run: python tools/empty_record.py"


@pytest.mark.slow
def test_old_and_new_databases_have_the_same_tables(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "benchapp", tmp_path / "older" / "benchapp")
    shutil.copy(ROOT / "manage.py", tmp_path / "older")
    for name in ("runner", "inspector", "templates", "static"):
        (tmp_path / "older" / name).symlink_to(ROOT / name)
    older = tmp_path / "older" / "benchapp" / "migrations"
    later = {path: path.read_text() for path in older.glob("0*.py") if path.name == SQUASHED or path.name >= "0030"}
    for path in later:
        path.unlink()
    migrate(tmp_path / "older", tmp_path / "var", "benchapp", "0020")
    for path, content in later.items():  # the next version, which finds a database half-way
        path.write_text(content)
    assert migrate(tmp_path / "older", tmp_path / "var") == migrate(ROOT, tmp_path / "new")
