"""What a text shares with texts that it must not reveal."""

from __future__ import annotations

from runner.authoring.copied import MAX_PASSAGE_CHARS, MAX_PASSAGES, leaks, overlap
from tests.cases import every

SECRET = """# Distances

Project every point to the world equidistant cylindrical projection before you measure,
because the reference counts kilometres there and nowhere else.

```python
gap = points.to_crs("EPSG:4087").distance(border.to_crs("EPSG:4087")) / 1000.0
```
"""
ADVICE = (
    "Your distances are off by a few per cent. Think about which projection keeps distances, and say why in the skill."
)


def test_advice_in_words_of_its_own_shares_nothing():
    found = overlap(ADVICE, [SECRET])
    assert (found.shared, found.longest, found.passages, found.share) == (0, 0, (), 0.0)
    assert found.total == len(ADVICE.split()) - 7
    assert not leaks(found)


def test_a_copied_sentence_leaks_whatever_its_case_punctuation_and_lines():
    copied = "PROJECT every point\nto the World-Equidistant (cylindrical) projection: before you measure"
    found = overlap(f"{ADVICE} {copied}. Try that.", ["nothing of it", SECRET])
    assert leaks(found)
    assert (found.shared, found.longest) == (5, 12)
    assert [(each.text, each.words, each.source) for each in found.passages] == [(copied, 12, 1)]


def test_places_are_those_of_the_text():
    text = f"{ADVICE}\n\n> because the reference counts kilometres there and nowhere else"
    (passage,) = overlap(text, [SECRET]).passages
    assert text[passage.start : passage.end] == "because the reference counts kilometres there and nowhere else"


def test_code_leaks_in_other_white_space():
    found = overlap(
        f"{ADVICE}\n  gap=points.to_crs( 'EPSG:4087' )\\\n .distance( border.to_crs('EPSG:4087') )", [SECRET]
    )
    assert leaks(found)
    assert "to_crs" in found.passages[0].text


def test_whole_lines_of_code_too_short_for_a_run_leak_by_two():
    code = ["frame = gpd.read_file(source, rows=9)", "points = frame.to_crs(4087).buffer(2)"]
    source = "\n".join(["# Code", *code, "print(points)"])
    one = overlap(f"{ADVICE}\n    {code[0].replace(' ', '')}", [source])
    assert (one.shared, one.lines, leaks(one)) == (0, 1, False)
    two = overlap(f"{ADVICE}\n{code[0]}\nor perhaps\n{code[1]};", [source])
    assert (two.shared, two.lines, leaks(two)) == (0, 2, True)
    assert [each.text + ")" for each in two.passages] == code
    assert not leaks(overlap(f"{ADVICE}\n{code[0]}\nor perhaps\n{code[1]};", [source], ignoring=[code[1]]))


def test_a_line_inside_a_shared_run_is_not_counted_twice():
    lines = "frame = gpd.read_file(source, rows=9)\npoints = frame.to_crs(4087).buffer(2)"
    found = overlap(lines, [lines])
    assert (found.lines, len(found.passages)) == (0, 1)


def test_one_shared_run_of_eight_is_no_leak_yet():
    eight = "every point to the world equidistant cylindrical projection"
    assert len(eight.split()) == 8
    assert overlap(f"{ADVICE} {eight}", [SECRET]).shared == 1
    assert not leaks(overlap(f"{ADVICE} {eight}", [SECRET]))
    assert leaks(overlap(f"{ADVICE} {eight} before", [SECRET]))


def test_two_single_runs_in_two_places_leak():
    one, two = (
        "every point to the world equidistant cylindrical projection",
        "the reference counts kilometres there and nowhere else",
    )
    found = overlap(f"{one}. Also: {two}.", [SECRET])
    assert (found.shared, len(found.passages)) == (2, 2)
    assert leaks(found)


def test_a_long_run_leaks_by_its_length_where_longer_pieces_are_compared():
    twelve = "project every point to the world equidistant cylindrical projection before you measure"
    found = overlap(f"{ADVICE} {twelve}", [SECRET], n=12)
    assert (found.shared, found.longest) == (1, 12)
    assert leaks(found)


def test_what_the_instruction_says_is_no_leak_nor_are_words_that_only_adjoin_it():
    told = "Project every point to the world equidistant cylindrical projection before you measure"
    text = f"{ADVICE} {told}, because the reference knows."
    assert leaks(overlap(text, [SECRET]))
    found = overlap(text, [SECRET], ignoring=[f"The task. {told}."])
    assert (found.shared, found.passages) == (0, ())
    assert not leaks(found)


def test_the_share_leaves_out_what_is_known():
    known = "these ten words are known to the student by heart"
    copied = "because the reference counts kilometres there and nowhere else"
    found = overlap(f"{known} {copied}", [SECRET], ignoring=[known])
    assert (found.shared, found.total, found.share) == (2, 2, 1.0)


def test_a_text_that_is_known_altogether_has_no_share():
    found = overlap(ADVICE, [SECRET], ignoring=[ADVICE])
    assert found.share is None
    assert not leaks(found)


def test_a_ruler_and_a_row_of_digits_are_no_copied_text():
    row = "0 1 2 3 4 5 6 7 8 9 a a a a a a a a a a a"
    assert not leaks(overlap(row, [row]))


@every(
    ("Distance to border.to_crs('EPSG:4087')", False),  # not in one piece
    ("distance(border.to_crs('EPSG:4087'))", True),
    ("It failed.\n* nowhere else. ```python", True),
    ("projection", False),
    ("the world equidistant", True),
    ("he world equi", False),
    ("", False),
)
def test_a_short_text_is_judged_by_whole_lines(text, leaked):
    found = overlap(text, [SECRET])
    assert found.by_lines
    assert leaks(found) is leaked


def test_a_short_line_that_the_student_knows_is_no_leak():
    assert not leaks(overlap("the world equidistant", [SECRET], ignoring=["Use The World Equidistant."]))


def test_a_short_line_is_found_at_its_place():
    text = "No.\n\n  > the world, EQUIDISTANT!\n"
    (passage,) = overlap(text, [SECRET]).passages
    assert text[passage.start : passage.end] == passage.text == "the world, EQUIDISTANT"
    assert passage.words == 3


def test_passages_are_bounded_and_counts_are_not():
    said = " ".join(f"word{number}x" for number in range(400))
    found = overlap(said, [said])
    assert found.longest == 400
    assert len(found.passages[0].text) == MAX_PASSAGE_CHARS
    pieces = [" ".join(f"p{piece}w{number}" for number in range(8)) for piece in range(30)]
    many = overlap(" -- between -- ".join(pieces), pieces)
    assert (many.shared, len(many.passages)) == (30, MAX_PASSAGES)
