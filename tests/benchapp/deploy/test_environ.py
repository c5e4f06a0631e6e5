from __future__ import annotations

import pytest

from benchapp.deploy.environ import parse_database


def test_a_database_may_have_two_hosts_each_with_a_port():
    parsed = parse_database("postgresql://team:a%40b@one:5433,two:5434/record?target_session_attrs=read-write")
    assert (parsed["HOST"], parsed["PORT"]) == ("one,two", "5433,5434")
    assert (parsed["USER"], parsed["PASSWORD"], parsed["NAME"]) == ("team", "a@b", "record")
    assert parsed["OPTIONS"] == {"target_session_attrs": "read-write"}


@pytest.mark.parametrize(
    ("hosts", "ports"), [("one,two", "5432,5432"), ("one,two:5433", "5432,5433"), ("one:5433,two", "5433,5432")]
)
def test_a_host_without_a_port_has_the_usual_one(hosts: str, ports: str):
    assert parse_database(f"postgresql://{hosts}/record")["PORT"] == ports


def test_one_host_and_a_file_are_as_before():
    assert parse_database("postgresql://one:5433/record")["PORT"] == 5433
    assert parse_database("sqlite:////tmp/record.sqlite3")["NAME"] == "/tmp/record.sqlite3"
