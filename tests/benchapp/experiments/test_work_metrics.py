"""What a scheduler reads of the work: in Prometheus' text format, read back by its own parser."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from benchapp.experiments.launch import launch
from benchapp.experiments.work import advance, work_metrics
from benchapp.experiments.work.call_queue import Outage
from benchapp.experiments.work.progress import WorkerAtHand, Workforce
from benchapp.models import Episode

pytestmark = pytest.mark.django_db

SPEC = {
    "suite": "starter",
    "name": "Metrics",
    "conditions": ["no-skill", "selfgen-zero-shot"],
    "environments": ["E1"],
    "replicates": 3,
    "agent": "shell",
    "agent_model": "scripted/apprentice",
    "author_model": "scripted/journeyman",
    "sandbox": "local",
}
Samples = dict[tuple[str, ...], float]


@pytest.fixture(autouse=True)
def _without_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_metrics, "workforce", lambda: Workforce(None, None))


def read(client: Client) -> Samples:
    """Return (name, label values by name ...) -> value."""
    answer = client.get("/metrics")
    assert answer.status_code == 200
    assert answer["Content-Type"].startswith("text/plain")
    assert "no-store" in answer["Cache-Control"]
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()) if value)): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def episodes(found: Samples) -> dict[str, float]:
    return {key[-1]: value for key, value in found.items() if key[0] == "skillglass_episodes" and value}


def test_each_unfinished_episode_is_in_one_state(client: Client) -> None:
    launch(SPEC)
    assert episodes(read(client)) == {"waiting": 6}
    assert ("skillglass_episodes", "scripted/apprentice", "local", "waiting") in read(client)
    now = timezone.now()
    soon, past = now + timedelta(minutes=1), now - timedelta(minutes=1)
    changes: list[dict[str, Any]] = [
        {"status": "running", "lease_owner": "a worker", "lease_until": soon},
        {"status": "running", "lease_owner": "one that vanished", "lease_until": past},
        {"status": "running", "lease_until": soon, "failures": 1},
        {"status": "blocked"},
        {"status": "paused"},
        {"status": "done"},
    ]
    for episode, change in zip(Episode.objects.order_by("pk"), changes, strict=True):
        Episode.objects.filter(pk=episode.pk).update(**change)
    assert episodes(read(client)) == {"running": 1, "waiting": 1, "postponed": 1, "blocked": 1, "paused": 1}


def test_what_needs_labels_is_counted_by_them(client: Client) -> None:
    """So that a scheduler starts workers only for what they can take."""
    launch(SPEC)
    launch({**SPEC, "name": "On a GPU", "replicates": 1, "worker_labels": ["region=eu", "gpu"]})
    text = client.get("/metrics").text
    counts = dict(re.findall(r'skillglass_episodes\{.*state="waiting",worker_labels="(.*?)"\} (\S+)', text))
    assert counts == {"": "6.0", "gpu,region=eu": "2.0"}


def test_it_is_zero_where_nothing_is_left_to_do(client: Client) -> None:
    found = {key: value for key, value in read(client).items() if key[0] == "skillglass_episodes"}
    assert set(found.values()) == {0}
    assert {key[-1] for key in found} == {"waiting", "running", "postponed", "blocked", "paused"}


def test_attempts_and_tokens_are_counted_by_model_and_no_result_is_told(client: Client) -> None:
    launch({**SPEC, "replicates": 1})
    for episode in Episode.objects.all():
        advance.advance(str(episode.public_id))
    found = read(client)
    assert found["skillglass_attempts_total", "scripted/apprentice", "finished"] == 2
    used = {key[1:]: value for key, value in found.items() if key[0] == "skillglass_tokens_total"}
    assert used["input", "scripted/apprentice", "agent"] > 0
    assert ("input", "scripted/journeyman", "author") in used
    assert "pass" not in client.get("/metrics").text


def test_places_and_silent_models_come_from_the_broker(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    hands = [WorkerAtHand("w", "busy", "an episode", None), *[WorkerAtHand("w", "idle", None, None)] * 2]
    monkeypatch.setattr(work_metrics, "workforce", lambda: Workforce(tuple(hands), 7))
    away = Outage("smol", timezone.now() - timedelta(seconds=90), "refused", ("e",), None)
    monkeypatch.setattr(work_metrics, "list_outages", lambda: [away])
    found = read(client)
    assert found["skillglass_places", "busy"] == 1
    assert found["skillglass_places", "idle"] == 2
    assert found["skillglass_queued",] == 7
    assert 89 < found["skillglass_model_silent_seconds", "smol"] < 120


def test_labels_of_hostile_names_are_escaped(client: Client) -> None:
    launch(SPEC)
    Episode.objects.first().run.experiment.runs.update(agent_model='x"} 1\nskillglass_places{state="idle"} 99')
    assert ("skillglass_places", "idle") not in read(client)
    assert episodes(read(client)) == {"waiting": 6}


def test_the_number_of_queries_does_not_grow_with_the_runs(client: Client) -> None:
    launch(SPEC)
    client.get("/metrics")
    with CaptureQueriesContext(connection) as few:
        client.get("/metrics")
    launch({**SPEC, "name": "More", "replicates": 9})
    with CaptureQueriesContext(connection) as many:
        client.get("/metrics")
    assert len(many) == len(few) <= 12
