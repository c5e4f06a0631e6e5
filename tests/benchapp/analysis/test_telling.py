"""The change that says most: after a failure, and its later readers did best beside no-skill."""

from __future__ import annotations

from uuid import uuid4

from benchapp.analysis.lineage.attribution import rank_changes
from benchapp.analysis.lineage.line_history import Blame, Lineage, WorkedTrial
from benchapp.stats.inference.shares import Rate

FAMILY, OTHER = 1, 2


def trial(state: int, skill: str, *, success: bool | None, family: int = FAMILY, task: int = 1) -> WorkedTrial:
    read = frozenset([skill])
    return WorkedTrial(state, read, state, uuid4(), task, "t", None, family, "", "deployment", "passed", success)


def lineage(*trials: WorkedTrial) -> Lineage:
    """Three states; state 1 wrote skill a, state 2 skill b; both stand on."""
    a, b = frozenset("a"), frozenset("b")
    return Lineage((None, 1, 2), Blame((), (), ()), ({}, {1: a}, {1: a, 2: b}), trials)


CHANGES = [(1, FAMILY), (2, FAMILY)]


def find(*trials: WorkedTrial, baseline: dict | None = None):
    return next(iter(rank_changes(lineage(*trials), CHANGES, baseline or {})), None)


def test_the_gain_over_no_skill_decides() -> None:
    easy = [trial(2, "a", success=True, task=1) for _ in range(3)]
    hard = [trial(2, "b", success=True, task=2) for _ in range(2)]
    baseline = {(1, None, "deployment"): Rate(4, 4, 4), (2, None, "deployment"): Rate(0, 4, 4)}
    found = find(*easy, *hard, baseline=baseline)
    assert found is not None
    assert (found.state, found.gain) == (2, 2.0)


def test_without_no_skill_the_passes_decide() -> None:
    found = find(*[trial(2, "a", success=True) for _ in range(3)], trial(2, "b", success=True))
    assert found is not None
    assert (found.state, found.gain) == (1, 3.0)


def test_ties_go_to_more_readers_then_to_the_earlier() -> None:
    more = find(trial(2, "a", success=True), trial(2, "b", success=True), trial(2, "b", success=False))
    assert more is not None
    assert more.state == 2
    same = find(trial(2, "a", success=True), trial(2, "b", success=True))
    assert same is not None
    assert same.state == 1


def test_readers_of_other_families_and_unscored_ones_choose_nothing() -> None:
    assert find(trial(2, "a", success=True, family=OTHER), trial(2, "b", success=None)) is None
