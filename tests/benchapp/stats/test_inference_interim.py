"""Evidence before the end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchapp.stats.inference.difference import Claim, Difference, InterimEvidence
from benchapp.stats.inference.model import ClaimTest

BASE = Difference(60, 10, (3, 3), 0.6, 0.4, 0.2, Claim.RUN, ClaimTest(0.2, 0.04, 19.5), None)


def test_it_is_divided_by_the_comparisons_that_are_judged_together() -> None:
    one, four = (InterimEvidence.of(BASE, comparisons) for comparisons in (1, 4))
    assert one is not None
    assert four is not None
    assert one.value == pytest.approx(4 * four.value)
    assert (one.is_rise, one.replicates) == (True, 3)
    assert one.is_enough


def test_there_is_none_of_one_run_or_without_a_test() -> None:
    assert InterimEvidence.of(replace(BASE, claim=Claim.ONE_RUN), 1) is None
    assert InterimEvidence.of(replace(BASE, run=None), 1) is None


@pytest.mark.parametrize(
    ("value", "comparisons", "text"),
    [
        (3.29, 1, "Evidence after 2 whole replicates: 3.2 of the 20 that let you stop."),
        (19.99, 1, "Evidence after 2 whole replicates: 19.9 of the 20 that let you stop."),
        (
            0.01,
            4,
            "Evidence after 2 whole replicates: below 0.1 of the 20 that let you stop, for 4 comparisons together.",
        ),
        (24.4, 1, "Evidence for a drop after 2 whole replicates: 24. 20 let you stop."),
        (5e6, 1, "Evidence for a drop after 2 whole replicates: over 1,000. 20 let you stop."),
    ],
)
def test_it_is_rounded_down(value: float, comparisons: int, text: str) -> None:
    assert InterimEvidence(value, comparisons, 2, is_rise=False).sentence == text
