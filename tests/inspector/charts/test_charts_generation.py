"""pass@k against the budget of the author: lines, bands, what was spent, and which numbers are no budgets."""

from __future__ import annotations

import pytest

from benchapp.models import Blob, ModelCall, Run
from benchapp.stats.comparing.author_budgets import budget_of
from inspector.charts.figures import budgets
from tests.worlds.charted import drawn, queries_of
from tests.worlds.factories import START, make_episode, make_experiment, make_run, make_task, make_trial

pytestmark = pytest.mark.django_db

T, F = True, False


def make_budget_run(experiment: object, condition: str, *tasks: tuple[bool | None, ...], **fields: object) -> Run:
    run = make_run(experiment, condition=condition, **fields)
    episode = make_episode(run)
    for outcomes in tasks:
        task = make_task()
        for sample, success in reversed(list(enumerate(outcomes))):
            make_trial(episode, task, phase="deployment", success=success, sample=sample)
    return run


def spend(run: Run, *output_tokens: int | None, purpose: str = "author") -> None:
    for place, tokens in enumerate(output_tokens):
        ModelCall.objects.create(
            episode=run.episodes.get(),
            key=f"{purpose}/{place}",
            purpose=purpose,
            model="author",
            status="answered",
            request_id=Blob.objects.put(b"{}"),
            output_tokens=tokens,
            started_at=START,
        )


@pytest.mark.parametrize(
    ("condition", "budget"),
    [
        ("naive-prompt@8000", 8000),
        ("skill-net@128000", 128_000),
        ("naive-prompt", None),
        ("self-feedback@4", None),  # rounds
        ("naive-prompt@", None),
        ("naive-prompt@8k", None),
        ("naive-prompt@-800", None),
        ("naive-prompt@99999999999", None),
    ],
)
def test_it_knows_a_budget_by_its_size(condition: str, budget: int | None) -> None:
    assert budget_of(condition) == budget


def test_it_draws_a_line_per_method_and_a_panel_per_author() -> None:
    experiment = make_experiment()
    make_budget_run(experiment, "naive-prompt@8000", (F, T), (F, F), author_model="a")
    make_budget_run(experiment, "naive-prompt@2000", (F, F), (F, F), author_model="a")
    make_budget_run(experiment, "iterative@8000", (T, T), (F, T), author_model="b")
    make_budget_run(experiment, "naive-prompt", (T, T), author_model="a")
    drawing = drawn(budgets.GENERATION_CHART)
    told = [(row["method"], row["author"], row["budget"], row["value"]) for row in drawing.table.records()]
    assert told == [
        ("naive-prompt", "a", 2000, 0.0),
        ("naive-prompt", "a", 8000, 50.0),
        ("iterative", "b", 8000, 100.0),
    ]
    assert {row["name"] for row in drawing.table.records()} == {"pass@2"}
    assert {title.text for title in drawing.figure.layout.annotations} == {"a", "b"}
    curves = {trace.name: list(trace.x) for trace in drawing.figure.data if trace.mode == "markers"}
    assert curves == {"One prompt": [2000, 8000], "In rounds": [8000]}  # no line joins two points


def test_the_band_and_the_table_hold_the_same_interval() -> None:
    make_budget_run(make_experiment(), "naive-prompt@8000", (F, T), (F, F), (T, T), (F, F), (F, None))
    drawing = drawn(budgets.GENERATION_CHART)
    (row,) = drawing.table.records()
    assert (row["solved"], row["complete"], row["planned"]) == (2, 4, 5)
    band = next(trace for trace in drawing.figure.data if trace.fill == "toself")
    assert list(band.y) == [row["high"], row["low"]]
    assert row["low"] < row["value"] < row["high"]
    assert any("unscored sample" in note for note in drawing.notes)


def test_it_tells_what_the_author_spent_and_not_what_a_judge_did() -> None:
    run = make_budget_run(make_experiment(), "naive-prompt@8000", (F, T))
    spend(run, 3000, 900)
    spend(run, 100, purpose="generator")
    spend(run, 500, purpose="judge")
    assert drawn(budgets.GENERATION_CHART).table.records()[0]["spent"] == 4000


def test_an_answer_that_tells_no_tokens_leaves_the_sum_unknown() -> None:
    run = make_budget_run(make_experiment(), "naive-prompt@8000", (F, T))
    spend(run, 3000, None)
    record = drawn(budgets.GENERATION_CHART).table.records()[0]
    assert (record["spent"], record["libraries"]) == (None, 1)


def test_without_a_budget_it_says_so() -> None:
    make_budget_run(make_experiment(), "naive-prompt", (F, T))
    assert "had a budget" in drawn(budgets.GENERATION_CHART).absent


def test_it_asks_no_more_for_more_budgets() -> None:
    experiment = make_experiment()
    make_budget_run(experiment, "naive-prompt@2000", (F, T))
    few = queries_of(budgets.GENERATION_CHART)
    for budget in (4000, 8000, 16_000):
        make_budget_run(experiment, f"naive-prompt@{budget}", (F, T))
    assert queries_of(budgets.GENERATION_CHART) == few
