"""Which tasks can show whether skills help, by counts and by verdicts."""

from __future__ import annotations

import pytest

from benchapp.experiments.qualification import Fit, TaskFit, judge_by_trials, judge_by_verdict, summarise_fit
from benchapp.stats.inference.shares import Rate


@pytest.mark.parametrize(
    ("alone", "skilled", "fit"),
    [
        (Rate(0, 0, 4), Rate(4, 4, 4), Fit.UNKNOWN),
        (Rate(2, 4, 4), Rate(1, 4, 4), Fit.FIT),
        (Rate(3, 4, 4), Rate(4, 4, 4), Fit.EASY),
        (Rate(2, 3, 4), Rate(4, 4, 4), Fit.EASY),
        (Rate(1, 4, 4), Rate(0, 4, 4), Fit.UNSOLVED),
        (Rate(1, 4, 4), Rate(), Fit.UNKNOWN),
        (Rate(1, 1, 1), Rate(4, 4, 4), Fit.UNKNOWN),
        (Rate(0, 2, 2), Rate(0, 1, 1), Fit.UNKNOWN),
        (Rate(0, 2, 2), Rate(1, 1, 1), Fit.FIT),
    ],
)
def test_at_most_half_pass_alone_and_one_passes_with_a_skill(alone: Rate, skilled: Rate, fit: Fit) -> None:
    assert judge_by_trials(alone, skilled).fit is fit


@pytest.mark.parametrize(
    ("admission", "broken", "fit"),
    [
        ("admit", [], TaskFit(Fit.FIT)),
        ("look", [], TaskFit(why="why")),
        ("reject", ["no_skill"], TaskFit(Fit.EASY, "2 of 3 without a skill")),
        ("reject", ["no_skill", "reference"], TaskFit(Fit.UNSOLVED, "2 of 3 with the reference skill")),
        ("reject", ["no_skill", "untouched"], TaskFit(Fit.BROKEN, "why")),
    ],
)
def test_a_fault_of_the_task_counts_before_its_difficulty(admission: str, broken: list[str], fit: TaskFit) -> None:
    assert judge_by_verdict(admission, ["why"], dict.fromkeys(broken, (2, 1))) == fit


def test_the_answer_counts_what_is_fit_and_the_line_below_it_what_is_not() -> None:
    fits = [TaskFit(kind) for kind in (Fit.FIT, Fit.FIT, Fit.EASY, Fit.UNSOLVED, Fit.UNKNOWN)]
    said = "1 too easy without a skill, 1 not solved with the reference skill, 1 unknown."
    assert summarise_fit(fits, "the reference skill") == (
        "4 of 5 tasks are judged so far; 2 of them can show whether skills help.",
        said,
    )
    assert summarise_fit([TaskFit(Fit.EASY)])[0] == "None of 1 task can show whether skills help."
    assert summarise_fit([TaskFit()]) == ("", "")
    assert summarise_fit([TaskFit(kind) for kind in (Fit.FIT, Fit.EASY, Fit.HIDDEN)])[0] == (
        "1 of the 2 tasks that you may see can show whether skills help; 1 is hidden until you finish."
    )
