"""Write `benchapp/migrations/empty_sqlite.sql` from the migrations: python tools/empty_record.py, after a new one."""

from __future__ import annotations

import os
import sys
import tempfile
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
        from benchapp.deploy.empty_record import BETWEEN, TABLES, list_statements

        call_command(Command(), interactive=False, verbosity=0)
        written = Path(sys.argv[1]) if len(sys.argv) > 1 else TABLES
        written.write_text(BETWEEN.join(list_statements(Path(folder) / "skillglass.sqlite3")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
