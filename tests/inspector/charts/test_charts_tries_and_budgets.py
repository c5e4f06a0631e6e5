"""pass@k by group, and success within a budget of tokens."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from benchapp.models import Run
from benchapp.papers.published_rows import read_published_rows
from inspector.charts.figures import budgets, pass_at_k
from inspector.charts.figures.budgets import budgets_over
from tests.worlds.charted import drawn, queries_of
from tests.worlds.factories import make_run, make_task, make_trial, make_unordered_episode

pytestmark = pytest.mark.django_db

T, F = True, False


def make_samples(run: Run, *tasks: Sequence[bool | None]) -> None:
    """Per task the success of its samples in their order."""
    episode = make_unordered_episode(run)
    for outcomes in tasks:
        task = make_task()
        for sample, success in reversed(list(enumerate(outcomes))):  # a new trial is sample 0 until its fields are set
            make_trial(episode, task, phase="evaluation", success=success, sample=sample)


def test_it_draws_the_unbiased_estimate_over_the_tasks_that_have_k_samples() -> None:
    make_samples(make_run(), (T, F, F), (F, F, None))
    drawing = drawn(pass_at_k.CHART)
    records = drawing.table.records()
    assert [record["k"] for record in records] == [1, 2, 3]
    # k=2: of three tries with one pass two thirds of the pairs hold it; the other task never passes
    assert [record["value"] for record in records] == pytest.approx([100 / 6, 100 / 3, 100.0])
    assert [(record["tasks"], record["samples"], record["left_out"]) for record in records] == [
        (2, 5, 0),
        (2, 5, 0),
        (1, 3, 1),
    ]
    assert [(record["any_passed"], record["any_tried"]) for record in records] == [(1, 2)] * 3
    assert list(drawing.figure.data[0].y) == [record["value"] for record in records]


def test_it_has_no_curve_without_a_second_sample() -> None:
    make_samples(make_run(), (T,), (F,))
    assert "two scored samples" in drawn(pass_at_k.CHART).absent


def test_it_draws_printed_values_alone_and_beside() -> None:
    printed = [row.value for row in read_published_rows("skillgenbench") if row.metric == "pass@3" and row.condition]
    alone = drawn(pass_at_k.CHART, "published=skillgenbench")
    assert sorted(alone.figure.data[0].x) == sorted(printed)
    make_samples(make_run(), (T, F))
    beside = drawn(pass_at_k.CHART, "published=skillgenbench")
    marks = beside.figure.data[-1]
    assert list(marks.y) == printed
    assert set(marks.x) == {3}


def make_spent(run: Run, *trials: tuple[int | None, bool | None]) -> None:
    episode = make_unordered_episode(run)
    for tokens, success in trials:
        given = {"input_tokens": tokens, "cached_tokens": None, "output_tokens": None if tokens is None else 0}
        make_trial(episode, phase="evaluation", success=success, attempt=given)


def test_it_counts_what_was_solved_within_each_budget() -> None:
    make_spent(make_run(), (1000, T), (2000, F), (4000, T), (8000, T), (None, T), (500, None))
    drawing = drawn(budgets.BUDGET_CHART)
    records = drawing.table.records()
    assert {(record["trials"], record["unknown"]) for record in records} == {(4, 1)}
    for record in records:
        assert record["passed"] == sum(record["budget"] >= needed for needed in (1000, 4000, 8000)), record
    assert records[-1]["solved"] == 75.0
    assert list(drawing.figure.data[0].y) == [record["solved"] for record in records]


def test_it_counts_output_alone_when_asked() -> None:
    make_trial(make_unordered_episode(), phase="evaluation", attempt={"input_tokens": None, "output_tokens": 300})
    assert "reports its tokens" in drawn(budgets.BUDGET_CHART).absent
    assert drawn(budgets.BUDGET_CHART, "option=tokens:output").table.records()[-1]["budget"] == 300


def test_it_chooses_budgets_from_the_least_to_the_most() -> None:
    budgets = budgets_over([1234.0, 98765.0])
    assert budgets[0] == 1200
    assert budgets[-1] == 99000
    assert budgets == sorted(set(budgets))
    assert 8 <= len(budgets) <= 11
    assert budgets_over([5.0]) == [5]
    assert budgets_over([]) == []


def test_it_draws_printed_plateaus_and_says_what_they_are() -> None:
    drawing = drawn(budgets.BUDGET_CHART, "published=skillgenbench")
    ends = {(trace.x[0], trace.x[1]) for trace in drawing.figure.data}
    assert ends == {(18.0, 20.0), (10.0, 17.0)}
    assert any("does not publish the numbers" in note for note in drawing.notes)


@pytest.mark.parametrize("chart", [pass_at_k.CHART, budgets.BUDGET_CHART], ids=lambda chart: chart.key)
def test_it_asks_no_more_for_more_tasks(chart: object) -> None:
    run = make_run()
    make_samples(run, (T, F))
    few = queries_of(chart)
    make_samples(run, *[(T, F)] * 5)
    assert queries_of(chart) == few
