"""Connections to PostgreSQL for a process of many threads: a few for all, each given back when a thread will wait.

SQLite has no server to protect: there every thread keeps its own.
"""

from __future__ import annotations

from django.db import connection, connections

MOST_CONNECTIONS = 16
# The pool waits twice as long before each try to connect, up to this. Without the limit, threads would wait for another
# minute after a server that was gone for one.
RECONNECT_SECONDS = 5


def share_connections() -> None:
    """Use a pool in this process. Call it before the first query, and never before a fork."""
    settings = connections.settings["default"]
    if settings["ENGINE"].endswith("postgresql"):
        settings["OPTIONS"] = {
            **settings["OPTIONS"],
            "pool": {
                "min_size": 0,
                "max_size": MOST_CONNECTIONS,
                "reconnect_timeout": RECONNECT_SECONDS,
                "reconnect_failed": lambda pool: pool.check(),  # begins to connect again
            },
        }
        settings["CONN_MAX_AGE"] = 0  # closing gives back


def give_back() -> None:
    """Give this thread's connection to the pool, if there is one. Inside a transaction it stays."""
    if connection.settings_dict["OPTIONS"].get("pool") and not connection.in_atomic_block:
        connection.close()
