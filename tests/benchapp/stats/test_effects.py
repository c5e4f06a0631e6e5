"""The verdict on a difference, and the heading several make together."""

from __future__ import annotations

from dataclasses import replace

from benchapp.stats.comparing.effects import Effect, answer_question, describe_effect, judge_effect, judge_test
from benchapp.stats.inference.difference import Claim, Difference
from benchapp.stats.inference.model import ClaimTest
from benchapp.stats.inference.strata import StratifiedTest
from benchapp.stats.metrics.catalogue import METRICS
from tests.cases import every

ESR, COST, USE = METRICS["ESR"], METRICS["cost-per-trial"], METRICS["use"]
BETTER, WORSE, SAME, OPEN, SMALL = Effect.BETTER, Effect.WORSE, Effect.SAME, Effect.OPEN, Effect.TOO_SMALL


def difference(delta: float, error: float, p: float | None = 1.0) -> Difference:
    test = ClaimTest(delta, error, 20.0)
    return Difference(12, 6, (1, 1), 0.5, 0.4, delta, Claim.ONE_RUN, test, None, p=p, bound=1.0)


@every(
    (0.14, 0.04, 0.04, BETTER),
    (0.14, 0.04, 0.06, OPEN),
    (-0.08, 0.02, 0.01, WORSE),
    (0.01, 0.04, 0.9, SAME),  # at most 9.3 points
    (0.01, 0.05, 0.9, OPEN),  # at most 11.4 points
    (0.05, 0.01, 0.001, BETTER),  # clear before small
    (0.2, 0.6, 0.9, SMALL),  # half of the interval is over 100 points
)
def test_the_corrected_p_decides_and_then_the_bound(delta: float, error: float, p: float, effect: Effect) -> None:
    assert judge_effect(difference(delta, error, p), ESR) is effect


def test_less_cost_is_better_and_points_bound_shares_only() -> None:
    assert judge_effect(difference(-0.2, 0.02, 0.01), COST) is BETTER
    assert judge_effect(difference(0.0, 0.01), COST) is OPEN


def test_there_is_no_verdict_before_the_end_and_none_where_no_direction_is_better() -> None:
    assert judge_effect(difference(0.5, 0.01, 0.0), ESR, is_final=False) is Effect.ESTIMATE
    assert judge_effect(difference(0.5, 0.01, 0.0), USE) is Effect.ESTIMATE


def test_without_a_test_it_is_too_small() -> None:
    assert judge_effect(None, ESR) is SMALL
    assert judge_effect(replace(difference(0.5, 0.1), run=None), ESR) is SMALL


@every(
    (Claim.ONE_RUN, "clearly better, in this run; reruns not measured"),
    (Claim.RUN, "clearly better, in these runs"),
    (Claim.RERUN, "clearly better, also if rerun"),
)
def test_a_clear_verdict_says_what_it_holds_for(claim: Claim, words: str) -> None:
    assert describe_effect(BETTER, replace(difference(0.2, 0.01), claim=claim)) == words


def test_a_small_difference_says_how_large_it_can_be() -> None:
    found = describe_effect(SAME, difference(0.01, 0.03))
    assert found == "no difference larger than 8 points, in this run; reruns not measured"


ONE = ", in this run; reruns not measured"


@every(
    ([BETTER, OPEN, WORSE], f"Yes, one of three conditions clearly helped; one clearly hurt{ONE}."),
    ([BETTER, OPEN, SMALL], f"Yes, one of two tested conditions clearly helped{ONE}."),
    ([SAME, SMALL], "Not by more than 10 points, as far as tested."),
    ([BETTER, SMALL], f"Yes, the one tested condition clearly helped{ONE}."),
    ([WORSE, SMALL], f"No; the one tested condition clearly hurt{ONE}."),
    ([WORSE, WORSE], f"No; two conditions clearly hurt{ONE}."),
    ([BETTER, BETTER], f"Yes, both conditions clearly helped{ONE}."),
    ([WORSE], f"No; skills clearly hurt{ONE}."),
    ([OPEN, WORSE], f"Not settled; one condition clearly hurt{ONE}."),
    ([OPEN, SAME], "Not settled."),
    ([SAME, WORSE], f"Not by more than 10 points; one condition clearly hurt{ONE}."),
    ([SMALL, SMALL], "Too small to test."),
    ([], "Nothing to compare yet."),
)
def test_the_heading_never_says_more_than_the_effects(effects: list[Effect], heading: str) -> None:
    assert answer_question(effects, [Claim.ONE_RUN] * len(effects)) == heading


def test_the_heading_names_no_claim_where_they_differ() -> None:
    assert answer_question([BETTER, BETTER], [Claim.ONE_RUN, Claim.RUN]) == "Yes, both conditions clearly helped."


@every(
    (0.05, 0.001, -2.5, BETTER),  # the first side passed less than expected, so the other helped
    (0.05, 0.001, 2.5, WORSE),
    (0.051, 0.001, -2.5, OPEN),
    (1.0, 0.001, 0.0, OPEN),  # a test alone shows nothing to be the same
    (0.06, 0.06, -2.5, SMALL),
)
def test_a_test_without_an_interval_is_judged_by_its_p(
    p: float, smallest: float, excess: float, effect: Effect
) -> None:
    assert judge_test(StratifiedTest(p, smallest, 3, excess)) is effect
