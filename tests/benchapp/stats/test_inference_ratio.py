"""What a passed trial cost: a ratio, and how sure it is."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t as student

from benchapp.stats.inference.difference import divide_by_passes
from benchapp.stats.inference.sides import TaskMeans


def replicate(values: np.ndarray, episodes: np.ndarray) -> TaskMeans:
    tasks = np.arange(len(values))
    return TaskMeans(tasks, episodes, episodes, values)


def draw(dice: np.random.Generator, *, episodes: int, runs: int, tasks: int = 3, share: float = 0.6):
    """Runs whose failed trials cost twice as much, in episodes of unlike difficulty."""
    place = np.repeat(np.arange(episodes), tasks)
    hard = dice.normal(0, 0.15, episodes)
    spent, passed = [], []
    for _ in range(runs):
        solved = (dice.random(episodes * tasks) < np.clip(share + hard[place], 0, 1)).astype(float)
        spent.append(replicate((2 - solved) * dice.gamma(4, 0.25, len(solved)), place))
        passed.append(replicate(solved, place))
    return spent, passed


def test_it_is_the_whole_bill_over_all_passes() -> None:
    spent, passed = draw(np.random.default_rng(1), episodes=5, runs=2)
    found = divide_by_passes(spent, passed)
    assert found is not None
    bill, passes = sum(each.value.sum() for each in spent), sum(each.value.sum() for each in passed)
    assert found.per_solved == pytest.approx(bill / passes)
    assert found.per_trial == pytest.approx(bill / 30)
    assert found.tasks == 15


def test_of_one_run_the_error_is_that_of_the_log_ratio_over_episodes() -> None:
    (spent,), (passed,) = draw(np.random.default_rng(2), episodes=8, runs=1)
    found = divide_by_passes([spent], [passed])
    cost, solved = spent.value.reshape(8, 3).mean(axis=1), passed.value.reshape(8, 3).mean(axis=1)
    apart = cost / cost.mean() - solved / solved.mean()
    half = student.ppf(0.975, 8 - 1 - 0.5) * apart.std(ddof=1) / 8**0.5
    assert (found.interval.low, found.interval.high) == pytest.approx(
        (found.per_solved * np.exp(-half), found.per_solved * np.exp(half))
    )


@pytest.mark.parametrize("runs", [1, 3])
def test_the_interval_holds_the_true_ratio_nineteen_times_of_twenty(runs: int) -> None:
    """Many experiments on episodes of one kind; replicates repeat the same episodes, so how hard these are stays."""
    held, count = 0, 250
    for seed in range(count):
        dice = np.random.default_rng(seed)
        if runs > 1:  # the truth for these episodes, from many more runs of them
            many = np.random.default_rng(seed)
            spent, passed = draw(many, episodes=10, runs=150)
            truth = sum(each.value.sum() for each in spent) / sum(each.value.sum() for each in passed)
            spent, passed = spent[:runs], passed[:runs]
        else:
            spent, passed = draw(dice, episodes=10, runs=1)
            truth = TRUTH
        found = divide_by_passes(spent, passed)
        held += found.interval.low <= truth <= found.interval.high
    assert 0.91 <= held / count <= 0.985


# (2 - p) / p at the mean of p over episodes, whose clipping at 1 is slight: measured on 200,000 episodes.
_P = np.clip(0.6 + np.random.default_rng(0).normal(0, 0.15, 200_000), 0, 1).mean()
TRUTH = (2 - _P) / _P


def test_nothing_passed_or_spent_has_no_price() -> None:
    place = np.arange(4)
    nothing, all_of_it = replicate(np.zeros(4), place), replicate(np.ones(4), place)
    assert divide_by_passes([all_of_it], [nothing]) is None
    assert divide_by_passes([nothing], [all_of_it]) is None
    found = divide_by_passes([all_of_it], [all_of_it])
    assert (found.per_solved, found.interval) == (1.0, None), "without spread nothing shows the error"
