"""Weighted shares: by hand, against slow second implementations, and what must hold of any sample."""

from __future__ import annotations

from fractions import Fraction
from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm, t

from benchapp.review.results.population_shares import CodedSample, Share, horvitz_thompson, shares
from benchapp.stats.inference.shares import wilson


def sample(
    weights: list[float],
    strata: list[int] | None = None,
    clusters: list[int] | None = None,
    sizes: list[float] | None = None,
) -> CodedSample:
    strata = strata if strata is not None else [0] * len(weights)
    clusters = clusters if clusters is not None else list(range(len(weights)))
    found = sizes or [sum(w for w, s in zip(weights, strata, strict=True) if s == h) for h in range(max(strata) + 1)]
    return CodedSample(np.array(weights), np.array(strata), np.array(clusters), np.array(found))


def one(drawn: CodedSample, carried: list[float], domain: list[bool] | None = None) -> Share:
    inside = None if domain is None else np.array(domain)
    return shares(drawn, np.array(carried, dtype=float)[:, np.newaxis], inside)[0]


def test_it_weights_each_unit_by_how_many_it_stands_for() -> None:
    # two of a stratum of 2 and two of a stratum of 20: 1 of 2, and 0 of 2
    drawn = sample([1, 1, 10, 10], strata=[0, 0, 1, 1])
    share = one(drawn, [1, 0, 0, 0])
    assert share.value == pytest.approx(1 / 22)
    assert (share.k, share.n) == (1, 4)
    assert horvitz_thompson(drawn, np.array([[1.0], [0], [0], [1]]))[0] == 11


def test_it_gives_counts_alone_below_ten_units_and_says_why() -> None:
    share = one(sample([1.0] * 9), [1] * 3 + [0] * 6)
    assert (share.value, share.interval, share.sampling) == (pytest.approx(1 / 3), None, None)
    assert share.note == "9 coded, too few for an interval"


def test_it_gives_no_interval_over_fewer_than_six_clusters() -> None:
    share = one(sample([1.0] * 20, clusters=[place % 5 for place in range(20)]), [1] * 7 + [0] * 13)
    assert share.interval is None
    assert share.note == "5 clusters, too few for an interval"
    assert share.sampling is not None


def test_it_says_nothing_of_a_part_without_units() -> None:
    share = one(sample([1.0] * 12), [1] * 12, [False] * 12)
    assert (share.value, share.n, share.note) == (None, 0, "nothing coded")


def test_it_is_nearly_wilsons_interval_for_units_that_share_nothing() -> None:
    share = one(sample([5.0] * 400), [1] * 100 + [0] * 300)
    assert share.interval is not None
    assert (share.interval.low, share.interval.high) == pytest.approx(wilson(100, 400), abs=0.002)


def test_it_widens_where_units_of_a_cluster_agree() -> None:
    carried = [1.0] * 40 + [0.0] * 80
    apart = one(sample([1.0] * 120), carried).interval
    shared = one(sample([1.0] * 120, clusters=[place // 10 for place in range(120)]), carried).interval
    assert apart
    assert shared
    assert shared.high - shared.low > 2 * (apart.high - apart.low)


def test_it_knows_the_share_exactly_where_every_unit_was_coded() -> None:
    share = one(sample([1.0] * 30), [1] * 6 + [0] * 24)
    assert share.sampling is not None
    assert (share.sampling.low, share.sampling.high) == (0.2, 0.2)
    assert share.interval is not None
    assert share.interval.low < 0.2 < share.interval.high  # other episodes would still differ


def test_it_has_an_upper_end_where_nothing_was_found() -> None:
    share = one(sample([4.0] * 50), [0] * 50)
    assert share.interval
    assert share.sampling
    assert share.interval.low == 0 < share.sampling.high < share.interval.high < 0.15


def test_it_scales_a_share_to_a_larger_whole() -> None:
    share = one(sample([1.0] * 20), [1] * 5 + [0] * 15)
    scaled = share.times(0.4)
    assert scaled.value == pytest.approx(0.1)
    assert scaled.interval
    assert share.interval
    assert scaled.interval.high == pytest.approx(0.4 * share.interval.high)
    assert (scaled.k, scaled.n) == (share.k, share.n)
    assert share.times(None).value is None


UNITS = st.lists(
    st.tuples(
        st.floats(1, 50),
        st.integers(0, 2),
        st.integers(0, 9),
        st.sampled_from([0.0, 0.5, 1.0]),
        st.booleans(),
    ),
    min_size=12,
    max_size=40,
)


def parts(units: list[tuple[float, int, int, float, bool]]) -> tuple[CodedSample, list[float], list[bool]]:
    weights, strata, clusters, carried, domain = (list(column) for column in zip(*units, strict=True))
    order = {stratum: place for place, stratum in enumerate(sorted(set(strata)))}
    placed = [order[stratum] for stratum in strata]
    taken = [placed.count(place) for place in range(len(order))]
    return sample(weights, placed, clusters, [2.0 * count for count in taken]), carried, domain


@given(UNITS)
def test_it_finds_hajeks_share_as_exact_fractions_do(units: list[tuple[float, int, int, float, bool]]) -> None:
    drawn, carried, domain = parts(units)
    share = one(drawn, carried, domain)
    inside = [
        (Fraction(weight), Fraction(value))
        for (weight, *_), value, is_in in zip(units, carried, domain, strict=True)
        if is_in
    ]
    if not inside:
        assert share.value is None
        return
    exact = sum(w * y for w, y in inside) / sum(w for w, _ in inside)
    assert share.value == pytest.approx(float(exact), abs=1e-12)
    assert share.k == pytest.approx(float(sum(y for _, y in inside)))
    assert share.n == len(inside)


@given(UNITS, st.floats(0.01, 100))
def test_it_does_not_depend_on_the_scale_of_the_weights_nor_on_order(
    units: list[tuple[float, int, int, float, bool]], scale: float
) -> None:
    drawn, carried, domain = parts(units)
    scaled, *_ = parts([(weight * scale, *rest) for weight, *rest in reversed(units)])
    here, there = one(drawn, carried, domain), one(scaled, carried[::-1], domain[::-1])
    assert here.n == there.n
    for own, other in ((here.interval, there.interval), (here.sampling, there.sampling)):
        assert (own is None) == (other is None)
        if own and other:
            assert (own.low, own.high) == pytest.approx((other.low, other.high), abs=1e-9)


@given(UNITS)
def test_its_intervals_hold_the_share_and_stay_within_0_and_1(units: list[tuple[float, int, int, float, bool]]) -> None:
    share = one(*parts(units))
    for interval in (share.interval, share.sampling):
        if interval:
            assert share.value is not None
            assert 0 <= interval.low <= share.value + 1e-12
            assert share.value - 1e-12 <= interval.high <= 1


@settings(deadline=None)
@given(UNITS)
def test_its_variance_over_clusters_is_that_of_the_textbook(units: list[tuple[float, int, int, float, bool]]) -> None:
    """Taylor's formula written out as sums over clusters; the interval is then Wilson's on p (1 - p) / v units."""
    drawn, carried, domain = parts(units)
    share = one(drawn, carried, domain)
    if share.interval is None or share.value in (None, 0.0, 1.0):
        return
    total = sum(weight for (weight, *_), is_in in zip(units, domain, strict=True) if is_in)
    sums: dict[int, float] = {}
    for weight, _, cluster, value, is_in in units:
        if is_in:
            sums[cluster] = sums.get(cluster, 0.0) + weight * (value - share.value) / total
    count = len(sums)
    variance = count / (count - 1) * sum(each**2 for each in sums.values())
    squares = sum(weight**2 for (weight, *_), is_in in zip(units, domain, strict=True) if is_in)
    most = total**2 / squares
    number = min(most, share.value * (1 - share.value) / variance) if variance > 1e-12 else most
    number = max(1.0, number * (norm.ppf(0.975) / t.ppf(0.975, count - 1)) ** 2)
    z = norm.ppf(0.975)
    middle = (share.value + z * z / (2 * number)) / (1 + z * z / number)
    half = z * sqrt(share.value * (1 - share.value) / number + z * z / (4 * number**2)) / (1 + z * z / number)
    assert (share.interval.low, share.interval.high) == pytest.approx((middle - half, middle + half), abs=1e-9)


def test_it_covers_the_share_of_the_population_in_repeated_draws() -> None:
    """Stratified draws of unequal sizes from one fixed population: unbiased, and the interval holds the truth."""
    rng = np.random.default_rng(3)
    population = [(rng.random(size) < chance).astype(float) for size, chance in ((30, 0.5), (120, 0.2), (300, 0.05))]
    truth = sum(each.sum() for each in population) / sum(map(len, population))
    values, held = [], 0
    for _ in range(400):
        drawn = [rng.choice(len(each), 15, replace=False) for each in population]
        carried = np.concatenate([each[taken] for each, taken in zip(population, drawn, strict=True)])
        weights = np.repeat([len(each) / 15 for each in population], 15)
        strata = np.repeat(np.arange(3), 15)
        design = CodedSample(weights, strata, np.arange(45), np.array([len(each) for each in population], dtype=float))
        (share,) = shares(design, carried[:, np.newaxis])
        assert share.value is not None
        assert share.sampling is not None
        values.append(share.value)
        held += share.sampling.low <= truth <= share.sampling.high
    assert np.mean(values) == pytest.approx(truth, abs=4 * np.std(values) / 20)
    assert held >= 0.93 * 400
