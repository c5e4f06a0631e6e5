"""Nine words for a difference, and the heading they make together."""

from __future__ import annotations

import pytest

from benchapp.stats.comparing.effects import Effect, answer_question, judge_effect, judge_test
from benchapp.stats.inference.difference import Difference
from benchapp.stats.inference.interval import Interval
from benchapp.stats.inference.strata import StratifiedTest
from benchapp.stats.metrics.catalogue import METRICS

ESR = METRICS["ESR"]
COST = METRICS["cost-per-trial"]
USE = METRICS["use"]


def difference(low: float, high: float) -> Difference:
    return Difference(
        *(12, 6, (1, 1), 0.5, 0.4, (low + high) / 2),
        method="sign-flip",
        interval=Interval(low, high),
        p=0.03,
        smallest_p=0.03,
    )


@pytest.mark.parametrize(
    ("low", "high", "corrected", "effect"),
    [
        (0.06, 0.22, 0.04, Effect.UP),
        (0.06, 0.22, 0.06, Effect.LIKELY_UP),
        (0.06, 0.22, None, Effect.LIKELY_UP),
        (-0.13, -0.03, 0.01, Effect.DOWN),
        (-0.13, -0.03, 0.5, Effect.LIKELY_DOWN),
        (-0.05, 0.05, 1.0, Effect.SAME),
        (-0.06, 0.04, 1.0, Effect.OPEN),
        (-0.04, 0.12, 1.0, Effect.OPEN),
    ],
)
def test_the_interval_and_the_correction_decide(low, high, corrected, effect):
    assert judge_effect(difference(low, high), corrected, ESR) is effect


def test_less_cost_is_better_and_five_points_bound_shares_only():
    assert judge_effect(difference(-0.2, -0.1), 0.01, COST) is Effect.UP
    assert judge_effect(difference(-0.01, 0.01), 1.0, COST) is Effect.OPEN


@pytest.mark.parametrize(("low", "high"), [(0.1, 0.2), (-0.2, -0.1)])
def test_where_no_direction_is_better_a_difference_is_only_different(low: float, high: float) -> None:
    """So the words agree with the sentence, which says "more than chance alone would usually give"."""
    clear, likely = (judge_effect(difference(low, high), p, USE) for p in (0.04, 0.06))
    assert (clear, likely) == (Effect.DIFFERENT, Effect.LIKELY_DIFFERENT)
    assert (clear.value, clear.is_clear, clear.is_found, clear.tone) == ("clearly different", True, True, "")
    assert (likely.value, likely.is_clear, likely.is_found, likely.tone) == ("likely different", False, True, "")
    assert judge_effect(difference(-0.1, 0.2), 1.0, USE) is Effect.OPEN


def test_no_interval_is_no_test():
    assert judge_effect(None, None, ESR) is Effect.UNTESTED


@pytest.mark.parametrize(
    ("effects", "episodes", "heading"),
    [
        ([Effect.UP, Effect.OPEN, Effect.DOWN], 12, "Yes, one of three conditions clearly helped; one clearly hurt."),
        ([Effect.UP, Effect.OPEN, Effect.UNTESTED], 12, "Yes, one of two tested conditions clearly helped."),
        ([Effect.SAME, Effect.UNTESTED], 12, "Not by more than 5 points, as far as tested."),
        ([Effect.UP, Effect.UNTESTED], 12, "Yes, the one tested condition clearly helped."),
        ([Effect.DOWN, Effect.UNTESTED], 12, "No, as far as tested; the one tested condition clearly hurt."),
        ([Effect.DOWN, Effect.LIKELY_DOWN], 12, "No; one condition clearly hurt, one likely hurt."),
        ([Effect.UP, Effect.UP], 12, "Yes, both conditions clearly helped."),
        (
            [Effect.UP, Effect.OPEN, Effect.LIKELY_DOWN],
            12,
            "Yes, one of three conditions clearly helped; one likely hurt.",
        ),
        (
            [Effect.LIKELY_UP, Effect.DOWN],
            12,
            "Likely: one of two conditions helped, but not beyond doubt; one clearly hurt.",
        ),
        ([Effect.OPEN, Effect.LIKELY_DOWN], 12, "Not clear yet; one condition likely hurt."),
        ([Effect.DOWN], 12, "No; skills clearly hurt."),
        ([Effect.OPEN, Effect.SAME], 12, "Not clear yet."),
        ([Effect.SAME, Effect.DOWN], 12, "Not by more than 5 points; one condition clearly hurt."),
        ([Effect.UNTESTED], 2, "Too little data for an answer (2 episodes)."),
        ([Effect.UNTESTED], 0, "Nothing to compare yet."),
        ([Effect.UNTESTED], 1, "Too little data for an answer (1 episode)."),
    ],
)
def test_the_heading_never_says_more_than_the_effects(effects, episodes, heading):
    assert answer_question(effects, episodes) == heading


@pytest.mark.parametrize(
    ("p", "smallest", "excess", "effect"),
    [
        (0.05, 0.001, -2.5, Effect.UP),  # the first side passed less than expected, so the other helped
        (0.05, 0.001, 2.5, Effect.DOWN),
        (0.051, 0.001, -2.5, Effect.OPEN),
        (1.0, 0.001, 0.0, Effect.OPEN),  # a test alone shows nothing to be the same
        (0.06, 0.06, -2.5, Effect.UNTESTED),
    ],
)
def test_a_test_without_an_interval_is_judged_by_its_p(
    p: float, smallest: float, excess: float, effect: Effect
) -> None:
    assert judge_test(StratifiedTest(p, smallest, 3, excess)) is effect
