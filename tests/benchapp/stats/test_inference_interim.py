"""Evidence that may be looked at after every episode: what it can reach, what it rests on, and that it is a fair bet."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from benchapp.stats.inference.interim import ENOUGH, InterimEvidence, add_finished, weigh_evidence
from benchapp.stats.inference.sides import Paired, TaskMeans, pair


def weigh(*added: float) -> list[float]:
    return [float(value) for value in weigh_evidence(np.array([added]))[0]]


def test_six_episodes_alike_let_you_stop_and_five_do_not() -> None:
    found = weigh(*[0.3] * 6)
    assert found[4] < ENOUGH <= found[5]
    assert found[5] == pytest.approx(
        0.25 * sum((2 / (1 + np.exp(-2 * rate))) ** 6 + (2 / (1 + np.exp(2 * rate))) ** 6 for rate in (1, 2))
    )


@pytest.mark.parametrize("sizes", [(1, 1, 1, 1, 1, 1, 1), (5, 0.1, 3, 0, 2, 0.5, 8), (0, 0, 1, 2, 0, 4, 8)])
def test_under_the_null_the_bet_is_fair_after_every_episode(sizes: tuple[float, ...]) -> None:
    """The mean over all signs is 1 at each look, whatever the sizes: nothing is won by chance on average."""
    signs = np.array(list(product((1.0, -1.0), repeat=len(sizes))))
    assert weigh_evidence(signs * np.array(sizes)).mean(axis=0) == pytest.approx(np.ones(len(sizes)))


def test_what_follows_never_changes_what_was() -> None:
    assert weigh(3, -1, 2, 5, 0.2)[:3] == pytest.approx(weigh(3, -1, 2))


def test_neither_the_unit_nor_the_direction_matters_and_no_difference_is_no_evidence() -> None:
    assert weigh(3, -1, 2) == pytest.approx(weigh(-3000, 1000, -2000))
    assert weigh(0, 0, 0) == pytest.approx([1, 1, 1])


# --- which episodes count ------------------------------------------------------------------------------------------------

TASKS, EPISODES = np.arange(6), np.array([7, 7, 5, 5, 9, 9])  # two tasks an episode; keys in no order of a plan


def column(values: list[float], tasks: np.ndarray = TASKS, family: np.ndarray | None = None) -> TaskMeans:
    return TaskMeans(
        tasks, EPISODES[tasks], np.zeros(len(tasks)) if family is None else family[tasks], np.array(values)
    )


def line_up(own: TaskMeans, other: TaskMeans) -> Paired:
    found = pair([own], [other])
    assert found is not None
    return found


def test_episodes_count_in_the_order_of_the_plan_up_to_the_first_that_is_not_finished() -> None:
    ended, order = [1.0] * 6, column([1, 2, 5, 6, 3, 4])  # the plan: 7, 9, 5
    scored = line_up(column([1, 1, 0, 0, 0, 1]), column([0, 0, 1, 1, 0, 0]))
    whole = line_up(column(ended), column(ended))
    assert add_finished(whole, order, scored, by_family=False).tolist() == [2, 1, -2]
    half = line_up(column(ended), column([1, 1, 1, 1, 0.5, 1]))  # one sample of 9 is still to come
    assert add_finished(half, order, scored, by_family=False).tolist() == [2]


def test_a_task_without_a_verdict_adds_nothing_and_its_episode_is_finished() -> None:
    ended, order = [1.0] * 6, column([1, 2, 3, 4, 5, 6])
    some = np.array([0, 4, 5])
    scored = line_up(column([1, 1, 1], some), column([0, 0, 0], some))
    assert add_finished(line_up(column(ended), column(ended)), order, scored, by_family=False).tolist() == [1, 0, 2]


def test_over_families_each_weighs_the_same_in_its_episode() -> None:
    ended, order, family = [1.0] * 6, column([1, 2, 3, 4, 5, 6]), np.array([0, 0, 1, 2, 3, 3])
    sides = (column([1, 0, 1, 1, 1, 1], family=family), column([0.0] * 6, family=family))
    found = add_finished(line_up(column(ended), column(ended)), order, line_up(*sides), by_family=True)
    assert found.tolist() == [0.5, 2, 1]


# --- words ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "comparisons", "said"),
    [
        (3.29, 1, "Interim: evidence 3.2 of the 20 that let you stop."),
        (19.99, 1, "Interim: evidence 19.9 of the 20 that let you stop."),
        (5.0, 4, "Interim: evidence 5.0 of the 20 that let you stop, corrected for 4 comparisons."),
        (24.4, 1, "Interim, found at any look. After 9 episodes evidence for a drop reached 24; 20 let you stop."),
        (
            5e6,
            1,
            "Interim, found at any look. After 9 episodes evidence for a drop reached over 1,000; 20 let you stop.",
        ),
    ],
)
def test_it_is_told_rounded_down(value: float, comparisons: int, said: str) -> None:
    assert InterimEvidence(value, comparisons, False, 9, value).say("Interim") == said


def test_what_was_found_keeps_its_direction_and_says_what_became_of_it() -> None:
    found = InterimEvidence.of(np.array([1.0] * 6 + [-3.0] * 11), 1)
    assert (found.is_rise, found.clusters, found.is_enough) == (True, 6, True)
    assert found.say("Interim") == (
        "Interim, found at any look. After 6 episodes evidence for a rise reached 21; 20 let you stop. It is below 0.1 now."
    )
    assert InterimEvidence.of(np.array([-1.0] * 6), 1).is_rise is False
    assert InterimEvidence.of(np.array([]), 4).say("Interim") == (
        "Interim: evidence 0.2 of the 20 that let you stop, corrected for 4 comparisons."
    )
