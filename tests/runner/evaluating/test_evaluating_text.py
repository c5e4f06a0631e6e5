"""Comparing bytes and text: what counts as alike, where a difference is told, and that nothing takes for ever."""

from __future__ import annotations

import pytest

from runner.evaluating.comparisons.comparison import MAX_SHOWN, PrecheckFailed
from runner.evaluating.comparisons.text_comparison import MAX_WORDS, Exact, TextComparator, likeness


def test_equal_bytes_pass() -> None:
    assert Exact().compare(b"a\0b", b"a\0b").passed


@pytest.mark.parametrize(
    ("found", "expected", "told"),
    [
        (b"one\ntwo\n", b"one\ntwa\n", "byte 6, line 2: found b'o\\n', expected b'a\\n'"),
        (b"one", b"one\n", "byte 3, line 1: found the end, expected b'\\n' (3 bytes, expected 4)"),
        (b"", b"x", "byte 0, line 1: found the end, expected b'x' (0 bytes, expected 1)"),
        (b"a\r\n", b"a\n", "byte 1, line 1: found b'\\r\\n', expected b'\\n' (3 bytes, expected 2)"),
    ],
)
def test_the_first_different_byte_is_told(found: bytes, expected: bytes, told: str) -> None:
    comparison = Exact().compare(found, expected)
    assert (comparison.passed, comparison.score, comparison.message) == (False, 0.0, told)


def test_a_late_difference_in_megabytes_is_found() -> None:
    expected = b"x" * 3_000_001
    comparison = Exact().compare(expected[:-1] + b"y", expected)
    assert comparison.message.startswith("byte 3,000,000, line 1: found b'y', expected b'x'")


@pytest.mark.parametrize("found", [b"a\nb\n", b"a  \nb", b"\xef\xbb\xbfa\nb\n\n", b"a\r\nb\r\n"])
def test_white_space_at_the_ends_a_byte_order_mark_and_carriage_returns_do_not_count(found: bytes) -> None:
    assert TextComparator().compare(found, b"a\nb\n").passed


def test_white_space_counts_where_that_is_asked_for() -> None:
    assert not TextComparator(trailing_space=False).compare(b"a ", b"a").passed


def test_case_and_order_of_lines_are_left_out_on_demand() -> None:
    assert not TextComparator().compare(b"B\na", b"a\nb").passed
    assert TextComparator(ignore_case=True, any_order=True).compare(b"B\na", b"a\nb").passed
    assert not TextComparator(any_order=True).compare(b"a\na\nb", b"a\nb\nb").passed  # as bags, not as sets


def test_a_line_that_is_missing_moves_no_other_where_any_order_will_do() -> None:
    comparison = TextComparator(any_order=True).compare(b"c\nd\nb\nb", b"a\nb\nc\nd")
    assert (comparison.passed, comparison.score) == (False, 0.75)
    assert comparison.message == "missing line 'a'; expected no line 'b'"
    assert TextComparator(any_order=True).compare(b"", b"x\nx").message == "missing line 'x', 2 times"


def test_the_first_different_lines_are_told_and_the_rest_counted() -> None:
    comparison = TextComparator().compare(b"\n".join(b"%d" % n for n in range(20)), b"0\n" + b"x\n" * 20)
    assert comparison.score == pytest.approx(1 / 21)
    assert comparison.message.startswith("line 2: found '1', expected 'x'; ")
    assert "line 6:" in comparison.message
    assert "line 7:" not in comparison.message
    assert comparison.message.endswith("and 15 more")


def test_missing_and_extra_lines_are_told() -> None:
    assert TextComparator().compare(b"a", b"a\nb").message == "line 2: missing, expected 'b'"
    assert TextComparator().compare(b"a\nb", b"a").message == "line 2: found 'b', expected no more"
    assert TextComparator().compare(b"", b"a").message == "line 1: missing, expected 'a'"


def test_a_long_line_is_told_in_short() -> None:
    message = TextComparator().compare(b"y" * 1_000_000, b"x" * 1_000_000).message
    assert len(message) < 3 * MAX_SHOWN


def test_text_that_is_no_utf8_is_told_as_such() -> None:
    with pytest.raises(PrecheckFailed, match="format: byte 1 is no UTF-8"):
        TextComparator().compare(b"a\xff", b"a")


def test_nothing_equals_nothing() -> None:
    assert TextComparator().compare(b"", b"").passed
    assert TextComparator(similarity=0.5).compare(b"", b"").passed


@pytest.mark.parametrize(("wanted", "passed"), [(0.74, True), (0.75, True), (0.76, False)])
def test_enough_likeness_passes(wanted: float, passed: bool) -> None:
    """a b c d against a x c d: three words in common, 2 * 3 / 8."""
    comparison = TextComparator(similarity=wanted).compare(b"a b c d", b"a x c d")
    assert (comparison.passed, comparison.score) == (passed, 0.75)
    assert comparison.message == f"similarity 0.750, at least {wanted:g} is wanted"


def test_likeness_agrees_with_a_slow_reference() -> None:
    def longest(ours: str, theirs: str) -> int:
        if not ours or not theirs:
            return 0
        if ours[0] == theirs[0]:
            return 1 + longest(ours[1:], theirs[1:])
        return max(longest(ours[1:], theirs), longest(ours, theirs[1:]))

    for ours, theirs in [("abcbdab", "bdcaba"), ("aaaa", "aa"), ("abc", "cba"), ("abab", "baba"), ("xyz", "abc")]:
        assert likeness(ours, theirs) == 2 * longest(ours, theirs) / (len(ours) + len(theirs))


def test_what_lies_beyond_the_words_that_are_compared_counts_as_different() -> None:
    words = ["a", "b"] * MAX_WORDS
    assert likeness(words, words) == 0.5
