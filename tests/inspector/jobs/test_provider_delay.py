"""The pages of a step, a trial, a run and an author's call show that the provider had to be asked again."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import orjson
import pytest
from django.test import Client

from benchapp.models import Blob, ModelCall, Trajectory
from runner.base.types import Source, Step
from tests.inspector.library.test_author_call import decide, url
from tests.worlds.factories import make_learning_run, make_user, record_steps

pytestmark = pytest.mark.django_db

TRIES = [{"reason": "silent for <180> seconds", "seconds": 185.0}, {"reason": "503", "seconds": 2.0}]
DELAY = {"failed_tries": 2, "seconds": 187.0}


@pytest.fixture
def reader(client: Client) -> Client:
    client.force_login(make_user())
    return client


def held_up(**extra: Any) -> Trajectory:
    """A trajectory of a run, its first step asked for three times."""
    run = make_learning_run(families=1)
    attempt = run.episodes.get().trials.filter(attempts__counts=True).first().counting_attempt()
    attempt.trajectories.all().delete()
    told = Step(1, Source.AGENT, "at last", extra={"failed_tries": TRIES})
    trajectory = record_steps(attempt, [told, Step(2, Source.AGENT, "at once")])
    Trajectory.objects.filter(pk=trajectory.pk).update(extra=extra)
    return trajectory


def test_a_trial_tells_what_its_model_kept_it_waiting(reader: Client) -> None:
    trial = held_up(provider_delay=DELAY).attempt.trial
    text = reader.get(trial.get_absolute_url()).text
    assert "Its model failed 2 times before it answered. The agent waited 3 min 07 s" in text
    assert text.count("after 2 failed tries") == 1
    assert "silent for &lt;180&gt; seconds; 503" in text


def test_a_run_adds_it_up(reader: Client) -> None:
    run = held_up(provider_delay=DELAY).attempt.trial.episode.run
    assert "lost to 2 failed model calls in 1 attempt, outside the agents" in reader.get(run.get_absolute_url()).text


@pytest.mark.parametrize("odd", [None, 3, [], {"failed_tries": "x", "seconds": 1}, {"failed_tries": 1}])
def test_what_a_foreign_record_calls_so_is_passed_over(reader: Client, odd: Any) -> None:
    trial = held_up(provider_delay=odd).attempt.trial
    assert "Its model failed" not in reader.get(trial.get_absolute_url()).text
    assert "failed model call" not in reader.get(trial.episode.run.get_absolute_url()).text


def test_an_authors_call_tells_how_often_it_was_tried(reader: Client) -> None:
    decision = decide()
    reply = {"text": "{}", "finish_reason": "stop", "failed_tries": TRIES}
    ModelCall.objects.update(reply_id=Blob.objects.put(orjson.dumps(reply)))
    text = reader.get(url(decision)).text
    assert "after 2 failed tries" in text
    assert "silent for &lt;180&gt; seconds; 503" in text


def test_a_trial_tells_how_long_it_waited_for_a_free_slot_and_leaves_it_out_of_its_duration(reader: Client) -> None:
    attempt = held_up().attempt
    Trajectory.objects.update(model="<smol>")
    before = attempt.duration_seconds
    attempt.queued_seconds = 187.0
    attempt.finished_at += timedelta(seconds=187)
    attempt.save()
    assert attempt.duration_seconds == before
    page = reader.get(attempt.trial.get_absolute_url())
    assert "waited 3 min 07 s for a free slot of &lt;smol&gt;." in page.text
    assert "It waited" not in reader.get(held_up().attempt.trial.get_absolute_url()).text
