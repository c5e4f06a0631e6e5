"""Tables of an empty record on SQLite, kept as SQL: creating them takes a tenth of a second, running all migrations ten.

`manage.py migrate` creates them in a database without tables and then applies what is newer than the file. PostgreSQL runs the
migrations. `tools/empty_record.py` writes the file after a new migration; a test compares the two ways.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper

TABLES = Path(__file__).resolve().parents[1] / "migrations" / "empty_sqlite.sql"
BETWEEN = "\n\n"  # statements


def fill_empty(connection: BaseDatabaseWrapper) -> bool:
    """Create the tables if `connection` is a SQLite database that has none. Return whether it did."""
    if connection.vendor != "sqlite":
        return False
    # The transaction takes the write lock before it looks: another process may do the same.
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        if connection.introspection.table_names(cursor):
            return False
        for statement in TABLES.read_text().split(BETWEEN):
            cursor.execute(statement)
    return True


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
