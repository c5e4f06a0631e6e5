"""The one model: equal to its reference and to textbooks, and fair where it cannot know much."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from benchapp.stats.inference.model import (
    ClaimTest,
    Estimate,
    claim_rerun,
    claim_run,
    correct,
    count_runs,
    estimate_difference,
    measure_run_factor,
)
from tests.conftest import ROOT

REFERENCE = ROOT.parent / "shared" / "findings" / "one-model.md"


def estimate(own: np.ndarray, other: np.ndarray, *, is_block: bool = False, trial: float = 0.0) -> Estimate:
    found = estimate_difference(own, other, trial, is_block=is_block)
    assert found is not None
    return found


def draw(rng: np.random.Generator) -> tuple[np.ndarray, int, bool]:
    """Cells of a random design, [conditions, replicates, episodes]: with holes, copies and unequal replicates."""
    conditions, replicates, episodes = int(rng.integers(2, 8)), int(rng.integers(1, 6)), int(rng.integers(1, 21))
    tasks = int(rng.choice([1, 2, 5, 15]))
    cells = rng.binomial(tasks, rng.uniform(0.02, 0.98, (conditions, 1, 1)), (conditions, replicates, episodes)) / tasks
    if rng.random() < 0.4:
        cells[rng.random(cells.shape) < 0.15] = np.nan
    if rng.random() < 0.2:
        cells[1] = cells[1, :1]
    if rng.random() < 0.2:
        cells[0, 1:] = np.nan
    return cells, tasks, bool(rng.integers(2))


@pytest.mark.shared_data
@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:All-NaN slice", "ignore:Degrees of freedom")
def test_it_equals_the_reference_on_a_thousand_random_designs() -> None:
    if not REFERENCE.is_file():
        pytest.skip("the reference does not lie beside the project")
    reference: dict[str, Any] = {}
    exec(REFERENCE.read_text().partition("```python\n")[2].partition("```")[0], reference)
    rng = np.random.default_rng(1)
    compared = 0
    for _ in range(1_000):
        cells, tasks, is_block = draw(rng)
        rows, factor = reference["compare"](cells, tasks, is_block)
        found = measure_run_factor(list(cells), is_block=is_block)
        assert (found and (found.phi, found.freedom, found.variance)) == (factor and pytest.approx(factor))
        estimates = [estimate_difference(own, cells[0], 1 / tasks, is_block=is_block) for own in cells[1:]]
        for claim in ("run", "rerun"):
            tests = [each and (claim_run(each) if claim == "run" else claim_rerun(each, found)) for each in estimates]
            corrected = correct([each.p if each else None for each in tests])
            for test, p, row in zip(tests, corrected, rows, strict=True):
                expected = row.get(claim)
                assert (test is None) == (expected is None)
                if test is not None and expected is not None:
                    own = (test.error, test.freedom, test.p, test.half_width(), test.half_width(len(rows)), p)
                    names = ("se", "df", "p", "half", "half_joint", "p_holm")
                    assert own == pytest.approx([expected[name] for name in names], rel=1e-9, abs=1e-9)
                    compared += 1
    assert compared > 4_000


def test_one_episode_of_replicates_is_welchs_test_with_half_a_degree_less() -> None:
    own, other = np.array([[0.2], [0.4], [0.9]]), np.array([[0.1], [0.2], [0.15], [0.3]])
    found, expected = claim_run(estimate(own, other)), stats.ttest_ind(own[:, 0], other[:, 0], equal_var=False)
    assert found is not None
    assert found.delta / found.error == pytest.approx(expected.statistic)
    assert found.freedom == pytest.approx(expected.df - 0.5)


def test_one_run_a_side_is_students_test_over_episodes_with_half_a_degree_less() -> None:
    own, other = np.random.default_rng(2).random((2, 1, 9))
    found, expected = claim_run(estimate(own, other)), stats.ttest_rel(own[0], other[0])
    assert found is not None
    assert (found.delta / found.error, found.freedom) == pytest.approx((expected.statistic, 7.5))


def test_blocks_take_what_a_replicate_shares_out_of_the_error() -> None:
    rng = np.random.default_rng(3)
    shared = rng.normal(0, 0.3, (4, 1))
    own, other = (shared + rng.normal(mean, 0.02, (4, 6)) for mean in (0.6, 0.5))
    blocked, alone = (claim_run(estimate(own, other, is_block=each)) for each in (True, False))
    assert blocked is not None
    assert alone is not None
    assert blocked.delta == pytest.approx(alone.delta)
    assert 5 * blocked.error < alone.error


@pytest.mark.parametrize("copies", [2, 5])
def test_copies_of_one_run_count_once(copies: int) -> None:
    own, other = np.random.default_rng(4).integers(0, 6, (2, 1, 8)) / 5
    once, several = estimate(own, other), estimate(np.repeat(own, copies, 0), np.repeat(other, copies, 0))
    assert several == once
    assert not several.is_replicated
    assert count_runs(np.zeros((3, 4))) == 3, "where nothing passed, equal runs are no copies"


def test_all_against_nothing_still_has_an_error() -> None:
    """Of 48 against 0 of 48 trials: the error of one trial that came out otherwise."""
    found = claim_run(estimate(np.ones((1, 8)), np.zeros((1, 8)), trial=1 / 6))
    assert found is not None
    assert found.error > 0
    assert found.p < 1e-6
    tied = claim_run(estimate(np.ones((1, 8)), np.ones((1, 8)), trial=1 / 6))
    assert tied is not None
    assert tied.p == 1


@pytest.mark.parametrize(
    ("replicates", "episodes", "is_tested"), [(1, 2, False), (1, 3, True), (2, 1, False), (2, 2, True)]
)
def test_with_less_than_one_degree_of_freedom_there_is_no_test(replicates: int, episodes: int, is_tested: bool) -> None:
    own, other = np.random.default_rng(5).random((2, replicates, episodes))
    assert (claim_run(estimate(own, other, is_block=True)) is not None) == is_tested


def test_reruns_that_drift_widen_the_second_claim_alone() -> None:
    rng = np.random.default_rng(6)
    drift = rng.normal(0, 0.3, (3, 4, 1))
    cells = 0.5 + drift + rng.normal(0, 0.05, (3, 4, 10))
    factor = measure_run_factor(list(cells), is_block=False)
    assert factor is not None
    assert factor.phi > 5
    found = estimate(cells[1], cells[0])
    run, rerun = claim_run(found), claim_rerun(found, factor)
    assert run is not None
    assert rerun is not None
    assert rerun.error > 2 * run.error
    assert rerun.freedom < run.freedom
    assert claim_rerun(found, None) is None


@pytest.mark.parametrize("shape", [(1, 3, 4), (3, 1, 4), (3, 3, 1)])
def test_one_of_anything_shows_nothing_of_reruns(shape: tuple[int, int, int]) -> None:
    assert measure_run_factor(list(np.random.default_rng(7).random(shape)), is_block=True) is None


def test_the_correction_takes_steps_and_counts_what_has_no_p() -> None:
    assert correct([0.01, None, 0.04]) == pytest.approx([1 - 0.99**3, None, 1 - 0.96**2])
    assert correct([0.02, 0.02]) == pytest.approx([1 - 0.98**2] * 2)
    assert correct([]) == []


def test_each_claim_finds_more_with_every_replicate_and_episode() -> None:
    """The same effect over the same noise: widths fall in both directions."""

    def width(replicates: int, episodes: int) -> float:
        rng, halves = np.random.default_rng(8), []
        for _ in range(300):
            own, other = rng.normal(0.5, 0.2, (2, replicates, episodes))
            found = claim_run(estimate(own, other, is_block=True))
            halves.append(found.half_width() if found else np.inf)
        return float(np.median(halves))

    by_replicate = [width(replicates, 10) for replicates in (1, 2, 3, 5)]
    by_episode = [width(2, episodes) for episodes in (3, 6, 10, 20)]
    assert by_replicate == sorted(by_replicate, reverse=True)
    assert by_episode == sorted(by_episode, reverse=True)


def test_evidence_under_no_difference_is_a_fair_bet_and_grows_with_the_effect() -> None:
    """The mean e-value of a null is at most 1: looked at once, by a t of many degrees of freedom."""
    rng = np.random.default_rng(9)
    values = [ClaimTest(float(delta), 1.0, 40.0).evidence(20) for delta in rng.standard_t(40, 20_000)]
    assert np.mean(values) == pytest.approx(1, abs=0.15)
    strong, weak = (ClaimTest(delta, 1.0, 40.0).evidence(20) for delta in (5.0, 0.5))
    assert strong > 20 > 1 > weak
