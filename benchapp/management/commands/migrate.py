from __future__ import annotations

from django.core.management.commands import migrate
from django.db import connections

from benchapp.deploy.empty_record import fill_empty


class Command(migrate.Command):
    """Django's `migrate`, which begins an empty SQLite database with the tables that `empty_record.py` keeps."""

    def handle(self, *args: object, **options: object) -> None:
        is_partial = options["app_label"] or options["plan"] or options["check_unapplied"] or options["fake"]
        if not is_partial and fill_empty(connections[str(options["database"])]) and options["verbosity"]:
            self.stdout.write("Created the tables of an empty record.")
        super().handle(*args, **options)
