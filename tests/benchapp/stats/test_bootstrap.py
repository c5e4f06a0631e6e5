"""The interval of alpha: what it is built from, and where there is none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from benchapp.stats.agreement import (
    RESAMPLES,
    Unit,
    alpha,
    bootstrap_t,
    estimate,
    log_and_error,
    masi_distance,
    nominal_distance,
    resamples,
    student,
    tally,
)


def world(tasks: int, items: int, *, agree: float = 0.7, seed: int = 3) -> tuple[list[Unit], list[int]]:
    """Items over tasks; a second reviewer who repeats the first in that share of them."""
    rng = np.random.default_rng(seed)
    units: list[Unit] = []
    for _ in range(items):
        first, other = (frozenset(rng.choice(list("abcd"), size=rng.integers(0, 3), replace=False)) for _ in range(2))
        units.append({"ann": first, "bob": first if rng.random() < agree else other})
    return units, [place % tasks for place in range(items)]


def test_the_interval_holds_the_value_and_names_its_method() -> None:
    units, tasks = world(20, 60)
    found = estimate(units, tasks, masi_distance)
    assert found.value == pytest.approx(alpha(units, masi_distance))
    assert found.interval is not None
    assert found.interval.low < found.value < found.interval.high < 1
    assert found.interval.method == "bootstrap-t over tasks, 4,000 resamples"
    assert (found.units, found.clusters, found.answers) == (60, 20, 120)


def test_the_same_data_give_the_same_interval() -> None:
    units, tasks = world(12, 40)
    assert estimate(units, tasks, masi_distance) == estimate(units, tasks, masi_distance)


def test_items_of_one_task_are_drawn_together() -> None:
    """Forty copies of ten tasks know no more than the ten: only the tasks count."""
    units, tasks = world(10, 10, agree=0.4)
    once, often = (estimate(units * times, tasks * times, masi_distance) for times in (1, 40))
    assert once.interval is not None
    assert often.interval is not None
    assert often.clusters == 10
    width = [each.interval.high - each.interval.low for each in (once, often) if each.interval]
    assert width[1] == pytest.approx(width[0], rel=0.25)
    apart = estimate(units * 40, list(range(400)), masi_distance)
    assert apart.interval is not None
    assert apart.interval.high - apart.interval.low < width[1] / 3


def test_below_ten_tasks_nothing_is_drawn_and_below_six_there_is_no_interval() -> None:
    few = estimate(*world(9, 40), masi_distance)
    assert few.interval is not None
    assert few.interval.method == "Student's t over tasks, on log(1 - alpha)"
    fewer = estimate(*world(5, 40), masi_distance)
    assert fewer.value is not None
    assert fewer.interval is None
    assert fewer.note == "5 tasks, too few for an interval"


def test_resamples_without_disagreement_in_a_tail_leave_students_t() -> None:
    units: list[Unit] = [{1: "ab"[place % 2], 2: "ab"[place % 2]} for place in range(30)]
    units[0] = {1: "a", 2: "b"}
    found = tally(units, nominal_distance, clusters=list(range(30)))
    assert bootstrap_t(found) is None
    assert estimate(units, list(range(30)), nominal_distance).interval == student(found)


@pytest.mark.parametrize(
    ("units", "note"),
    [
        ([{1: "a"}] * 20, "no item has two answers"),
        ([{1: "a", 2: "a"}] * 20, "all 40 answers are the same"),
        ([{1: "a", 2: "a"}, {1: "b", 2: "b"}] * 10, "nobody disagreed"),
    ],
)
def test_where_there_is_no_interval_it_says_why(units: list[Unit], note: str) -> None:
    found = estimate(units, list(range(20)), nominal_distance)
    assert found.interval is None
    assert note in found.note


@given(st.integers(0, 1000))
def test_the_error_is_the_derivative_by_the_weight_of_each_task(seed: int) -> None:
    """The linearised slopes, seen through the error, against differences of alpha itself."""
    units, tasks = world(8, 24, agree=0.5, seed=seed)
    found = tally(units, masi_distance, clusters=tasks)
    assume(found.varies and found.apart.sum() > 0)
    step = 1e-5
    plain = np.ones((1, 8))
    up, _ = log_and_error(found, plain + step * np.eye(8))
    down, _ = log_and_error(found, plain - step * np.eye(8))
    slopes = (up - down) / (2 * step)
    spread = np.sqrt(np.square(slopes - slopes.mean()).sum() * 8 / 7)
    assert log_and_error(found, plain)[1][0] == pytest.approx(spread, rel=1e-5)


def test_every_resample_draws_as_many_tasks_as_there_are() -> None:
    weights = resamples(11)
    assert weights.shape == (RESAMPLES, 11)
    assert set(weights.sum(axis=1)) == {11.0}
