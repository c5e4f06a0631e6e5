"""Differences from the paper carry a reason that follows from the counts."""

from __future__ import annotations

import pytest

from benchapp.imports.problems import ProblemList
from benchapp.papers.published_rows import Cells, read_published_rows
from benchapp.papers.release import Beside, Release, ReleasedLibrary, Tally, compare_with_paper, examine
from runner.base.types import File

TEXT = b"---\nname: x\ndescription: y\n---\n\nDo it.\n"


def tally(method: str, libraries: int, skills: list[str]) -> Tally:
    """Skills by pattern ("A", "B", "b" for code outside scripts/, "C"), spread over the libraries."""
    files: list[dict[str, File]] = [{} for _ in range(libraries)]
    for number, pattern in enumerate(skills):
        mine, name = files[number % libraries], f"skill-{number}"
        mine[f"{name}/SKILL.md"] = File(TEXT + (b"Ask a subagent.\n" if pattern == "C" else b""))
        if pattern in "Bb":
            mine[f"{name}/{'scripts/' if pattern == 'B' else ''}do.py"] = File(b"x = 1\n")
    made = [
        ReleasedLibrary(method, method, "", f"task-{number}", mine, frozenset(), None)
        for number, mine in enumerate(files)
    ]
    release = Release(tuple(made), (), ProblemList())
    return Tally(method, [examine(library, release) for library in made])


def lines(made: Tally) -> dict[str, Beside]:
    return {line.what: line for line in compare_with_paper([made], Cells(read_published_rows("skilllearnbench")))}


def test_counts_that_give_the_print_need_no_reason():
    found = lines(tally("skill-creator", 120, ["A"] * 264 + ["B"] * 3))
    assert [(line.printed, line.here, line.why) for line in found.values()] == [
        ("2.23", "2.225", ""),
        ("98.9", "98.88", ""),
        ("1.1", "1.12", ""),
        ("0.0", "0.00", ""),
    ]


def test_a_row_that_no_counts_give_names_those_that_would():
    found = lines(tally("human-authored", 20, ["A"] * 22 + ["B"] * 12 + ["b"] + ["C"]))
    assert found["skills per task"].why == "printed 2.05 x 20 is 41 skills, 36 are here"
    assert found["skills per task"].difference == "-0.250"
    told = "no counts of the 36 skills here give the row; 42 skills would (27/14/1)"
    assert found["pattern A, %"].why == told
    assert found["pattern B, %"].why == f"{told}; 1 of 13 have code but no scripts/ folder"


def test_a_count_that_differs_by_one_is_told():
    found = lines(tally("self-feedback", 120, ["A"] * 310))
    assert found["pattern B, %"].why == "printed is 1 of 310, here 0"
    assert (found["pattern B, %"].difference, found["pattern C, %"].why) == ("-0.30", "")


def test_part_of_a_release_is_never_compared_as_the_whole():
    found = lines(tally("teacher-feedback", 8, ["A"] * 13 + ["B"]))
    assert found["skills per task"].why == "8 of 120 libraries are here, by 0 of 6 models"
    assert found["pattern B, %"].why == "8 of 120 libraries are here, by 0 of 6 models, one skill is 7.1 points"


@pytest.mark.parametrize("made", [tally("a method of its own", 2, ["A"]), tally("one-shot", 2, [])])
def test_what_the_paper_does_not_have_is_not_compared(made):
    assert lines(made) == {}
