"""Tables of an empty record on SQLite, kept as SQL: creating them takes a tenth of a second, running all migrations
ten.

`manage.py migrate` creates them in a database without tables and then applies what is newer than the file. PostgreSQL
runs the migrations. `tools/empty_record.py` writes the file after a new migration; a test compares the two ways.
"""

from __future__ import annotations

from pathlib import Path

from django.core.management.commands import migrate
from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

TABLES = Path(__file__).resolve().parents[2] / "migrations" / "empty_sqlite.sql"
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


class Command(migrate.Command):
    """Django's `migrate`, which begins an empty SQLite database with the tables kept as SQL."""

    def handle(self, *args: object, **options: object) -> None:
        is_partial = options["app_label"] or options["plan"] or options["check_unapplied"] or options["fake"]
        if not is_partial and fill_empty(connections[str(options["database"])]) and options["verbosity"]:
            self.stdout.write("Created the tables of an empty record.")
        super().handle(*args, **options)
