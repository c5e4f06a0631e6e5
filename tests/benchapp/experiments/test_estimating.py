"""An estimate rests on earlier trials of the same kind, says on how many, and is unknown rather than zero."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from benchapp.experiments.foresight import Amount, Estimate, estimate
from benchapp.experiments.launch import launch
from benchapp.experiments.preparation import prepare
from benchapp.experiments.work import advance
from benchapp.models import Blob, Episode, Experiment, ModelCall, Run, Trial
from runner.base.types import Usage
from runner.models import make_model
from runner.models.call_prices import prices_of

pytestmark = pytest.mark.django_db

SPEC: dict[str, Any] = {
    "name": "Earlier",
    "suite": "starter",
    "environments": ["E1"],
    "conditions": ["no-skill", "selfgen-always"],
    "replicates": 2,
    "agent": "nop",
    "agent_model": "scripted/apprentice",
    "author_model": "scripted/apprentice",
}


@pytest.fixture
def earlier(monkeypatch: pytest.MonkeyPatch) -> Experiment:
    """As if everything had run: 100, 200 ... tokens by replicate, 10 seconds a trial."""
    monkeypatch.setattr(advance, "hint", lambda _, **named: True)
    experiment = launch(SPEC)
    for replicate in (1, 2):
        Trial.objects.filter(episode__run__replicate=replicate).update(
            is_done=True,
            input_tokens=80 * replicate,
            output_tokens=20 * replicate,
            cost_usd=None,
            duration_seconds=10.0,
        )
    return experiment


def answer(episode: Episode, key: str, tokens: int, cost: float | None) -> None:
    began = datetime(2026, 3, 2, tzinfo=UTC)
    ModelCall.objects.create(
        episode=episode,
        key=key,
        purpose="author",
        model="scripted/apprentice",
        status="answered",
        request_id=Blob.objects.put(b"{}"),
        input_tokens=tokens,
        output_tokens=0,
        cost_usd=cost,
        started_at=began,
        finished_at=began + timedelta(seconds=5),
    )


def by_condition(value: dict[str, Any]) -> dict[str, Estimate]:
    return {arm.condition: found for arm, found in estimate(prepare(value)).arms.items()}


def test_without_a_basis_everything_is_unknown() -> None:
    found = estimate(prepare(SPEC)).whole
    assert found.tokens == Amount(None, 0, 2 * (12 + 18) + 2)  # every trial, and an author in each of two episodes
    assert (found.cost_usd.value, found.seconds.value, found.basis) == (None, None, 0)
    assert found.wall_seconds(4) is None


def test_medians_of_the_same_task_model_and_condition_are_summed(earlier: Experiment) -> None:
    found = by_condition(SPEC)["no-skill"]
    assert found.tokens == Amount(2 * 12 * 150.0, 24, 24)  # the median of 100 and 200, in both replicates
    assert found.seconds == Amount(240.0, 24, 24)
    assert found.cost_usd == Amount(None, 0, 24)
    assert found.basis == 24
    assert (found.wall_seconds(1), found.wall_seconds(2), found.wall_seconds(50)) == (240.0, 120.0, 120.0)


def test_an_author_without_a_basis_leaves_the_whole_partly_unknown(earlier: Experiment) -> None:
    found = by_condition(SPEC)["selfgen-always"]
    assert (found.tokens.known, found.tokens.parts) == (36, 38)
    assert not found.tokens.is_whole
    assert found.wall_seconds(1) is None


def test_authors_are_estimated_from_finished_episodes_that_tell_everything(earlier: Experiment) -> None:
    first, second = Episode.objects.filter(run__condition="selfgen-always").order_by("run__replicate")
    Episode.objects.filter(pk__in=[first.pk, second.pk]).update(status="done")
    answer(first, "a", 1_000, 0.5)
    answer(first, "b", 1_000, None)
    answer(second, "a", 4_000, 0.25)
    found = by_condition({**SPEC, "conditions": ["selfgen-always"], "replicates": 1})["selfgen-always"]
    assert found.tokens == Amount(18 * 150.0 + 3_000, 19, 19)
    assert found.cost_usd == Amount(0.25, 1, 19)  # the first episode's cost is not whole, so it is no basis
    assert found.seconds == Amount(180 + 7.5, 19, 19)


def test_a_session_of_an_agent_is_not_estimated_from_single_calls(earlier: Experiment) -> None:
    Episode.objects.filter(run__condition="selfgen-always").update(status="done")
    for episode in Episode.objects.filter(run__condition="selfgen-always"):
        answer(episode, "a", 1_000, 0.5)
    value = {**SPEC, "author_agents": [None, "shell"], "conditions": ["selfgen-always"], "replicates": 1}
    found = estimate(prepare(value))
    by_agent = {arm.author_agent: each.tokens for arm, each in found.arms.items()}
    assert by_agent[None] == Amount(18 * 150.0 + 1_000, 19, 19)
    assert by_agent["shell"] == Amount(18 * 150.0, 18, 19)
    assert [arm.author_agent for arm in found.unknown_sessions] == ["shell"]
    Run.objects.filter(replicate=2, condition="selfgen-always").update(author_agent="shell")
    assert not estimate(prepare(value)).unknown_sessions


PRICED: dict[str, Any] = {
    **SPEC,
    "conditions": ["selfgen-always"],
    "replicates": 1,
    "agent_model": "claude-opus-4.6",
    "author_model": "claude-opus-4.6",
}


def test_tokens_without_a_cost_are_priced_by_the_list_and_it_is_said_of_how_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(advance, "hint", lambda _, **named: True)
    prices = prices_of(make_model("claude-opus-4.6"))
    assert prices is not None
    launch(PRICED, keys_elsewhere=True)
    told, silent, *_ = Trial.objects.order_by("id")
    Trial.objects.update(is_done=True, input_tokens=9_000, cached_tokens=5_000, output_tokens=700, duration_seconds=1.0)
    Trial.objects.filter(task=told.task).update(cost_usd=0.5)
    Trial.objects.filter(task=silent.task).update(output_tokens=None)
    Episode.objects.update(status="done")
    answer(Episode.objects.get(), "a", 2_000, None)
    found = estimate(prepare(PRICED, keys_elsewhere=True)).whole.cost_usd
    tasks = list(Trial.objects.values_list("task", flat=True))
    billed, unknown = tasks.count(told.task_id), tasks.count(silent.task_id)
    priced = len(tasks) - billed - unknown
    each = prices.cost(Usage(9_000, 5_000, 700)) or 0.0
    author = prices.cost(Usage(2_000, None, 0)) or 0.0
    assert found.value == pytest.approx(0.5 * billed + each * priced + author)
    assert (found.known, found.parts, found.priced) == (billed + priced + 1, len(tasks) + 1, priced + 1)
    assert found.as_json()["priced"] == priced + 1


@pytest.mark.parametrize(
    "change",
    [{"agent": "oracle"}, {"agent_model": "scripted/careful"}, {"conditions": ["curated-static"]}, {"protocol": "skillflow", "environments": []}],  # noqa: E501
)  # fmt: skip
def test_another_agent_model_or_condition_is_no_basis(earlier: Experiment, change: dict[str, Any]) -> None:
    value = {**SPEC, "conditions": ["no-skill"], **change}
    if change == {"protocol": "skillflow", "environments": []}:
        value["conditions"] = ["history-context"]
    assert estimate(prepare(value)).whole.tokens.value is None


def test_a_deleted_experiment_is_no_basis(earlier: Experiment) -> None:
    Experiment.objects.update(deleted_at=datetime(2026, 1, 1, tzinfo=UTC))
    assert estimate(prepare(SPEC)).whole.seconds.value is None


@pytest.mark.parametrize(("setup", "basis"), [("", 0), ("a" * 64, 60)])
def test_of_imports_those_that_skillglass_launched_elsewhere_are_a_basis(
    earlier: Experiment, setup: str, basis: int
) -> None:
    Experiment.objects.update(origin="imported")
    Run.objects.update(setup_digest=setup)
    assert estimate(prepare(SPEC)).whole.basis == basis


def test_the_estimate_is_kept_with_the_experiment(earlier: Experiment) -> None:
    again = launch(SPEC)
    assert again.estimate["whole"]["tokens"]["value"] == 2 * 30 * 150.0
    assert earlier.estimate["whole"]["tokens"]["value"] is None


def test_it_asks_twice_whatever_the_size(earlier: Experiment) -> None:
    prepared = prepare({**SPEC, "replicates": 50, "environments": []})
    with CaptureQueriesContext(connection) as asked:
        estimate(prepared)
    assert len(asked) == 2


def test_an_agent_without_a_model_takes_no_tokens_and_no_money_even_if_it_never_ran() -> None:
    found = estimate(prepare(SPEC | {"agent_model": None, "author_model": None, "conditions": ["no-skill"]})).whole
    assert (found.tokens.value, found.tokens.is_whole, found.cost_usd.value) == (0, True, 0)
    assert found.seconds.value is None


def test_parts_that_take_nothing_do_not_make_the_unknown_rest_zero() -> None:
    free, unknown = Amount(0.0, 2, 2), Amount(None, 0, 3)
    assert (free + unknown).value is None
    assert (free + unknown + Amount(5.0, 1, 1)).value == 5.0
    assert (free + free).value == 0.0
