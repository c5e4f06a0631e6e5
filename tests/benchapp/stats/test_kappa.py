"""Agreement on single codes, and which codes stand for each other."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from nltk.metrics.agreement import AnnotationTask

from benchapp.stats.agreement import (
    COHEN,
    KRIPPENDORFF,
    NONE,
    CodeAgreement,
    alpha,
    cells_of,
    cohen_kappa,
    confusion,
    count_agreed,
    nominal_distance,
)

answers = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), min_size=1, max_size=30)
code_sets = st.frozensets(st.sampled_from("abcd"))


def two(*counts: tuple[str, str, int]) -> list[dict[str, str]]:
    return [{"ann": a, "bob": b} for a, b, times in counts for _ in range(times)]


def test_kappa_of_a_textbook_table() -> None:
    """20 yes/yes, 5 yes/no, 10 no/yes, 15 no/no: 0.7 agreed, 0.5 by chance."""
    units = two(("y", "y", 20), ("y", "n", 5), ("n", "y", 10), ("n", "n", 15))
    assert cohen_kappa(units) == pytest.approx(0.4)
    assert (count_agreed(units).k, count_agreed(units).n) == (35, 50)


@given(answers)
def test_kappa_equals_nltks(pairs: list[tuple[str, str]]) -> None:
    units = [{"ann": a, "bob": b} for a, b in pairs]
    assume(len({value for pair in pairs for value in pair}) > 1)
    data = [(who, place, said) for place, unit in enumerate(units) for who, said in unit.items()]
    assert cohen_kappa(units) == pytest.approx(AnnotationTask(data).kappa(), abs=1e-9)


@pytest.mark.parametrize("units", [[], two(("y", "y", 3))])
def test_kappa_has_no_value_where_chance_agrees_always(units: list[dict[str, str]]) -> None:
    assert cohen_kappa(units) is None


# Fleiss (1971), table 1: 30 patients, 6 psychiatrists each, 5 diagnoses; kappa 0.430.
FLEISS = """
0 0 0 6 0|0 3 0 0 3|0 1 4 0 1|0 0 0 0 6|0 3 0 3 0|2 0 4 0 0|0 0 4 0 2|2 0 3 1 0|2 0 0 4 0|0 0 0 0 6
1 0 0 5 0|1 1 0 4 0|0 3 3 0 0|1 0 0 5 0|0 2 0 3 1|0 0 5 0 1|3 0 0 1 2|5 1 0 0 0|0 2 0 4 0|1 0 2 0 3
0 0 0 0 6|0 1 0 5 0|0 2 0 1 3|2 0 0 4 0|1 0 0 4 1|0 5 0 1 0|4 0 0 0 2|0 2 0 4 0|1 0 5 0 0|0 0 0 0 6
"""


def test_alpha_of_many_reviewers_is_fleiss_kappa_but_for_its_small_sample_term() -> None:

    table = [[int(n) for n in cell.split()] for line in FLEISS.split("\n") if line for cell in line.split("|")]
    units = [dict(enumerate([kind for kind, n in enumerate(row) for _ in range(n)])) for row in table]
    found = alpha(units, nominal_distance)
    assert found is not None
    total = 30 * 6
    assert found - (1 - found) / (total - 1) == pytest.approx(0.430, abs=0.0005)


def test_one_code_between_the_same_two_people_has_cohens_kappa() -> None:
    units = [
        {"ann": frozenset("ab"), "bob": frozenset("a")},
        {"ann": frozenset("b"), "bob": frozenset("ab")},
        {"ann": frozenset(), "bob": frozenset()},
        {"ann": frozenset("a"), "bob": frozenset("a")},
    ]
    found = CodeAgreement(units, "a")
    assert found.coefficient == COHEN
    assert found.value == pytest.approx(0.5)  # agreed 3/4; by chance (2*3 + 2*1)/16 = 1/2
    assert (found.agree.k, found.agree.n) == (3, 4)
    assert (found.both.k, found.both.n) == (2, 3)
    assert (found.used.k, found.used.n) == (5, 8)


def test_one_code_among_changing_people_has_nominal_alpha() -> None:
    units = [
        {"ann": frozenset("a"), "bob": frozenset("a")},
        {"ann": frozenset(), "cem": frozenset("a")},
        {"bob": frozenset(), "cem": frozenset()},
        {"cem": frozenset("a")},
    ]
    found = CodeAgreement(units, "a")
    assert found.coefficient == KRIPPENDORFF
    assert (found.agree.k, found.agree.n) == (2, 3)
    assert (found.used.k, found.used.n) == (3, 6)
    assert found.value == pytest.approx(1 - (1 / 3) / (2 * 9 / 30))


def test_a_code_that_nobody_used_has_no_value_and_says_why() -> None:
    found = CodeAgreement([{"ann": frozenset("a"), "bob": frozenset()}], "z")
    assert found.value is None
    assert found.both.share is None
    assert found.note == "all reviews leave it out"


# --- confusion --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "cells"),
    [
        ("", "", {(NONE, NONE)}),
        ("a", "", {("a", NONE)}),
        ("", "a", {(NONE, "a")}),
        ("a", "a", {("a", "a")}),
        ("ab", "a", {("a", "a"), ("b", NONE)}),
        ("ab", "ac", {("a", "a"), ("b", "c")}),
        ("ab", "cd", {("a", "c"), ("a", "d"), ("b", "c"), ("b", "d")}),
    ],
)
def test_what_two_agree_on_never_stands_against_something(one: str, other: str, cells: set[object]) -> None:
    found = list(cells_of(frozenset(one), frozenset(other)))
    assert set(found) == cells
    assert len(found) == len(cells)


@given(st.lists(st.dictionaries(st.sampled_from("xyz"), code_sets, min_size=1), max_size=8))
def test_the_matrix_is_symmetric_and_counts_pairs_of_reviews(units: list[dict[str, frozenset[str]]]) -> None:
    found = confusion(units)
    total = count_agreed(units)
    assert all(found[a, b] == found[b, a] for a, b in list(found))
    assert all(0 < count <= total.n for count in found.values())
    apart = Counter({cell: n for cell, n in found.items() if cell[0] != cell[1]})
    assert bool(apart) == (total.k < total.n)
