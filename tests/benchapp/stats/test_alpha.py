"""Alpha and MASI against the reference packages: their published examples, and data drawn at random."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import combinations, product
from typing import Any

import krippendorff
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from nltk.metrics import binary_distance
from nltk.metrics import masi_distance as nltk_masi
from nltk.metrics.agreement import AnnotationTask

from benchapp.stats.agreement import Distance, Unit, alpha, alpha_many, masi_distance, nominal_distance, tally
from tests.cases import every

CODE_SETS = [frozenset(chosen) for size in range(4) for chosen in combinations("abcd", size)]
people = st.sampled_from(["ann", "bob", "cem", "dee"])
set_units = st.lists(st.dictionaries(people, st.sampled_from(CODE_SETS), min_size=1), min_size=1, max_size=12)
word_units = st.lists(st.dictionaries(people, st.sampled_from("abc"), min_size=1), min_size=1, max_size=12)


def rows(table: str) -> list[Unit]:
    """One line per reviewer, one column per unit, "." where nobody answered."""
    lines = [line.split() for line in table.strip().splitlines()]
    return [
        {who: line[place] for who, line in enumerate(lines) if line[place] != "."} for place in range(len(lines[0]))
    ]


def by_nltk(units: Sequence[Unit], distance: Distance) -> float:
    data = [(who, place, said) for place, unit in enumerate(units) for who, said in unit.items()]
    return float(AnnotationTask(data, distance=distance).alpha())


def by_krippendorff(units: Sequence[Unit], distance: Distance) -> float:
    """With the package's own coincidence matrix: values are numbered, and the distance looks them up."""
    values: list[Hashable] = list(dict.fromkeys(said for unit in units for said in unit.values()))
    reviewers = sorted({str(who) for unit in units for who in unit})
    table = np.full((len(reviewers), len(units)), np.nan)
    for place, unit in enumerate(units):
        for who, said in unit.items():
            table[reviewers.index(str(who)), place] = values.index(said)

    def metric(v1: Any, v2: Any, i1: Any, i2: Any, n_v: Any, dtype: Any = float) -> Any:
        look = np.vectorize(lambda a, b: distance(values[int(a)], values[int(b)]), otypes=[float])
        return look(v1, v2)

    return float(
        krippendorff.alpha(reliability_data=table, level_of_measurement=metric, value_domain=list(range(len(values))))
    )


# Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011), examples A, B and C.
BINARY = "0 1 0 0 0 0 0 0 1 0\n1 1 1 0 0 1 0 0 0 0"
NOMINAL = "a a b b d c c c e d d a\nb a b b b c c c e d d d"
MISSING = """
1 2 3 3 2 1 4 1 2 . . .
1 2 3 3 2 2 4 1 2 5 . 3
. 3 3 3 2 3 4 2 2 5 1 .
1 2 3 3 2 4 4 1 2 5 1 .
"""


@pytest.mark.parametrize(("table", "published"), [(BINARY, 0.095), (NOMINAL, 0.692), (MISSING, 0.743)])
def test_it_gives_the_published_values_of_krippendorff_2011(table: str, published: float) -> None:
    units = rows(table)
    assert alpha(units, nominal_distance) == pytest.approx(published, abs=0.0005)
    assert alpha(units, nominal_distance) == pytest.approx(by_krippendorff(units, nominal_distance), abs=1e-12)


def varied(units: Sequence[Unit]) -> bool:
    return len({said for unit in units if len(unit) > 1 for said in unit.values()}) > 1


@given(word_units)
def test_it_equals_both_packages_on_words(units: list[Unit]) -> None:
    assume(varied(units))
    assert alpha(units, nominal_distance) == pytest.approx(by_nltk(units, binary_distance), abs=1e-9)
    assert alpha(units, nominal_distance) == pytest.approx(by_krippendorff(units, nominal_distance), abs=1e-9)


@given(set_units)
def test_it_equals_both_packages_on_code_sets(units: list[Unit]) -> None:
    """nltk divides by zero at two empty sets; equal sets are 0 apart there too, so that case is answered before."""
    assume(varied(units))
    reference = by_nltk(units, lambda one, other: 0.0 if one == other else nltk_masi(one, other))
    assert alpha(units, masi_distance) == pytest.approx(reference, abs=1e-9)
    assert alpha(units, masi_distance) == pytest.approx(by_krippendorff(units, masi_distance), abs=1e-9)


@given(set_units)
def test_it_depends_neither_on_order_nor_on_names(units: list[Unit]) -> None:
    renamed = [{f"x{who}": said for who, said in reversed(unit.items())} for unit in reversed(units)]
    first, second = alpha(units, masi_distance), alpha(renamed, masi_distance)
    assert (first is None) == (second is None)
    assert first is None or first == pytest.approx(second, abs=1e-12)


def test_it_leaves_out_units_with_one_answer() -> None:
    units = rows(NOMINAL)
    assert alpha([*units, {0: "z"}, {}], nominal_distance) == alpha(units, nominal_distance)


@pytest.mark.parametrize(
    "units", [[], [{1: "a"}, {2: "b"}], [{1: "a", 2: "a"}], [{1: "a", 2: "a"}, {1: "a", 2: "a"}, {1: "b"}]]
)
def test_it_has_no_value_without_pairs_or_without_variation(units: list[Unit]) -> None:
    assert alpha(units, nominal_distance) is None


def test_it_is_one_where_all_agree_and_below_zero_where_nobody_does() -> None:
    assert alpha([{1: "a", 2: "a"}, {1: "b", 2: "b"}], nominal_distance) == pytest.approx(1.0)
    assert alpha([{1: "a", 2: "b"}, {1: "b", 2: "a"}], nominal_distance) == pytest.approx(-0.5)


@given(set_units, st.lists(st.integers(0, 3), min_size=12, max_size=12))
def test_a_weight_is_a_number_of_copies(units: list[Unit], copies: list[int]) -> None:
    """What the bootstrap computes from weights is alpha of the data it stands for."""
    found = tally(units, masi_distance, clusters=list(range(len(units))))
    paired = [unit for unit in units if len(unit) > 1]
    drawn = [unit for unit, times in zip(paired, copies, strict=False) for _ in range(times)]
    assume(varied(drawn))
    weights = np.array([copies[: len(paired)]], dtype=float)
    assert alpha_many(found, weights)[0] == pytest.approx(alpha(drawn, masi_distance), abs=1e-9)


def test_a_tally_wants_a_cluster_for_each_unit() -> None:
    with pytest.raises(ValueError, match="a cluster for each of 2 units, got 1"):
        tally([{1: "a"}, {1: "b"}], nominal_distance, clusters=["x"])


# --- MASI -------------------------------------------------------------------------------------------------------------


@every(
    ("", "", 0.0),
    ("", "a", 1.0),
    ("ab", "ab", 0.0),
    ("ab", "cd", 1.0),
    ("ab", "abcd", 1 - 1 / 2 * 2 / 3),
    ("abc", "bcd", 1 - 2 / 4 * 1 / 3),
)
def test_masi_distance_is_passonneaus(one: str, other: str, distance: float) -> None:
    assert masi_distance(frozenset(one), frozenset(other)) == pytest.approx(distance)
    assert masi_distance(frozenset(other), frozenset(one)) == pytest.approx(distance)


@every(*product(CODE_SETS, repeat=2))
def test_masi_distance_equals_nltks_wherever_that_has_one(one: frozenset[str], other: frozenset[str]) -> None:
    if one or other:
        assert masi_distance(one, other) == pytest.approx(nltk_masi(one, other), abs=1e-12)
    else:
        with pytest.raises(ZeroDivisionError):
            nltk_masi(one, other)
