from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client

from benchapp.deploy.log_format import JsonLine, Line
from benchapp.record import log_context
from tests.worlds.factories import make_user

LOGGER = "inspector.web.middleware"


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """What was logged, with ids as a real handler adds them."""
    ids = log_context.AddIds()
    caplog.set_level(logging.INFO)
    caplog.handler.addFilter(ids)
    yield caplog
    caplog.handler.removeFilter(ids)


def told(lines: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [json.loads(JsonLine().format(record)) for record in lines.records if record.name == LOGGER]


@pytest.mark.django_db
def test_it_writes_one_line_per_request_with_an_id_that_goes_back(
    client: Client, lines: pytest.LogCaptureFixture, settings: Any
) -> None:
    settings.SINGLE_USER = False
    user = make_user(username="ada")
    client.force_login(user)
    response = client.get("/imports/?q=secret")
    (line,) = told(lines)
    assert (line["method"], line["path"], line["status"], line["user"]) == ("GET", "/imports/", 200, str(user.pk))
    assert line["request"] == response["X-Request-ID"]
    assert line["milliseconds"] > 0
    assert "secret" not in json.dumps(line)
    assert "ada" not in json.dumps(line)


@pytest.mark.django_db
def test_it_takes_a_sane_id_and_no_other(client: Client) -> None:
    assert client.get("/nowhere/", headers={"X-Request-ID": "abcd-1234.x"})["X-Request-ID"] == "abcd-1234.x"
    for strange in ("short", "a" * 65, "with space and more", "line\nbreak-12345", "{json}12345"):
        given = client.get("/nowhere/", headers={"X-Request-ID": strange})["X-Request-ID"]
        assert len(given) == 32
        assert given != strange


@pytest.mark.django_db
def test_no_path_can_write_a_line_of_its_own(client: Client, lines: pytest.LogCaptureFixture) -> None:
    client.get("/x%0aERROR benchapp broken/")
    (line,) = told(lines)
    assert line["path"] == "/x%0AERROR%20benchapp%20broken/"


@pytest.mark.django_db
def test_requests_after_each_other_share_no_id(client: Client, lines: pytest.LogCaptureFixture) -> None:
    client.get("/imports/")
    client.get("/login/")
    first, second = told(lines)
    assert first["request"] != second["request"]
    assert "user" in first
    assert "user" not in second
    assert log_context.present() == {}


@pytest.mark.django_db
def test_probes_stay_out_of_the_log(client: Client, lines: pytest.LogCaptureFixture) -> None:
    client.get("/healthz")
    assert told(lines) == []


def record(message: str, **extra: Any) -> logging.LogRecord:
    made = logging.LogRecord("benchapp.experiments.work.advance", logging.WARNING, __file__, 1, message, (), None)
    made.__dict__.update(extra)
    log_context.AddIds().filter(made)
    return made


def test_lines_carry_the_ids_of_the_moment() -> None:
    log_context.add(attempt="a-0")  # nothing would take it away
    assert log_context.present() == {}
    with log_context.about(episode="e-1"):
        log_context.add(attempt="a-1")
        assert (
            Line()
            .format(record("started"))
            .endswith("WARNING benchapp.experiments.work.advance started [episode=e-1 attempt=a-1]")
        )
        log_context.add(attempt=None)
        with log_context.about(run="r-1"):
            line = json.loads(JsonLine().format(record("inside")))
        assert (line["episode"], line["run"], "attempt" in line) == ("e-1", "r-1", False)
    assert Line().format(record("after")).endswith("after")


def test_a_message_stays_one_line_and_says_what_json_cannot() -> None:
    assert Line().format(record("a\nb\rc")).endswith("a\\nb\\rc")
    assert json.loads(JsonLine().format(record("half \ud800")))["message"] == "half ?"


def test_a_traceback_is_kept() -> None:
    try:
        raise ValueError("why")
    except ValueError as error:
        info = (type(error), error, error.__traceback__)
    line = json.loads(JsonLine().format(record("broke", exc_info=info)))
    assert line["traceback"].endswith("ValueError: why")
