"""Comparisons declared together."""

from __future__ import annotations

from itertools import chain, combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchapp.stats.inference.holm import holm

declared = st.dictionaries(st.text(max_size=3), st.none() | st.floats(0, 1), max_size=6)


def test_it_gives_the_known_example() -> None:
    """The values that R's p.adjust(method = "holm") gives."""
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005}) == pytest.approx(
        {"a": 0.03, "b": 0.06, "c": 0.06, "d": 0.02}
    )


@given(declared)
def test_it_is_bonferroni_closed(ps: dict[str, float | None]) -> None:
    """Holm is the closed test of Bonferroni: the largest Bonferroni p of all sets that hold the hypothesis.

    One without a p is taken as 1, which is what leaving its place in the count amounts to.
    """
    keys = list(ps)
    sets = list(chain.from_iterable(combinations(keys, size) for size in range(1, len(keys) + 1)))
    for key, adjusted in holm(ps).items():
        if ps[key] is None:
            assert adjusted is None
            continue
        slow = max(
            min(1.0, len(group) * min(1.0 if ps[k] is None else ps[k] for k in group)) for group in sets if key in group
        )
        assert adjusted == pytest.approx(slow)


def test_it_counts_a_hypothesis_that_could_not_be_tested() -> None:
    assert holm({"a": 0.02, "b": None}) == {"a": 0.04, "b": None}


def test_it_refuses_what_is_no_p() -> None:
    with pytest.raises(ValueError, match="p of a"):
        holm({"a": 1.2})
