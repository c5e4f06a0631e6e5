"""One plain sentence per difference."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchapp.stats.inference.difference import Difference, MissingBounds
from benchapp.stats.inference.interval import Interval
from benchapp.stats.inference.sentences import SHARES, DifferenceWording, amounts, render_p, sentence

BASE = Difference(
    tasks=90,
    clusters=6,
    replicates=(1, 1),
    own=40 / 90,
    other=36 / 90,
    delta=4 / 90,
    method="sign-flip",
    interval=Interval(-0.061, 0.148),
    p=0.4063,
    smallest_p=2 / 64,
    discordant=(11, 7),
    is_exact=True,
)


def said(wording: DifferenceWording = SHARES, **changes: object) -> str:
    difference = replace(BASE, **changes)  # type: ignore[arg-type]
    return sentence(difference, own="selfgen-always", other="no-skill", metric="ESR", wording=wording)


def test_it_says_counts_points_interval_and_test_and_nothing_of_power() -> None:
    assert said() == (
        "ESR: selfgen-always solved 40 of 90 tasks, no-skill 36 of 90 of the same: +4.4 points (95 % interval −6.1 to "
        "+14.8 points; exact sign-flip over 6 episodes, p = 0.41); no clear difference: chance alone could give this; "
        "one replicate per condition: this covers tasks, not reruns."
    )


def test_it_says_when_chance_would_rarely_do_it() -> None:
    text = said(interval=Interval(0.011, 0.148), p=0.03125)
    assert "p = 0.031); more than chance alone would usually give" in text


def test_it_says_means_and_runs_where_there_are_replicates() -> None:
    text = said(method="welch", replicates=(3, 3), discordant=None)
    assert "selfgen-always 44.4 %, no-skill 40.0 % on the same 90 tasks, 3 replicates each: +4.4 points" in text
    assert "Welch's t over the means of replicates" in text
    assert "not reruns" not in text


def test_it_says_whose_freedom_a_lopsided_test_has() -> None:
    text = said(method="welch", replicates=(2, 10), discordant=None)
    assert "Welch's t over the means of replicates, degrees of freedom of the smaller side, p = 0.41" in text


def test_it_says_which_side_was_learned_once_and_calls_no_uneven_test_exact() -> None:
    text = said(replicates=(1, 3), discordant=None, is_exact=False, method="swap")
    assert "1 against 3 replicates" in text
    assert "one replicate on one side: this covers tasks, not reruns" in text
    assert "(95 % interval −6.1 to +14.8 points; sign-flip and swap of replicates over 6 episodes" in text


def test_it_puts_students_interval_behind_the_verdict() -> None:
    text = said(secondary=(Interval(-0.021, 0.109, method="Student's t on cluster means"),))
    assert (
        "; no clear difference: chance alone could give this; if the means of episodes were normal, −2.1 to +10.9 points "
        "(Student's t, deciding nothing); one replicate"
    ) in text


def test_it_names_the_smallest_p_of_too_few_episodes() -> None:
    text = said(method="none", clusters=3, interval=None, p=0.5, smallest_p=0.25)
    assert "+4.4 points; 3 episodes are too few to rule out chance (the smallest p they can reach is 0.25)." in text
    assert "interval" not in text


def test_it_says_where_one_library_is_behind_everything() -> None:
    text = said(method="none", clusters=1, interval=None, p=1.0, smallest_p=1.0)
    assert "all tasks come from one episode, so chance cannot be ruled out." in text


def test_it_says_why_replicates_could_not_be_tested_before_it_speaks_of_episodes() -> None:
    text = said(method="none", replicates=(2, 2), clusters=4, interval=None, p=0.125, smallest_p=0.125)
    assert (
        "+4.4 points; the replicates of each side have the same mean, so they show no spread; 4 episodes are too few to rule out "
        "chance (the smallest p they can reach is 0.12)."
    ) in text


def test_one_of_anything_is_said_in_the_singular() -> None:
    text = said(tasks=1, clusters=1, own=1.0, other=0.0, delta=1.0, dropped=1)
    assert "selfgen-always solved 1 of 1 task, no-skill 0 of 1 of the same one" in text
    assert "1 task not scored in every run is left out" in text
    assert "on the same task:" in said(amounts("turns"), tasks=1)


def test_what_a_condition_did_is_the_metric_s_word() -> None:
    text = said(replace(SHARES, verb="used a skill in"))
    assert "selfgen-always used a skill in 40 of 90 tasks, no-skill in 36 of 90 of the same" in text


def test_a_unit_of_several_words_stands_once_behind_both_ends() -> None:
    text = said(
        amounts("of 100"),
        own=35.8,
        other=34.0,
        delta=1.8,
        interval=Interval(-18.9, 28.1),
        secondary=(Interval(-20, 24),),
    )
    assert "selfgen-always 35.8 of 100, no-skill 34.0 of 100 on the same 90 tasks: +1.8 points of 100" in text
    assert "95 % interval −18.9 to +28.1 points of 100; " in text
    assert "were normal, −20.0 to +24.0 points of 100 (" in text


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


def test_it_gives_the_reason_where_there_is_no_spread() -> None:
    text = said(interval=None, p=0.03125, note="every episode shows the same difference")
    assert "; every episode shows the same difference (exact sign-flip over 6 episodes, p = 0.031); " in text
    assert "this covers tasks, not reruns" in text


def test_it_says_amounts_in_their_unit() -> None:
    text = said(amounts("turns"), own=21.25, other=24.0, delta=-2.75, interval=Interval(-6, 0.5))
    assert "selfgen-always 21.2 turns, no-skill 24.0 turns on the same 90 tasks: −2.8 turns" in text
    assert "interval −6.0 to +0.5 turns" in text
    bare = said(amounts("", 2), own=0.35, other=0.3, delta=0.05, interval=Interval(-0.01, 0.11))
    assert "selfgen-always 0.35, no-skill 0.30 on the same 90 tasks: +0.05 (95 % interval −0.01 to +0.11; " in bare


def test_it_says_zero_without_a_sign_and_small_p_as_a_bound() -> None:
    assert "of the same: 0.0 points (" in said(delta=0.0)
    assert "p < 0.001" in said(p=0.0002)


def test_it_says_what_was_left_out() -> None:
    text = said(dropped=7)
    assert text.endswith("this covers tasks, not reruns; 7 tasks not scored in every run are left out.")


def test_it_says_what_missing_verdicts_could_have_made_of_it() -> None:
    text = said(dropped=2, missing=MissingBounds(trials=3, failed=0.031, passed=0.052, low=-0.02, high=0.101))
    assert text.endswith(
        "; 2 tasks not scored in every run are left out; 3 trials have no verdict: +3.1 points if failed, "
        "+5.2 points if passed, and in any case −2.0 to +10.1 points."
    )
    one_side = said(missing=MissingBounds(trials=1, failed=0.031, passed=0.052, low=0.031, high=0.052))
    assert one_side.endswith("; 1 trial has no verdict: +3.1 points if failed, +5.2 points if passed.")


def test_it_says_what_an_interval_around_nothing_leaves_out() -> None:
    worse = "chance alone could give this; the interval leaves out a drop of more than 5 points; one"
    assert worse in said(interval=Interval(-0.05, 0.148))
    assert "leaves out a rise of more than 5 points" in said(interval=Interval(-0.148, 0.05))
    assert "leaves out a difference of more than 5 points" in said(interval=Interval(-0.03, 0.05))
    assert "leaves out" not in said(interval=Interval(-0.051, 0.148))
    assert "leaves out" not in said(interval=Interval(0.011, 0.148), p=0.03)  # then it is more than chance
    assert "leaves out" not in said(amounts("turns"), interval=Interval(-0.01, 0.01))
