"""One plain sentence per difference."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchapp.stats.inference.difference import Claim, Difference, MissingBounds
from benchapp.stats.inference.model import ClaimTest
from benchapp.stats.inference.sentences import SHARES, DifferenceWording, amounts, render_p, sentence

BASE = Difference(
    tasks=90,
    clusters=6,
    replicates=(1, 1),
    own=40 / 90,
    other=36 / 90,
    delta=4 / 90,
    claim=Claim.ONE_RUN,
    run=ClaimTest(4 / 90, 0.05, 4.5),
    rerun=None,
    p=0.4063,
    comparisons=1,
    bound=1.0,
    discordant=(11, 7),
)


def said(wording: DifferenceWording = SHARES, verdict: str = "not settled", **changes: object) -> str:
    difference = replace(BASE, **changes)  # type: ignore[arg-type]
    return sentence(difference, own="selfgen-always", other="no-skill", metric="ESR", verdict=verdict, wording=wording)


def test_it_says_counts_points_interval_and_verdict() -> None:
    assert said() == (
        "ESR: selfgen-always solved 40 of 90 tasks, no-skill 36 of 90 of the same: +4.4 points (95 % interval −8.9 to "
        "+17.7 points, p = 0.41); not settled."
    )


def test_it_says_how_many_are_judged_together() -> None:
    assert "(95 % interval for 5 comparisons together −" in said(comparisons=5)


def test_it_says_means_and_runs_where_there_are_replicates() -> None:
    text = said(claim=Claim.RERUN, rerun=BASE.run, replicates=(3, 3), discordant=None)
    assert "selfgen-always 44.4 %, no-skill 40.0 % on the same 90 tasks, 3 replicates each: +4.4 points" in text
    assert "if rerun" not in text, "the verdict is about reruns already"
    assert "1 against 3 replicates" in said(replicates=(1, 3), discordant=None)


def test_a_claim_about_runs_is_followed_by_what_reruns_would_show() -> None:
    runs = {"claim": Claim.RUN, "replicates": (2, 2), "discordant": None}
    assert said(**runs, rerun=ClaimTest(4 / 90, 0.1, 3.0)).endswith("; not settled; if rerun: −27.4 to +36.3 points.")
    assert said(**runs).endswith("; not settled; reruns: unknown.")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"clusters": 2}, "2 episodes with one replicate show too little of chance"),
        ({"clusters": 1}, "1 episode with one replicate shows too little of chance"),
        ({"replicates": (2, 2), "claim": Claim.RUN}, "replicates of 6 episodes do not differ, so they show no error"),
    ],
)
def test_without_an_interval_it_says_why(changes: dict[str, object], why: str) -> None:
    text = said(verdict="too small to test", run=None, p=None, **changes)
    assert f"+4.4 points ({why}); too small to test" in text
    assert "interval" not in text


def test_one_of_anything_is_said_in_the_singular() -> None:
    text = said(tasks=1, clusters=1, own=1.0, other=0.0, delta=1.0, dropped=1)
    assert "selfgen-always solved 1 of 1 task, no-skill 0 of 1 of the same one" in text
    assert "1 task not scored in every run is left out" in text
    assert "on the same task:" in said(amounts("turns"), tasks=1)


def test_what_a_condition_did_is_the_metric_s_word() -> None:
    text = said(replace(SHARES, verb="used a skill in"))
    assert "selfgen-always used a skill in 40 of 90 tasks, no-skill in 36 of 90 of the same" in text


def test_a_unit_of_several_words_stands_once_behind_both_ends() -> None:
    text = said(amounts("of 100"), own=35.8, other=34.0, delta=1.8, run=ClaimTest(1.8, 10.0, 9.0), bound=None)
    assert "selfgen-always 35.8 of 100, no-skill 34.0 of 100 on the same 90 tasks: +1.8 points of 100" in text
    assert "95 % interval −20.8 to +24.4 points of 100, " in text


@pytest.mark.parametrize(
    ("p", "text"),
    [
        *((0.4063, "0.41"), (0.03125, "0.031"), (0.0002, "< 0.001"), (1.0, "1.00")),
        *((0.05, "0.050"), (0.0496, "0.050"), (0.0504, "0.0504"), (0.05003, "0.05003"), (0.052, "0.052")),
    ],
)
def test_no_p_above_the_level_reads_as_the_level(p: float, text: str) -> None:
    assert render_p(p) == text


def test_it_says_what_the_means_are_over_where_it_is_not_the_tasks() -> None:
    text = said(replace(SHARES, verb=None, over="families"))
    assert "selfgen-always 44.4 %, no-skill 40.0 % (means over families) on the same 90 tasks: +4.4 points" in text


def test_it_says_amounts_in_their_unit() -> None:
    text = said(amounts("turns"), own=21.25, other=24.0, delta=-2.75, run=ClaimTest(-2.75, 1.0, 20.0), bound=None)
    assert "selfgen-always 21.2 turns, no-skill 24.0 turns on the same 90 tasks: −2.8 turns" in text
    assert "interval −4.8 to −0.7 turns" in text


def test_it_says_zero_without_a_sign_and_small_p_as_a_bound() -> None:
    assert "of the same: 0.0 points (" in said(delta=0.0)
    assert "p < 0.001" in said(p=0.0002)


def test_it_says_what_missing_verdicts_could_have_made_of_it() -> None:
    text = said(dropped=2, missing=MissingBounds(trials=3, failed=0.031, passed=0.052, low=-0.02, high=0.101))
    assert text.endswith(
        "; 2 tasks not scored in every run are left out; 3 trials have no verdict: +3.1 points if failed, "
        "+5.2 points if passed, and in any case −2.0 to +10.1 points."
    )
    one_side = said(missing=MissingBounds(trials=1, failed=0.031, passed=0.052, low=0.031, high=0.052))
    assert one_side.endswith("; 1 trial has no verdict: +3.1 points if failed, +5.2 points if passed.")
