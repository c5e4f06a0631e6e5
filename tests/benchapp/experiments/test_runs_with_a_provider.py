"""Whole runs with the shell agent against a provider on this machine:
its own accounts are what the record must equal."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.models import Sum
from django.test import Client

from benchapp.experiments.launch import launch
from benchapp.experiments.work import advance
from benchapp.experiments.work.budgets import count_spent, raise_budget
from benchapp.experiments.work.operations import cancel
from benchapp.management.commands.export_recording import export_recording
from benchapp.models import Activity, Attempt, Blob, ModelCall, Run
from benchapp.record.record_digest import record_lines
from benchapp.record.recorded import read_request
from runner.base.errors import SetupError
from runner.engine.toolbox import toolbox_for
from runner.models.preset import Prices
from tests.providers.model_provider import ModelProvider

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

KEY = "the words of the test's own pass"  # no pattern knows it: only its value can be searched for
PRICES = Prices(input=2.0, output=8.0, cached=0.5)
PRESET = """\
provider: house
agent_model: house-model
host_model: openai/gpt-4.1-mini
api_base_variable: HOUSE_AT
key_variable: HOUSE_PASS
options: {top_p: 0.9}
prices: {input: 2, output: 8, cached: 0.5}
"""
SPEC: dict[str, Any] = {
    "name": "One environment",
    "suite": "starter",
    "environments": ["E1"],
    "conditions": ["selfgen-always"],
    "replicates": 1,
    "agent": "shell",
    "agent_model": "house",
    "author_model": "house",
    "sandbox": "local",
}


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ModelProvider]:
    found = ModelProvider(KEY)
    (tmp_path / "presets").mkdir()
    (tmp_path / "presets" / "house.yaml").write_text(PRESET)
    monkeypatch.setenv("SKILLGLASS_PRESETS", str(tmp_path / "presets"))
    monkeypatch.setenv("SKILLGLASS_RECORDINGS", str(tmp_path / "recordings"))
    monkeypatch.setenv("HOUSE_AT", found.url)
    monkeypatch.setenv("HOUSE_PASS", KEY)
    yield found
    found.close()


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Callable) -> Callable[..., Run]:
    """Launches with changes to the spec and works until no episode wants more, or `until` holds."""
    queue: list[str] = []
    monkeypatch.setattr(advance, "put_hint", lambda episode, needs, **_: queue.append(episode) or True)

    def work(*, until: Callable[[], bool] = lambda: False) -> None:
        while queue and not until():
            advance.advance(queue.pop(0))

    def go(*, until: Callable[[], bool] = lambda: False, **changes: Any) -> Run:
        with django_capture_on_commit_callbacks(execute=True):
            experiment = launch({**SPEC, **changes})
        work(until=until)
        return experiment.runs.get()

    go.work = work
    return go


def test_a_rate_limit_is_waited_out_and_costs_nothing(
    run: Callable[..., Run], provider: ModelProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(
        advance, "toolbox_for", lambda plan, suite, clean, _: toolbox_for(plan, suite, clean, pauses.append)
    )
    provider.refusing = [(429, {"Retry-After": "3"}), (503, {})]
    done = run(until=one_attempt)
    assert pauses[0] == 3.0
    assert len(pauses) == 2
    assert Attempt.objects.get().turns == provider.account.agent_calls
    assert provider.account.calls == provider.asked - 2
    assert count_spent(done).tokens == provider.account.tokens()


# --- budgets --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("budget", "begun"),
    [
        ({"tokens": 20_000}, 1),  # spent in the middle of an attempt
        ({"usd": 0.012}, 0),  # spent by an answer of the author
    ],
)
def test_a_spent_budget_stops_before_the_next_call_and_goes_on_where_it_stood(
    run: Callable[..., Run], provider: ModelProvider, budget: dict[str, float], begun: int
) -> None:
    stopped = run(budget=budget)
    episode = stopped.episodes.get()
    used = count_spent(stopped)
    assert (stopped.status, episode.status) == ("blocked", "blocked")
    assert episode.blocked_reason.startswith("Budget spent. Run ")
    assert "raise_budget" in episode.blocked_reason
    assert used.tokens == provider.account.tokens()
    assert used.usd == pytest.approx(PRICES.cost(provider.account.used))
    asked = provider.asked
    advance.advance(str(episode.public_id))  # a late hint
    assert provider.asked == asked
    finished = list(Attempt.objects.filter(status="finished").values_list("pk", "input_tokens"))
    raised = {name: value * 100 for name, value in budget.items()}
    for waiting in raise_budget(stopped, **raised, reason="more is there"):
        advance.hint(waiting)
    run.work(until=lambda: Attempt.objects.filter(status="finished").count() >= len(finished) + 2)
    stopped.refresh_from_db()
    assert stopped.status == "running"
    assert list(Attempt.objects.filter(pk__in=[pk for pk, _ in finished]).values_list("pk", "input_tokens")) == finished
    assert count_spent(stopped).tokens == provider.account.tokens()
    assert Activity.objects.get(verb="raise budget").reason == "more is there"
    redone = list(Attempt.objects.filter(status="infrastructure"))
    assert len(redone) == begun
    for attempt in redone:  # the call it was about to make was not made; what it had used is billed
        assert attempt.exception_type == "BudgetSpent"
        assert attempt.input_tokens > 0
        assert attempt.trial.attempts.get(counts=True).number == attempt.number + 1


def test_episodes_of_a_run_share_its_budget_and_begin_nothing_once_it_is_spent(
    run: Callable[..., Run], provider: ModelProvider
) -> None:
    stopped = run(environments=["E1", "E2"], budget={"tokens": 9_000})
    first, second = stopped.episodes.order_by("ordinal")
    assert {first.status, second.status} == {"blocked"}
    assert first.blocked_reason == second.blocked_reason
    assert count_spent(stopped).tokens == provider.account.tokens() >= 9_000
    assert Attempt.objects.filter(status="infrastructure").count() <= 1
    assert len(raise_budget(stopped, tokens=90_000)) == 2


@pytest.mark.parametrize(
    ("sums", "told"),
    [
        ({"tokens": 8_000}, "you can only raise a budget"),
        ({"tokens": 9_000}, "stays as it is"),
        ({"usd": 1.0}, "no budget in USD was set"),
        ({"tokens": 9_001}, "expected more than that"),
    ],
)
def test_a_budget_that_would_not_help_is_refused(
    run: Callable[..., Run], provider: ModelProvider, sums: dict[str, float], told: str
) -> None:
    stopped = run(budget={"tokens": 9_000})
    with pytest.raises(SetupError, match=told):
        raise_budget(stopped, **sums)
    stopped.refresh_from_db()
    assert (stopped.status, stopped.budget_tokens) == ("blocked", 9_000)


# --- keys -----------------------------------------------------------------------------------------------------------


def test_a_refused_key_ends_the_run_at_once_and_is_told_by_its_variables_name(
    run: Callable[..., Run],
    provider: ModelProvider,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    admin_client: Client,
    settings: Any,
) -> None:
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}  # nobody collected them
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}
    provider.key = "another"
    caplog.set_level(logging.DEBUG)
    ended = run(environments=["E1", "E2"], record=True)
    assert provider.asked == 1
    assert ended.status == "blocked"
    for episode in ended.episodes.all():
        assert (episode.status, episode.lease_owner) == ("blocked", "")
        assert episode.blocked_reason.startswith("The provider refused the key in the environment")
        assert "variable HOUSE_PASS" in episode.blocked_reason
        assert "Incorrect API key provided: [HOUSE_PASS]" in episode.blocked_reason
    (attempt,) = Attempt.objects.all()
    assert (attempt.status, attempt.exception_type) == ("infrastructure", "KeyRefused")
    call_command("episodes")
    call_command("presets")
    pages = [admin_client.get(path).content.decode() for path in ("/", ended.get_absolute_url(), "/jobs/")]
    printed = capsys.readouterr()
    assert "HOUSE_PASS is set" in printed.out
    assert KEY not in caplog.text
    for text in (everything_recorded(), printed.out, *pages):
        assert KEY not in text
        assert provider.url not in text


def test_an_account_without_credit_ends_the_run_at_once(run: Callable[..., Run], provider: ModelProvider) -> None:
    provider.refusing = [(402, {})] * 9
    ended = run(environments=["E1", "E2"])
    assert provider.asked == 1
    assert all("(model house)" in episode.blocked_reason for episode in ended.episodes.all())


def everything_recorded() -> str:
    with connection.cursor() as cursor:
        tables = [name for name in connection.introspection.table_names(cursor) if name.startswith("benchapp_")]
        rows = [cursor.execute(f"SELECT * FROM {name}").fetchall() for name in tables]
    return str(rows) + "".join(blob.content().decode("utf-8", "replace") for blob in Blob.objects.all())


# --- recordings -----------------------------------------------------------------------------------------------------


def essence(run: Run) -> list[Any]:
    """What a replay must repeat: trials, verdicts, trajectories, decisions, the spine and the library; without names of
    models, price lists, times and what follows from the setup's digest."""
    lines = [
        line for line in record_lines(run.experiment) if line[0] in ("trial", "decision", "library", "entry", "call")
    ]
    return [_without(line, run) for line in lines]


LEFT_OUT = ("started_at", "finished_at", "decided_at", "duration_seconds", "model", "scripted", "digest")


def _without(value: Any, run: Run) -> Any:
    if isinstance(value, dict):
        return {name: _without(item, run) for name, item in value.items() if name not in LEFT_OUT}
    if isinstance(value, list) and value[:1] == ["entry"] and value[2] == "freeze":
        return [*value[:3], value[3][2]]  # the library's digest
    return [_without(item, run) for item in value] if isinstance(value, list | tuple) else value


def one_attempt() -> bool:
    return Attempt.objects.filter(status="finished").exists()


def test_a_whole_run_costs_what_the_provider_counted_and_its_recording_replays_with_the_provider_off(
    run: Callable[..., Run], provider: ModelProvider
) -> None:
    first = run(record=True)
    equals_the_account(first, provider)
    assert count_spent(first).tokens == provider.account.tokens()  # calls that are kept are billed once
    calls = ModelCall.objects.filter(episode__run=first).order_by("id")
    sent = [request["messages"] for request in provider.account.requests]
    assert [list(read_request(call).messages) for call in calls] == sent
    call_command("export_recording", str(first.public_id), "first")
    asked = provider.asked
    provider.close()
    again = run(agent_model="recorded/first", author_model="recorded/first", name="again", record=True)
    assert (again.status, again.scripted, provider.asked) == ("done", True, asked)
    before, after = essence(first), essence(again)
    assert {line[0] for line in before} == {"trial", "decision", "library", "entry", "call"}
    assert before == after


def equals_the_account(run: Run, provider: ModelProvider) -> None:
    """Tokens, cost and turns, of the agent and of the author."""
    assert run.status == "done"
    account = provider.account
    attempts = Attempt.objects.filter(trial__episode__run=run)
    calls = ModelCall.objects.filter(episode__run=run, purpose="author")
    assert attempts.aggregate(all=Sum("turns"))["all"] == account.agent_calls
    assert calls.count() == account.calls - account.agent_calls > 0
    for field, counted in (
        ("input_tokens", account.used.input_tokens),
        ("cached_tokens", account.used.cached_tokens),
        ("output_tokens", account.used.output_tokens),
    ):
        assert sum(rows.aggregate(all=Sum(field))["all"] for rows in (attempts, calls)) == counted
    cost = sum(rows.aggregate(all=Sum("cost_usd"))["all"] for rows in (attempts, calls))
    assert cost == pytest.approx(PRICES.cost(account.used))
    assert set(attempts.values_list("price_table", flat=True)) == {"preset house"}
    assert set(calls.values_list("price_table", flat=True)) == {"preset house"}
    assert {request["top_p"] for request in account.requests} == {0.9}
    assert attempts.filter(trial__success=True).exists()


def test_a_request_that_differs_fails_loudly_with_the_difference(
    run: Callable[..., Run], provider: ModelProvider
) -> None:
    first = run(until=one_attempt, record=True)
    cancel(first.experiment, reason="enough")
    call_command("export_recording", str(first.public_id), "first")
    limits = {"max_output_tokens": 777}
    other = run(agent_model="recorded/first", author_model="recorded/first", name="other", limits=limits)
    (episode,) = other.episodes.all()
    assert episode.status == "blocked"
    assert episode.blocked_reason.startswith("recorded/first: none of the ")
    assert '- "max_tokens": 8000' in episode.blocked_reason
    assert '+ "max_tokens": 777' in episode.blocked_reason


def test_calls_that_were_not_kept_cannot_be_exported(
    run: Callable[..., Run], provider: ModelProvider, tmp_path: Path
) -> None:
    first = run(until=one_attempt)
    with pytest.raises(SetupError, match="is running: record it after it has ended"):
        export_recording(first, tmp_path / "a.jsonl")
    cancel(first.experiment, reason="enough")
    first.refresh_from_db()
    with pytest.raises(SetupError, match="launch it with `record: true`"):
        export_recording(first, tmp_path / "a.jsonl")
    assert not (tmp_path / "a.jsonl").exists()
