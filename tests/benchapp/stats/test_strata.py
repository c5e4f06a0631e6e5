"""The exact test over tasks: it is Fisher's for one task, and knows when nothing could have told the sides apart."""

from __future__ import annotations

from itertools import product
from math import comb

import pytest
from scipy.stats import fisher_exact

from benchapp.stats.inference.strata import Stratum, stratified_test


@pytest.mark.parametrize(("a", "b"), [(0, 5), (1, 4), (5, 0), (3, 3), (5, 5)])
def test_for_one_task_it_is_fishers(a: int, b: int) -> None:
    found = stratified_test([Stratum(a, 5, b, 5)])
    assert found is not None
    assert found.p == pytest.approx(fisher_exact([[a, 5 - a], [b, 5 - b]]).pvalue)


def test_over_tasks_it_is_the_sum_over_every_way_the_passes_could_lie() -> None:
    strata = [Stratum(3, 4, 1, 3), Stratum(2, 3, 0, 4), Stratum(0, 2, 1, 2)]
    chance: dict[int, float] = {}
    ranges = [range(each.passed + each.other_passed + 1) for each in strata]
    for ks in product(*ranges):
        ways = 1.0
        for k, each in zip(ks, strata, strict=True):
            m = each.passed + each.other_passed
            ways *= comb(each.scored, k) * comb(each.other_scored, m - k) / comb(each.scored + each.other_scored, m)
        chance[sum(ks)] = chance.get(sum(ks), 0.0) + ways
    seen = chance[sum(each.passed for each in strata)]
    found = stratified_test(strata)
    assert found is not None
    assert found.p == pytest.approx(sum(value for value in chance.values() if value <= seen * (1 + 1e-9)))
    assert found.tasks == 3


def test_too_few_trials_are_said_to_be_too_few() -> None:
    few, more = stratified_test([Stratum(2, 2, 0, 2)]), stratified_test([Stratum(2, 2, 0, 2)] * 3)
    assert few is not None
    assert more is not None
    assert (few.p, few.smallest, few.is_enough) == (pytest.approx(1 / 3), pytest.approx(1 / 3), False)
    assert more.p == more.smallest == pytest.approx(2 / 6**3)
    assert more.is_enough


def test_a_task_that_one_side_never_scored_says_nothing() -> None:
    assert stratified_test([Stratum(3, 3, 0, 0)]) is None
    both = stratified_test([Stratum(3, 3, 0, 0), Stratum(1, 2, 1, 2)])
    assert both is not None
    assert both.tasks == 1
