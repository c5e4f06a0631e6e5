"""Alerts: what is news, that each is noted and sent once, and what happens to a receiver that does not answer."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from django.core import mail
from django.utils import timezone

from benchapp.experiments.alerts import note_and_send
from benchapp.experiments.work.budgets import REASON
from benchapp.models import Alert, Episode, Experiment
from tests.worlds.factories import make_episode, make_experiment, make_run, make_trial

pytestmark = pytest.mark.django_db

SECRET = "T0KEN-in-the-address"


class Receiver:
    """A server that keeps what it is sent, and answers with `status`."""

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []
        self.status = 204
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver.told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(receiver.status)
                self.end_headers()

            def log_message(self, *args: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}/hook/{SECRET}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def receiver(settings: Any) -> Iterator[Receiver]:
    found = Receiver()
    settings.ALERT_WEBHOOK, settings.ALERT_ORIGIN = found.address, "https://skillglass.example.org"
    yield found
    found.server.shutdown()
    found.server.server_close()


def make_ended(**fields: Any) -> Experiment:
    experiment = make_experiment(**{"name": "Six ways", "status": "done", "finished_at": timezone.now(), **fields})
    episode = make_episode(make_run(experiment, status="done"), status="done")
    make_trial(episode, success=True)
    make_trial(episode, success=False)
    return experiment


def make_blocked(reason: str, experiment: Experiment | None = None) -> Episode:
    run = make_run(experiment or make_experiment(name="Six ways", status="running"), status="running")
    return make_episode(run, status="blocked", blocked_reason=reason)


def test_an_end_is_sent_once_with_what_came_out(receiver: Receiver) -> None:
    experiment = make_ended()
    for _ in range(3):
        note_and_send()
    (told,) = receiver.told
    assert told["text"] == "Six ways has ended: 1 of 2 trials passed."
    assert told["url"] == f"https://skillglass.example.org{experiment.get_absolute_url()}"
    assert (told["kind"], told["experiment"]) == ("ended", str(experiment.public_id))


@pytest.mark.parametrize(
    "fields",
    [
        {"origin": "imported"},
        {"finished_at": timezone.now() - timedelta(hours=2)},
        {"deleted_at": timezone.now()},
        {"status": "running", "finished_at": None},
    ],
)
def test_what_is_no_news_is_not_told(receiver: Receiver, fields: dict[str, Any]) -> None:
    make_ended(**fields)
    note_and_send()
    assert (receiver.told, Alert.objects.count()) == ([], 0)


def test_a_block_and_a_spent_budget_are_told_apart_and_not_again_and_again(receiver: Receiver) -> None:
    first = make_blocked("KeyRefused: no")
    make_blocked(f"{REASON} Run x has used 2 USD.")
    note_and_send()
    make_blocked("KeyRefused: no", first.run.experiment)  # within ten minutes of the first
    note_and_send()
    assert sorted(told["text"] for told in receiver.told) == [
        "Six ways has spent its budget: 1 episode stopped.",
        "Six ways needs you: 1 episode stopped.",
    ]
    Alert.objects.update(at=timezone.now() - timedelta(minutes=11))
    note_and_send()
    assert receiver.told[-1]["text"] == "Six ways needs you: 2 episodes stopped."
    Alert.objects.update(at=timezone.now() - timedelta(minutes=11))
    note_and_send()  # nothing new stopped since
    assert len(receiver.told) == 3


def test_a_receiver_that_fails_is_asked_again_and_no_log_has_its_secret(
    receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    receiver.status = 500
    make_ended()
    note_and_send()
    assert Alert.objects.get().posted_at is None
    receiver.status = 204
    note_and_send()
    assert (len(receiver.told), Alert.objects.get().posted_at is None) == (2, False)
    assert "not posted: HTTPError" in caplog.text
    assert SECRET not in caplog.text


def test_of_two_workers_one_sends(receiver: Receiver) -> None:
    make_ended()
    Alert.objects.all().delete()
    note_and_send()
    Alert.objects.update(posted_at=None)
    Alert.objects.filter(posted_at=None).update(posted_at=timezone.now())  # the other one took it
    note_and_send()
    assert len(receiver.told) == 1


def test_a_receiver_that_fails_does_not_make_the_other_one_hear_it_twice(
    receiver: Receiver, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.ALERT_EMAIL = ["lab@example.org"]
    monkeypatch.setattr("benchapp.experiments.alerts.send_mail", lambda *args: (_ for _ in ()).throw(OSError("away")))
    make_ended()
    for _ in range(2):
        note_and_send()
    assert len(receiver.told) == 1
    assert Alert.objects.get().mailed_at is None


def test_an_experiment_that_ends_again_is_told_again(receiver: Receiver) -> None:
    experiment = make_ended()
    note_and_send()
    Alert.objects.update(at=timezone.now() - timedelta(minutes=20))
    Experiment.objects.filter(pk=experiment.pk).update(finished_at=timezone.now() - timedelta(minutes=1))
    note_and_send()
    assert len(receiver.told) == 2


def test_it_goes_by_mail_too(settings: Any) -> None:
    settings.ALERT_EMAIL, settings.ALERT_ORIGIN = ["lab@example.org"], "https://skillglass.example.org"
    make_ended(name="Six\nways\x1b[31m")
    note_and_send()
    (letter,) = mail.outbox
    assert letter.to == ["lab@example.org"]
    assert "\n" not in letter.subject
    assert "\x1b" not in letter.body
    assert "https://skillglass.example.org/experiments/" in letter.body


def test_without_a_receiver_it_is_noted_for_the_page() -> None:
    make_ended()
    note_and_send()
    assert Alert.objects.get().posted_at is None
