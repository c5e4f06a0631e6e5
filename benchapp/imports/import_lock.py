"""Make imports take turns: one writes at a time, the others wait.

Sample numbers, titles and the experiment of a trial depend on what is already recorded. Two imports of the same runs
that write at once would number samples by chance.

The lock ends with its process, even after kill -9. On PostgreSQL it is an advisory lock of the session, on SQLite a
lock on a file next to the database. A database in memory has one process and needs no lock.
"""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from django.db import connection

LOCK = 0x696D706F727473  # "imports": one key per database
ENDING = "-imports.lock"


def turn(waiting: Callable[[], None]) -> AbstractContextManager[None]:
    """Hold the database for one import. `waiting` is called once where another import must end first."""
    connection.ensure_connection()  # a database that cannot be opened raises its own error
    if connection.vendor == "postgresql":
        return _turn_on_server(waiting)
    if connection.is_in_memory_db():  # type: ignore[attr-defined]
        return nullcontext()
    return _turn_beside(Path(connection.settings_dict["NAME"]), waiting)


@contextmanager
def _turn_on_server(waiting: Callable[[], None]) -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [LOCK])
        is_free = cursor.fetchone()[0]
    if not is_free:
        waiting()
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(%s)", [LOCK])
    try:
        yield
    finally:
        if connection.is_usable():
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [LOCK])


@contextmanager
def _turn_beside(database: Path, waiting: Callable[[], None]) -> Iterator[None]:
    with database.with_name(database.name + ENDING).open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
