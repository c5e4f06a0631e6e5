"""The protocol and the conditions that a form offers for a suite can be planned over it."""

from __future__ import annotations

import pytest

from runner.protocols.conditions import find_condition
from runner.protocols.registry import OFFERED
from runner.protocols.suitable import find_fitting_protocol, first_conditions, keep_known_conditions
from runner.suites import load_suite
from tests.cases import every


@pytest.mark.parametrize(
    ("suite", "format", "protocol"),
    [
        ("starter", "", "skillevolbench"),
        ("starter-corpora", "", "skillgenbench"),
        ("starter-learning", "skilllearnbench", "skilllearnbench"),
        ("starter-learning", "harbor", "skillflow"),
    ],
)
def test_a_suite_gets_the_protocol_that_its_tasks_allow(suite: str, format: str, protocol: str) -> None:
    assert find_fitting_protocol(load_suite(suite), format) == protocol


@every(*OFFERED)
def test_the_first_conditions_are_the_baseline_and_one_with_an_author(protocol: str) -> None:
    baseline, learner = (find_condition(name, protocol) for name in first_conditions(protocol))
    assert not baseline.has_library
    assert learner.has_author


def test_a_condition_with_its_own_number_is_known_where_its_method_is() -> None:
    names = ["no-skill", "self-feedback@4", "selfgen-always"]
    assert keep_known_conditions(names, "skilllearnbench") == (["no-skill", "self-feedback@4"], ["selfgen-always"])
