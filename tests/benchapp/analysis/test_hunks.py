"""Taking a decision's hunks back from a later library: exactly those lines, or an error that says who changed them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchapp.analysis.lineage.hunks import HunkGone, NamedFiles, find_echoes, list_hunks, take_back
from benchapp.record.textual_change import split_lines
from runner.base.types import File

OLD = "one\ntwo\nthree\nfour\nfive\nsix\n"
NEW = "one\nTWO\nthree\nfour\nfive\nnew\nsix\n"


def files(text: Mapping[str, str]) -> dict[str, File]:
    return {path: File(content.encode()) for path, content in text.items()}


def line(*states: Mapping[str, str]) -> list[NamedFiles]:
    return [NamedFiles(f"R{number}", files(state)) for number, state in enumerate(states, start=2)]


PATH = "a/SKILL.md"


def of(old: str, new: str) -> tuple:
    return list_hunks(files({PATH: old}), files({PATH: new}))


def test_every_run_of_changed_lines_is_a_hunk() -> None:
    first, second = of(OLD, NEW)
    assert (first.place, first.did) == ("line 2", "1 removed, 1 added")
    assert (second.place, second.did) == ("line 6", "0 removed, 1 added")
    assert first.id != second.id
    assert [hunk.id for hunk in of(OLD, NEW)] == [first.id, second.id]


def test_one_is_taken_back_and_the_other_stays() -> None:
    first, second = of(OLD, NEW)
    assert take_back([first], line({PATH: NEW}))[PATH].content.decode() == NEW.replace("TWO", "two")
    assert take_back([second], line({PATH: NEW}))[PATH].content.decode() == NEW.replace("new\n", "")
    assert take_back([first, second], line({PATH: NEW}))[PATH].content.decode() == OLD


def test_it_is_found_again_below_what_was_written_above_it_later() -> None:
    first, second = of(OLD, NEW)
    later = "title\n\n" + NEW + "end\n"
    assert (
        take_back([first, second], line({PATH: NEW}, {PATH: later}))[PATH].content.decode()
        == "title\n\n" + OLD + "end\n"
    )


def test_a_line_that_was_rewritten_later_says_by_which_round() -> None:
    first, _ = of(OLD, NEW)
    states = line({PATH: NEW}, {PATH: NEW + "x\n"}, {PATH: NEW.replace("TWO", "2")})
    with pytest.raises(
        HunkGone, match=r"a/SKILL\.md, line 2\) can no longer be taken back at R4: R4 changed those lines"
    ):
        take_back([first], states)


def test_lines_that_were_removed_come_back_only_between_their_old_neighbours() -> None:
    (gone,) = of(OLD, OLD.replace("three\n", ""))
    after = OLD.replace("three\n", "")
    assert take_back([gone], line({PATH: after}, {PATH: "top\n" + after}))[PATH].content.decode() == "top\n" + OLD
    with pytest.raises(HunkGone, match="R3 changed those lines"):
        take_back([gone], line({PATH: after}, {PATH: after.replace("four", "between\nfour")}))


def test_a_file_that_was_removed_later_says_so() -> None:
    first, _ = of(OLD, NEW)
    with pytest.raises(HunkGone, match="R3 removed the file"):
        take_back([first], line({PATH: NEW}, {"b/SKILL.md": "b\n"}))


def test_a_file_that_came_in_goes_whole_as_long_as_nobody_touched_it() -> None:
    before, after = {PATH: OLD}, {PATH: OLD, "a/notes.md": "n\n"}
    (came,) = list_hunks(files(before), files(after))
    assert came.kind == "added"
    assert take_back([came], line(after, {**after, PATH: NEW})) == files({PATH: NEW})
    with pytest.raises(HunkGone, match="R3 changed it"):
        take_back([came], line(after, {**after, "a/notes.md": "m\n"}))


def test_a_file_that_went_away_comes_back() -> None:
    before, after = {PATH: OLD, "a/notes.md": "n\n"}, {PATH: OLD}
    (went,) = list_hunks(files(before), files(after))
    assert take_back([went], line(after)) == files(before)
    with pytest.raises(HunkGone, match="R3 brought it back"):
        take_back([went], line(after, {**after, "a/notes.md": "other\n"}))


def test_a_skill_is_not_left_without_its_description() -> None:
    after = {PATH: OLD, "a/notes.md": "n\n"}
    skill, notes = list_hunks({}, files(after))
    with pytest.raises(HunkGone, match=r"left without its SKILL\.md"):
        take_back([skill], line(after))
    assert take_back([skill, notes], line(after)) == {}


def test_binary_files_and_modes_are_taken_back_whole() -> None:
    old, new = {"a/x": File(b"\0one"), "a/y": File(b"y\n")}, {"a/x": File(b"\0two"), "a/y": File(b"y\n", 0o755)}
    content, mode = list_hunks(old, new)
    assert (content.kind, mode.kind) == ("content", "mode")
    assert take_back([content, mode], [NamedFiles("R1", new)]) == old


texts = st.lists(st.sampled_from("abcd"), max_size=12).map(lambda found: "".join(f"{letter}\n" for letter in found))


@settings(max_examples=200, deadline=None)
@given(texts, texts)
def test_all_hunks_of_any_change_taken_back_give_what_was(old: str, new: str) -> None:
    assert take_back(of(old, new), line({PATH: new})) == files({PATH: old})


@settings(max_examples=200, deadline=None)
@given(texts, texts, texts)
def test_after_any_later_change_it_is_exact_or_refused(old: str, new: str, later: str) -> None:
    """The lines it added go and the lines it removed come back in one place, wherever it now stands."""
    for hunk in of(old, new):
        try:
            found = take_back([hunk], line({PATH: new}, {PATH: later}))[PATH].content
        except HunkGone:
            continue
        assert len(split_lines(found)) == len(split_lines(later.encode())) - len(hunk.added) + len(hunk.removed)
        was, now = split_lines(later.encode()), split_lines(found)
        assert any(
            was[:at] + list(hunk.removed) + was[at + len(hunk.added) :] == now
            for at in range(len(was) + 1)
            if was[at : at + len(hunk.added)] == list(hunk.added)
        )


SKILL = "---\nname: a\ndescription: b\n---\n\n# A\n\n1. Read.\n2. Tidy up.\n"


def test_each_line_of_a_file_that_came_in_can_be_taken_back_alone() -> None:
    (hunk,) = list_hunks({}, files({PATH: SKILL}))
    assert [(line.place, line.added[0].decode()) for line in hunk.lines] == [
        ("line 6", "# A\n"), ("line 8", "1. Read.\n"), ("line 9", "2. Tidy up.\n"),
    ]  # fmt: skip
    later = SKILL.replace("# A", "# A, revised") + "3. Check.\n"
    taken = take_back([hunk.lines[-1]], line({PATH: SKILL}, {PATH: later}))
    assert taken[PATH].content.decode() == later.replace("2. Tidy up.\n", "")


def test_lines_that_took_the_place_of_others_are_taken_back_together() -> None:
    replaced, added = of(OLD, NEW.replace("new\n", "new\nnewer\n"))
    assert replaced.lines == ()
    assert [each.added for each in added.lines] == [(b"new\n",), (b"newer\n",)]
    assert of(OLD, NEW)[1].lines == ()  # one line is the hunk itself


def test_a_binary_file_has_no_lines() -> None:
    (hunk,) = list_hunks({}, {"a/assets/x": File(b"\0a\nb\n")})
    assert hunk.lines == ()


def test_an_echo_is_the_same_line_in_another_file_and_is_taken_out_of_the_library_that_is_frozen() -> None:
    added = "# Steps\n1. Read it.\n6. Tidy up.\n"
    (hunk,) = list_hunks({}, files({PATH: added}))
    library = {PATH: added, "b/SKILL.md": "# Steps\n0. Begin.\n6. Tidy up.\n", "c/data.bin": "6. Tidy up.\n\0"}
    (echo,) = find_echoes([hunk], files(library))
    assert (echo.path, echo.place, echo.did) == ("b/SKILL.md", "line 3", "the same line in another file")
    line_of_hunk = next(each for each in hunk.lines if each.added == (b"6. Tidy up.\n",))
    left = take_back([line_of_hunk, echo], line({PATH: added}, library))
    assert left["b/SKILL.md"].content == b"# Steps\n0. Begin.\n"
    assert left[PATH].content == b"# Steps\n1. Read it.\n"
