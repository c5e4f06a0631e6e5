"""A database that the network cut off: who waits for it gives up, and what it held is let go of."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
ASK = """
import django
django.setup()
from django.db import connection
with connection.cursor() as cursor:
    for name in ("tcp_user_timeout", "tcp_keepalives_idle", "jit"):
        cursor.execute(f"SHOW {name}")
        print(cursor.fetchone()[0])
print(connection.connection.info.get_parameters()["tcp_user_timeout"])
"""


def ask(url: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "benchapp.settings"}
    return subprocess.run(
        [sys.executable, "-c", ASK], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60
    )


def test_a_server_that_never_answers_is_given_up_within_seconds():
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it takes the connection, and that is all
        began = time.monotonic()
        done = ask(f"postgresql://somebody@127.0.0.1:{silent.getsockname()[1]}/nothing")
    assert "OperationalError" in done.stderr
    assert time.monotonic() - began < 30


@pytest.mark.postgresql
def test_both_sides_of_a_connection_look_after_the_other():
    done = ask(os.environ["TEST_POSTGRESQL_URL"])
    assert done.stdout.split() == ["20000", "10", "off", "20000"], done.stderr


@pytest.mark.postgresql
def test_the_address_of_the_database_may_say_otherwise():
    url = os.environ["TEST_POSTGRESQL_URL"]
    done = ask(f"{url}{'&' if '?' in url else '?'}tcp_user_timeout=60000")
    assert done.stdout.split() == ["20000", "10", "off", "60000"], done.stderr


@pytest.mark.postgresql
def test_of_two_hosts_the_one_that_answers_is_used():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        nobody = probe.getsockname()[1]  # nobody listens there once it is closed
    login, _, rest = os.environ["TEST_POSTGRESQL_URL"].rpartition("@")
    more = "&" if "?" in rest else "?"
    done = ask(f"{login}@127.0.0.1:{nobody},{rest}{more}target_session_attrs=read-write")
    assert done.stdout.split() == ["20000", "10", "off", "20000"], done.stderr
