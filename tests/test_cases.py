"""A test over many cases names every one that breaks it, and is passed by none that it did not try."""

from pathlib import Path

import pytest

from tests.cases import every


def test_every_case_that_fails_or_crashes_is_named_with_what_came() -> None:
    @every((4, 2), (0, 1), ("six", 3), pytest.param(7, 1, id="seven"))
    def halves(number: int, half: int) -> None:
        assert number / 2 == half

    with pytest.raises(AssertionError) as caught:
        halves()
    head, *rest = str(caught.value).split("\n- ")
    assert head.startswith("3 of 4 cases fail")
    assert [line.partition(": ")[0] for line in rest] == ["0, 1", "'six', 3", "seven"]
    assert "assert (0 / 2) == 1" in rest[0]
    assert "TypeError" in rest[1]


def test_without_cases_it_fails() -> None:
    with pytest.raises(AssertionError, match="there are no cases"):
        every()(lambda case: None)()


@every("a", "b")
@every((1, "x"), (2, "y"))
def test_the_lower_list_has_the_first_arguments_and_each_case_a_folder(
    number: int, letter: str, other: str, tmp_path: Path
) -> None:
    assert (number, letter) in [(1, "x"), (2, "y")]
    assert other in "ab"
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "left").write_text(letter)
