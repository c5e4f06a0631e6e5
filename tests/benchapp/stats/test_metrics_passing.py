"""pass@k against counting every choice of k tries."""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations
from math import isnan
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchapp.stats.metrics.outcomes import Outcomes
from benchapp.stats.metrics.passk import count_solved_within, pass_at_k, pass_curve
from tests.benchapp.stats.plain_rows import Row, as_columns, plain_row, runs_of_rows


def counted_out(tries: list[bool], k: int) -> float:
    """The share of all choices of k tries that hold a pass."""
    return fmean(any(chosen) for chosen in combinations(tries, k))


@given(tries=st.lists(st.booleans(), min_size=1, max_size=8), k=st.integers(1, 8))
@settings(deadline=None)
def test_it_equals_counting_every_choice(tries: list[bool], k: int) -> None:
    value = pass_at_k(len(tries), sum(tries), k)
    if k > len(tries):
        assert isnan(value)
    else:
        assert value == pytest.approx(counted_out(tries, k))


def scored_tries(rows: list[Row]) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        if row["phase"] in ("deployment", "evaluation") and not row["tainted"] and row["success"] is not None:
            found[row["task"]].append(row)
    return found


@given(rows=runs_of_rows())
@settings(deadline=None, max_examples=60)
def test_a_curve_is_the_mean_over_the_tasks_with_enough_tries(rows: list[Row]) -> None:
    tasks = scored_tries(rows)
    for point in pass_curve(as_columns(rows), (1, 2, 3)):
        enough = [[row["success"] for row in tries] for tries in tasks.values() if len(tries) >= point.k]
        assert (point.tasks, point.left_out) == (len(enough), len(tasks) - len(enough))
        assert point.samples == sum(map(len, enough))
        if enough:
            assert point.value == pytest.approx(fmean(counted_out(tries, point.k) for tries in enough))
        else:
            assert isnan(point.value)


@given(rows=runs_of_rows(), k=st.integers(1, 3))
@settings(deadline=None, max_examples=60)
def test_solved_within_takes_the_first_k_samples(rows: list[Row], k: int) -> None:
    early = {task: [row for row in tries if row["sample"] < k] for task, tries in scored_tries(rows).items()}
    solved = sum(any(row["success"] for row in tries) for tries in early.values())
    assert count_solved_within(as_columns(rows), k) == (solved, sum(bool(tries) for tries in early.values()))


def test_both_definitions_agree_where_every_task_was_tried_k_times() -> None:
    passed = {(1, 0): True, (1, 1): False, (1, 2): False, (2, 0): False, (2, 1): False, (2, 2): False}
    rows = [
        plain_row(n, phase="deployment", task=task, sample=sample, success=success)
        for n, ((task, sample), success) in enumerate(passed.items(), start=1)
    ]
    outcomes = as_columns(rows)
    assert [point.value for point in pass_curve(outcomes)] == pytest.approx([1 / 6, 1 / 3, 1 / 2])
    assert count_solved_within(outcomes, 3) == (1, 2)


def test_with_fewer_tries_than_k_only_the_unbiased_one_refuses() -> None:
    outcomes = as_columns([plain_row(1, phase="deployment", success=False)])
    assert isnan(pass_curve(outcomes, (3,))[0].value)
    assert count_solved_within(outcomes, 3) == (0, 1)


def test_replicates_are_averaged_and_not_pooled_as_tries() -> None:
    first, second = (
        as_columns([plain_row(1, phase="deployment", success=True)]),
        as_columns([plain_row(2, phase="deployment", success=False)]),
    )
    one, two = pass_curve([first, second], (1, 2))
    assert (one.value, one.tasks) == (0.5, 2)
    assert isnan(two.value)


def test_an_interval_needs_ten_tasks_or_two_runs_that_differ() -> None:
    def run(first: int, tasks: int, passed: int) -> Outcomes:
        rows = [plain_row(first + place, phase="deployment", success=place < passed) for place in range(tasks)]
        return as_columns([{**row, "task": place} for place, row in enumerate(rows)])

    assert pass_curve(run(1, 9, 4), (1,))[0].interval is None
    ends = pass_curve(run(1, 20, 10), (1,))[0].interval
    assert ends is not None
    assert 0 < ends[0] < 0.5 < ends[1] < 1
    assert pass_curve([run(1, 4, 1), run(101, 4, 1)], (1,))[0].interval is None
    assert pass_curve([run(1, 4, 1), run(101, 4, 2)], (1,))[0].interval == (0.0, 1.0)


@pytest.mark.parametrize(("n", "c", "k"), [(2, 3, 1), (2, -1, 1), (2, 1, 0)])
def test_it_refuses_impossible_counts(n: int, c: int, k: int) -> None:
    with pytest.raises(ValueError, match="expected"):
        pass_at_k(n, c, k)
