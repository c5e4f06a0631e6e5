"""What counts as spent, and when it is too much."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from benchapp.experiments.work import advance
from benchapp.experiments.work.budgets import Spent, count_spent, guard, raise_budget, require
from benchapp.models import Blob, Episode, ModelCall, Run
from runner.base.errors import BudgetSpent
from runner.base.types import Usage
from tests.worlds import factories

pytestmark = pytest.mark.django_db


@pytest.fixture
def episode() -> Episode:
    run = factories.make_run(budget_usd=1.0, budget_tokens=1_000, status="running")
    environment = factories.make_suite(environments=1).environments.get()
    return factories.make_episode(run, environment=environment, status="running")


def attempt(episode: Episode, **fields: Any) -> None:
    task = episode.environment.families.first().tasks.first()
    trial, _ = episode.trials.get_or_create(phase="acquisition", task=task, sample=0)
    trial.attempts.create(number=trial.attempts.count() + 1, **fields)


def call(episode: Episode, purpose: str, **fields: Any) -> None:
    ModelCall.objects.create(
        episode=episode, key=uuid.uuid4().hex, purpose=purpose, model="m", status="answered",
        request_id=Blob.objects.put(b"{}"), started_at=timezone.now(), **fields,
    )  # fmt: skip


def test_everything_that_was_billed_counts_once(episode: Episode) -> None:
    for status in ("finished", "infrastructure", "interrupted", "running"):
        attempt(episode, status=status, input_tokens=10, output_tokens=1, cost_usd=0.125)
    attempt(episode, status="superseded", input_tokens=500, output_tokens=5, cost_usd=5.0)
    call(episode, "author", input_tokens=20, output_tokens=2, cost_usd=0.25)
    call(episode, "agent", input_tokens=10, output_tokens=1, cost_usd=0.125)  # in its attempt's sum already
    assert count_spent(episode.run) == Spent(usd=0.75, tokens=66, unpriced=0)
    assert count_spent(episode.run, without_session_of=episode) == Spent(usd=0.625, tokens=55)


def test_what_tells_no_cost_is_counted_by_its_tokens_and_said(episode: Episode) -> None:
    attempt(episode, status="finished", input_tokens=10, output_tokens=1)
    attempt(episode, status="finished")  # no call was made
    attempt(episode, status="finished", input_tokens=10, output_tokens=1, cost_usd=1.0)
    used = count_spent(episode.run)
    assert used == Spent(usd=1.0, tokens=22, unpriced=1)
    with pytest.raises(
        BudgetSpent, match=r"1\.0000 of 1 USD \(1 attempts or calls report only part of their cost"
    ) as caught:
        require(episode.run, used)
    assert "22 of 1,000 tokens" in str(caught.value)


def test_tokens_that_are_known_in_part_count_as_far_as_they_are_known(episode: Episode) -> None:
    attempt(episode, status="finished", input_at_least=10, output_at_least=1, priced_usd=0.5)
    attempt(episode, status="finished", input_tokens=20, output_at_least=2)
    assert count_spent(episode.run) == Spent(usd=0.5, tokens=33, unpriced=2)
    with pytest.raises(BudgetSpent):
        guard(episode)(Usage(900, 0, 70, 0.25).in_part())


def test_one_call_without_a_price_does_not_free_an_attempt_from_a_budget_in_money(episode: Episode) -> None:
    attempt(episode, status="finished", input_tokens=10, output_tokens=1, priced_usd=0.75)
    attempt(episode, status="finished", input_tokens=10, output_tokens=1, cost_usd=0.125)
    call(episode, "author", input_tokens=5, output_tokens=1)
    used = count_spent(episode.run)
    assert used == Spent(usd=0.875, tokens=28, unpriced=2)
    guard(episode)(Usage(1, 0, 1, 0.0625) + Usage(1, 0, 1))
    with pytest.raises(BudgetSpent):
        guard(episode)(Usage(1, 0, 1, 0.125) + Usage(1, 0, 1))


@pytest.mark.parametrize(
    ("under_way", "allowed"),
    [
        (Usage(), True),
        (Usage(400, 300, 99, 0.1), True),
        (Usage(400, 0, 100, 0.1), False),
        (Usage(1, 0, 1, 0.5), False),
        (Usage(1, 0, 1, None), True),
    ],
)
def test_the_guard_adds_what_the_attempt_under_way_has_used(episode: Episode, under_way: Usage, allowed: bool) -> None:
    attempt(episode, status="finished", input_tokens=450, output_tokens=50, cost_usd=0.5)
    attempt(episode, status="running", input_tokens=900, output_tokens=99, cost_usd=0.9)  # the same, as billed so far
    if allowed:
        guard(episode)(under_way)
    else:
        with pytest.raises(BudgetSpent):
            guard(episode)(under_way)


def test_a_run_without_a_budget_is_never_stopped(episode: Episode) -> None:
    Run.objects.update(budget_usd=None, budget_tokens=None)
    guard(episode)(Usage(10**12, 0, 10**12, 10.0**9))


def test_raising_lets_only_those_go_on_that_stood_still_for_it(
    episode: Episode, monkeypatch: pytest.MonkeyPatch
) -> None:
    Episode.objects.update(status="blocked", blocked_reason="Budget spent. Run x has used it up.")
    other = factories.make_episode(episode.run, status="blocked", blocked_reason="SetupError: the suite changed")
    hinted: list[Episode] = []
    monkeypatch.setattr(advance, "hint", hinted.append)
    call_command("raise_budget", str(episode.run.public_id), "--usd", "2.5")
    episode.refresh_from_db()
    other.refresh_from_db()
    assert (episode.status, episode.blocked_reason, other.status) == ("waiting", "", "blocked")
    assert hinted == [episode]
    assert (episode.run.budget_usd, episode.run.budget_tokens) == (2.5, 1_000)


def test_raising_locks_episodes_before_their_run(episode: Episode) -> None:
    """As every other act does: one that held the run and then asked for an episode would stand against them."""
    Run.objects.update(budget_usd=1.0)
    run = Run.objects.get()
    with CaptureQueriesContext(connection) as queries:
        raise_budget(run, usd=2.0)
    asked = [row["sql"] for row in queries if row["sql"].startswith("SELECT")]
    assert 'FROM "benchapp_episode"' in asked[0]
    assert 'FROM "benchapp_run"' in asked[1]


def test_the_command_says_what_is_wrong(episode: Episode) -> None:
    with pytest.raises(CommandError, match="there is no run"):
        call_command("raise_budget", str(uuid.uuid4()), "--usd", "2")
    with pytest.raises(CommandError, match="stays as it is"):
        call_command("raise_budget", str(episode.run.public_id))
    with pytest.raises(CommandError, match="you can only raise a budget"):
        call_command("raise_budget", str(episode.run.public_id), "--usd", "0.5")


def test_the_sum_is_read_anew_each_time(episode: Episode) -> None:
    ask = guard(episode)
    attempt(episode, status="finished", input_tokens=999, output_tokens=1, cost_usd=0.0)
    with pytest.raises(BudgetSpent):
        ask(Usage())
    raise_budget(episode.run, tokens=1_001)
    ask(Usage())
