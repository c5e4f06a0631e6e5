"""Write `benchapp/migrations/empty_sqlite.sql` from the migrations: python tools/empty_record.py, after a new one."""

from __future__ import annotations

import os
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        os.environ.pop("DATABASE_URL", None)
        os.environ |= {"SKILLGLASS_VAR": folder, "DJANGO_SETTINGS_MODULE": "benchapp.settings"}
        sys.path.insert(0, str(ROOT))
        import django
        from django.core.management import call_command
        from django.core.management.commands.migrate import Command  # Django's, which does not read the file

        django.setup()
        from benchapp.management.commands.migrate import BETWEEN, TABLES

        call_command(Command(), interactive=False, verbosity=0)
        written = Path(sys.argv[1]) if len(sys.argv) > 1 else TABLES
        written.write_text(BETWEEN.join(list_statements(Path(folder) / "skillglass.sqlite3")))
    return 0


def list_statements(database: Path) -> Iterator[str]:
    """Yield what creates the tables of `database`, and the rows that name the migrations behind them."""
    with sqlite3.connect(database) as connection:
        created = list(connection.execute("SELECT name, sql FROM sqlite_master WHERE sql NOT NULL ORDER BY rowid"))
        virtual = tuple(f"{name}_" for name, sql in created if sql.startswith("CREATE VIRTUAL TABLE"))
        for name, sql in created:
            if not name.startswith(("sqlite_", *virtual)):  # those come with the others
                yield "\n".join(filter(None, sql.splitlines()))
        for app, name in connection.execute("SELECT app, name FROM django_migrations ORDER BY id"):
            yield f"INSERT INTO django_migrations (app, name, applied) VALUES ('{app}', '{name}', datetime('now'))"


if __name__ == "__main__":
    sys.exit(main())
