from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse

from benchapp.models import Attempt, Trial
from inspector.pages.trials.trial import FIRST_STEPS
from tests.providers.live_streams import attempt_at_work, publish, running_broker
from tests.worlds.factories import make_user
from tests.worlds.review_factories import make_queue

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with running_broker(tmp_path / "valkey", monkeypatch) as url:
        yield url


def more(client: Client, attempt: Attempt, after: str = "0-0") -> str:
    url = reverse("trial-live", args=[attempt.trial.public_id])
    return client.get(url, {"attempt": attempt.number, "after": after}, headers=HTMX).text


def after_of(text: str) -> str:
    return text.partition("after=")[2].partition('"')[0]


def test_the_page_of_a_trial_at_work_shows_its_steps_so_far_and_asks_for_more(client: Client, broker: str) -> None:
    attempt = attempt_at_work()
    publish(attempt, range(1, 4))
    text = client.get(attempt.trial.get_absolute_url()).text
    assert [f'id="step-{number}"' in text for number in range(1, 5)] == [True, True, True, False]
    assert "I look at &lt;b&gt;file" in text
    assert 'hx-trigger="every 2s"' in text
    twin = client.get(reverse("trial-json", args=[attempt.trial.public_id])).json()
    assert [step["step_id"] for step in twin["live"]] == [1, 2, 3]


def test_asking_again_brings_only_what_came_since(client: Client, broker: str) -> None:
    attempt = attempt_at_work()
    publish(attempt, range(1, 4))
    after = after_of(client.get(attempt.trial.get_absolute_url()).text)
    assert "<li" not in (nothing := more(client, attempt, after))
    assert after_of(nothing) == after
    publish(attempt, [4])
    came = more(client, attempt, after)
    assert came.count("<li") == 1
    assert 'id="step-4"' in came
    assert 'hx-swap-oob="beforeend"' in came
    assert after_of(came) != after


def test_a_long_stream_shows_its_last_steps_and_counts_the_others(client: Client, broker: str) -> None:
    attempt = attempt_at_work()
    publish(attempt, range(1, FIRST_STEPS + 6))
    text = client.get(attempt.trial.get_absolute_url()).text
    assert text.count('<li id="step-') == FIRST_STEPS
    assert "5 earlier steps" in text


def test_a_step_of_any_shape_is_drawn(client: Client, broker: str) -> None:
    attempt = attempt_at_work()
    publish(attempt, [1], "\x1b[31mred\u202e" + "é<" * 20_000)
    text = client.get(attempt.trial.get_absolute_url()).text
    assert "characters more" in text
    assert "\u202e" not in text


def test_the_end_of_the_attempt_is_told_and_nothing_asks_any_more(client: Client, broker: str) -> None:
    attempt = attempt_at_work()
    publish(attempt, [1])
    Attempt.objects.filter(pk=attempt.pk).update(status="finished")
    Trial.objects.filter(pk=attempt.trial_id).update(status="passed", is_done=True, success=True)
    text = more(client, attempt)
    assert "The attempt has ended: passed" in text
    assert "hx-get" not in text
    assert 'id="step-1"' in text, "the last steps still come"


def test_a_broker_that_is_away_is_told(client: Client) -> None:
    text = client.get(attempt_at_work().trial.get_absolute_url()).text
    assert "The broker does not answer" in text


@pytest.mark.parametrize("after", ["", "x", "9" * 40, "1-2-3", "-", "(1-0"])
def test_nonsense_begins_at_the_beginning(client: Client, broker: str, after: str) -> None:
    attempt = attempt_at_work()
    publish(attempt, [1])
    assert 'id="step-1"' in more(client, attempt, after)


def test_without_htmx_one_is_sent_to_the_page(client: Client) -> None:
    trial = attempt_at_work().trial
    response = client.get(reverse("trial-live", args=[trial.public_id]))
    assert (response.status_code, response["Location"]) == (302, trial.get_absolute_url())


@pytest.mark.parametrize("number", ["", "99", "x", "9" * 30])
def test_there_is_nothing_to_see_of_an_attempt_that_is_not_there(client: Client, number: str) -> None:
    url = reverse("trial-live", args=[attempt_at_work().trial.public_id])
    assert client.get(url, {"attempt": number}, headers=HTMX).status_code == 404


def test_it_is_closed_with_the_trial(client: Client, settings: pytest.FixtureRequest, broker: str) -> None:
    settings.SINGLE_USER = False  # type: ignore[attr-defined]
    person = make_user(level="reviewer")
    attempt = attempt_at_work()
    publish(attempt, [1])
    make_queue([attempt.trial], reviewers=[person])
    client.force_login(person)
    url = reverse("trial-live", args=[attempt.trial.public_id])
    response = client.get(url, {"attempt": attempt.number}, headers=HTMX)
    assert response.status_code == 403
    assert "part-1" not in response.text
