"""Counting queries: a page may not ask more of the database because there is more in it."""

from __future__ import annotations

from collections.abc import Callable

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from inspector.web.access import local_user


def count_queries(client: Client, url: str) -> int:
    with CaptureQueriesContext(connection) as captured:
        response = client.get(url)
    assert response.status_code == 200, f"{url}: {response.status_code}"
    return len(captured)


def assert_queries_flat(client: Client, url: str, make: Callable[[int], object]) -> int:
    """`make(n)` adds n rows. Returns the count, which must be the same for 2 and for 12."""
    local_user()  # made at the first request, by three more queries
    make(2)
    small = count_queries(client, url)
    make(10)
    large = count_queries(client, url)
    assert small == large, f"{url}: {small} queries for 2 rows, {large} for 12"
    return large
