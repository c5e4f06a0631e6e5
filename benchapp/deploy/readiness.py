"""Can this process do its work now? A load balancer or an orchestrator asks before it sends requests here."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cache

from django.conf import settings
from django.core.management import call_command
from django.db import DEFAULT_DB_ALIAS, DatabaseError, connections
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from benchapp.deploy import embedded_broker
from runner.base.var_folder import MANAGE

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReadinessCheck:
    """One requirement. `missing` is in our own words: errors of clients name hosts and users."""

    name: str
    missing: str = ""

    @property
    def is_met(self) -> bool:
        return not self.missing


def checks() -> list[ReadinessCheck]:
    """Check database, migrations and broker. Never raises for what cannot be reached."""
    is_met = embedded_broker.answers(settings.REDIS_URL)
    return [*_database(), ReadinessCheck("broker", "" if is_met else "does not answer")]


def _database() -> list[ReadinessCheck]:
    try:
        left = len(_list_shipped() - _read_applied())
    except (DatabaseError, OSError) as error:
        log.warning("not ready: cannot reach the database: %s", error)
        connections[DEFAULT_DB_ALIAS].close()
        return [
            ReadinessCheck("database", "does not answer"),
            ReadinessCheck("migrations", "unknown without the database"),
        ]
    return [
        ReadinessCheck("database"),
        ReadinessCheck("migrations", f"{left} not applied: run {MANAGE} migrate" if left else ""),
    ]


def what_migrate_would_mend() -> str:
    """Return a line for a command that misses a table; "" if no migration is missing or the database is offline."""
    try:
        applied = _read_applied()
    except (DatabaseError, OSError):
        return ""
    left = len(_list_shipped() - applied)
    if not left:
        return ""
    if not _is_set_up(applied):
        return f"The database is not set up yet: run {MANAGE} migrate"
    return f"The database is behind this version ({left} not applied): run {MANAGE} migrate"


def set_up_once() -> None:
    """Migrate a database that nobody has set up. An older version stays as it is."""
    if not _is_set_up(_read_applied()):
        call_command("migrate", interactive=False, verbosity=0)


def _is_set_up(applied: set[tuple[str, str]]) -> bool:
    return any(app == "benchapp" for app, _ in applied)


def _read_applied() -> set[tuple[str, str]]:
    return set(MigrationRecorder(connections[DEFAULT_DB_ALIAS]).applied_migrations())


@cache
def _list_shipped() -> frozenset[tuple[str, str]]:
    """Return (app, name) of every migration of this version; files do not change while a process lives."""
    return frozenset(MigrationLoader(None, ignore_no_migrations=True).graph.nodes)
