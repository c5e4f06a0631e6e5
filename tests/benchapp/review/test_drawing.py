"""Draws: reproducible, of known probability, weighted back to the whole."""

from __future__ import annotations

import random
from collections import Counter
from uuid import UUID

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from benchapp.review.queues.item_drawing import Draw, Undrawable, allot, draw

SIZES = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 40), min_size=1)


def ids(total: int, start: int = 0) -> list[UUID]:
    dice = random.Random(start)
    return [UUID(int=dice.getrandbits(128)) for _ in range(total)]


def strata(sizes: dict[str, int]) -> dict[str, list[UUID]]:
    return {name: ids(size, ord(name)) for name, size in sizes.items()}


@st.composite
def draws(any_, sizes: dict[str, int]) -> Draw:
    return Draw(
        sampling=any_(st.sampled_from(["all", "stratified"])),
        size=any_(st.integers(1, 400)),
        allocation=any_(st.sampled_from(["equal", "proportional"])),
        reviews=any_(st.integers(1, 3)),
        overlap=any_(st.floats(0, 1)),
        seed=any_(st.integers(0, 2**31)),
    )


@settings(max_examples=150, deadline=None)
@given(st.data(), SIZES)
def test_the_weights_add_up_to_every_stratum(data: st.DataObject, sizes: dict[str, int]) -> None:
    how = data.draw(draws(sizes))
    assume(how.sampling == "all" or how.allocation == "equal" or min(how.size, sum(sizes.values())) >= len(sizes))
    items = draw(strata(sizes), how)
    weights: Counter[str] = Counter()
    for item in items:
        assert 0 < item.inclusion <= 1
        weights[item.stratum] += 1 / item.inclusion
    assert weights == pytest.approx(sizes)
    assert len({item.public_id for item in items}) == len(items)


@settings(max_examples=60, deadline=None)
@given(SIZES, st.integers(0, 2**31), st.randoms())
def test_the_same_seed_draws_the_same_whatever_order_rows_come_in(
    sizes: dict[str, int], seed: int, dice: random.Random
) -> None:
    how = Draw("stratified", size=5, reviews=2, overlap=0.4, seed=seed)
    given_order = strata(sizes)
    other_order = {name: dice.sample(found, len(found)) for name, found in reversed(given_order.items())}
    assert draw(given_order, how) == draw(other_order, how)


def test_another_seed_draws_another_sample() -> None:
    one, other = (draw({"": ids(200)}, Draw("random", size=20, seed=seed)) for seed in (1, 2))
    assert {item.public_id for item in one} != {item.public_id for item in other}


@settings(max_examples=200, deadline=None)
@given(SIZES, st.integers(1, 400))
def test_proportional_numbers_add_up_and_leave_no_stratum_out(sizes: dict[str, int], size: int) -> None:
    total = sum(sizes.values())
    how = Draw("stratified", size=size, allocation="proportional")
    assume(min(size, total) >= len(sizes))
    found = allot(sizes, how)
    assert sum(found.values()) == min(size, total)
    assert all(1 <= found[name] <= sizes[name] for name in sizes)


def test_proportional_numbers_are_in_proportion() -> None:
    how = Draw("stratified", size=10, allocation="proportional")
    assert allot({"a": 60, "b": 30, "c": 10}, how) == {"a": 6, "b": 3, "c": 1}
    assert allot({"a": 96, "b": 2, "c": 2}, how) == {"a": 8, "b": 1, "c": 1}


def test_a_draw_too_small_for_its_strata_is_refused_because_nothing_could_stand_for_them() -> None:
    with pytest.raises(Undrawable, match="at least 3"):
        allot({"a": 60, "b": 30, "c": 10}, Draw("stratified", size=2, allocation="proportional"))


def test_equal_numbers_take_all_of_a_small_stratum() -> None:
    found = draw(strata({"a": 30, "b": 2}), Draw("stratified", size=5))
    assert Counter((item.stratum, item.inclusion) for item in found) == {("a", 5 / 30): 5, ("b", 1.0): 2}


def test_units_are_drawn_as_often_as_their_inclusion_says() -> None:
    """Over 3,000 seeds the share of draws that hold a unit lies within four standard errors of n/N, for every unit."""
    population, rounds = {"a": ids(12, 1), "b": ids(5, 2)}, 3_000
    times: Counter[UUID] = Counter()
    inclusion = {}
    for seed in range(rounds):
        for item in draw(population, Draw("stratified", size=3, seed=seed)):
            times[item.public_id] += 1
            inclusion[item.public_id] = item.inclusion
    assert len(inclusion) == 17
    for public_id, p in inclusion.items():
        error = (p * (1 - p) / rounds) ** 0.5
        assert abs(times[public_id] / rounds - p) < 4 * error


def test_pairs_of_units_are_drawn_together_as_often_as_a_simple_random_sample_would() -> None:
    """Joint inclusion of two of N is n(n-1) / N(N-1): what a variance assumes."""
    population, rounds, size = ids(8, 3), 4_000, 3
    together: Counter[frozenset[UUID]] = Counter()
    for seed in range(rounds):
        found = [item.public_id for item in draw({"": population}, Draw("random", size=size, seed=seed))]
        together.update(frozenset((one, other)) for one in found for other in found if one < other)
    p = size * (size - 1) / (8 * 7)
    error = (p * (1 - p) / rounds) ** 0.5
    assert len(together) == 28
    assert all(abs(count / rounds - p) < 4.5 * error for count in together.values())


def test_controls_have_a_probability_of_their_own_and_hide_among_the_others() -> None:
    failed, passed = {"": ids(40, 4)}, {"": ids(80, 5)}
    items = draw(failed, Draw("random", size=20, controls=10, seed=7), passed)
    controls = [item for item in items if item.is_control]
    assert {item.inclusion for item in controls} == {10 / 80}
    assert {item.inclusion for item in items if not item.is_control} == {20 / 40}
    assert {item.public_id for item in controls} <= set(passed[""])
    places = [place for place, item in enumerate(items) if item.is_control]
    assert max(places) - min(places) > 10  # not in a row at either end


def test_controls_need_something_that_passed() -> None:
    with pytest.raises(Undrawable, match="no passed trial"):
        draw({"": ids(4)}, Draw(controls=2), {})


def test_the_overlap_is_a_random_share_with_its_number_of_reviews() -> None:
    items = draw({"": ids(50)}, Draw(reviews=3, overlap=0.3, seed=3))
    overlap = [item for item in items if item.is_overlap]
    assert len(overlap) == 15
    assert {item.reviews for item in overlap} == {3}
    assert {item.reviews for item in items if not item.is_overlap} == {1}
    assert [item.is_overlap for item in items] != sorted((item.is_overlap for item in items), reverse=True)


@pytest.mark.parametrize(("reviews", "overlap", "twice"), [(1, 1.0, 0), (2, 0.0, 0), (2, 0.001, 1), (2, 1.0, 50)])
def test_the_ends_of_the_overlap(reviews: int, overlap: float, twice: int) -> None:
    items = draw({"": ids(50)}, Draw(reviews=reviews, overlap=overlap))
    assert sum(item.is_overlap for item in items) == twice


@pytest.mark.parametrize(
    ("how", "says"),
    [
        (Draw("random", size=0), "At least one item"),
        (Draw(reviews=0), "at least one review"),
        (Draw(overlap=1.5), "from 0 to 1"),
        (Draw(overlap=float("nan")), "from 0 to 1"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(how: Draw, says: str) -> None:
    with pytest.raises(Undrawable, match=says):
        draw({"": ids(5)}, how)


def test_an_empty_population_is_refused() -> None:
    with pytest.raises(Undrawable, match="empty"):
        draw({"": []}, Draw())
