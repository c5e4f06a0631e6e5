"""Links by text overlap: a guess with its reasons."""

from __future__ import annotations

from benchapp.analysis.lineage.word_overlap import find_overlaps

STEPS = [
    (1, "You are in a shell. Read README and solve the task."),
    (2, "python parse.py\nValueError: missing codes -999 in column depth"),
    (3, "wrote result.csv, mean of depth without missing codes"),
    (4, "submit"),
]


def test_it_finds_the_steps_that_share_words_best_first_and_says_which():
    found = find_overlaps("- Drop missing codes such as -999 before the mean of depth.", STEPS)
    assert [one.step for one in found] == [2, 3]
    assert set(found[0].shared) == {"missing", "codes", "999", "depth"}
    assert found[0].words >= 5


def test_it_finds_nothing_where_too_little_is_shared():
    assert find_overlaps("- Keep headings short.", STEPS) == []
    assert find_overlaps("", STEPS) == []
    assert find_overlaps("depth", STEPS) == []


def test_words_of_most_steps_tell_nothing():
    steps = [(number, "reading depth column again") for number in range(1, 9)]
    assert find_overlaps("reading depth column", steps) == []
