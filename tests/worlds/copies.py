"""Worlds that many tests of a module begin with."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from django.db import connection, transaction
from django.db.models import Model

from benchapp.models import Run

Made = TypeVar("Made", bound=Model | None)
Rows = dict[str, list[tuple[Any, ...]]]  # table -> its rows, columns as they stand in the table


def built_once(build: Callable[[], Made]) -> Callable[[], Made]:
    """Build a world for the first test that asks for it, and insert the same rows for the others.

    Copied runs get new revisions, because caches that outlive a test hold what an earlier test made of theirs.
    PostgreSQL's sequences would not follow copied ids, and in a database that already has rows the ids may be taken:
    there the world is built again.
    """
    copied: Rows = {}
    first: list[Made] = []

    @wraps(build)
    def world() -> Made:
        before = _read_rows() if connection.vendor == "sqlite" else {}
        if connection.vendor != "sqlite" or any(map(_is_of_tests, before)):
            return build()
        if not first:
            first.append(build())
            copied.update((table, rows) for table, rows in _read_rows().items() if table not in before)
        else:
            _insert_rows(copied)
        made = first[0]
        return made if made is None else type(made)._default_manager.get(pk=made.pk)

    return world


def _is_of_tests(table: str) -> bool:
    """Whether rows of this table were made by a test, not by Django's own migrations."""
    return not table.startswith(("django_", "auth_"))


def _read_rows() -> Rows:
    with connection.cursor() as cursor:
        found = {}
        for table in connection.introspection.django_table_names(only_existing=True, include_views=False):
            if rows := cursor.execute(f'SELECT * FROM "{table}"').fetchall():
                found[table] = rows
        return found


def _insert_rows(rows_of: Rows) -> None:
    with transaction.atomic(), connection.cursor() as cursor:  # rows may point at later ones until it ends
        for table, rows in rows_of.items():
            places = ", ".join(["%s"] * len(rows[0]))
            cursor.executemany(f'INSERT INTO "{table}" VALUES ({places})', rows)
    Run.objects.touch()
