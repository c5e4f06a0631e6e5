"""Comparing numbers and JSON trees."""

from __future__ import annotations

import math

import pytest

from runner.evaluating.comparisons.comparison import PrecheckFailed
from runner.evaluating.comparisons.values import MAX_DEPTH, JsonTree, Numeric, Tolerance, number_in, read_json
from tests.cases import every

HUGE = 10**400


@every(
    (1.0, 1.1, True),
    (1.0, 1.1001, False),
    (-1.0, -1.1, True),
    (0.0, -0.0, True),
    (math.nan, math.nan, True),
    (math.nan, 0.0, False),
    (0.0, math.nan, False),
    (math.inf, math.inf, True),
    (math.inf, -math.inf, False),
    (1e308, math.inf, False),
    (math.inf, 1e308, False),
    (HUGE, HUGE, True),
    (HUGE, HUGE + 1, False),
    (HUGE, 1.0, False),
)
def test_within_a_tenth(found: float, expected: float, alike: bool) -> None:
    assert Tolerance(absolute=0.1).alike(found, expected) is alike


def test_a_relative_tolerance_is_one_of_the_expected_number() -> None:
    assert Tolerance(relative=0.1).alike(110, 100)
    assert not Tolerance(relative=0.1).alike(100, 111.2)
    assert not Tolerance(relative=0.1).alike(0.0001, 0)
    assert Tolerance(0.001, 0.1).alike(0.0001, 0)


def test_large_integers_are_compared_exactly_without_a_tolerance() -> None:
    assert not Tolerance().alike(2**53, 2**53 + 1)


@every((" 1e3 ", 1000.0), ("7", 7), ("-inf", -math.inf), ("1_000", None), ("", None))
def test_numbers_in_texts(text: str, value: float | None) -> None:
    assert number_in(text) == value


@pytest.mark.parametrize("found", [b"3.14", b" 3.14\n", b"\xef\xbb\xbf3.1400001", b"+3.14"])
def test_one_number_passes_within_its_tolerance(found: bytes) -> None:
    assert Numeric(Tolerance(0.001)).compare(found, b"3.14").passed


def test_a_number_that_is_off_is_told_with_its_distance() -> None:
    comparison = Numeric().compare(b"1 2.5, 3", b"1 2 3")
    assert (comparison.passed, comparison.numbers_only) == (False, True)
    assert comparison.score == pytest.approx(2 / 3)
    assert comparison.message == "number 2: found 2.5, expected 2 (apart by 0.5)"


def test_a_count_that_is_off_is_no_matter_of_numbers_alone() -> None:
    comparison = Numeric().compare(b"1 2", b"1 2 3")
    assert comparison.message == "found 2 numbers, expected 3"
    assert not comparison.numbers_only
    assert comparison.score == pytest.approx(2 / 3)


def test_not_a_number_is_expected_where_it_is_expected() -> None:
    assert Numeric().compare(b"nan", b"nan").passed
    assert not Numeric(Tolerance(1e9)).compare(b"nan", b"1").passed


@pytest.mark.parametrize(
    ("found", "told"), [(b"", "it is empty"), (b"1 two", "word 2: 'two' is no number"), (b"\xff", "no UTF-8")]
)
def test_what_is_no_number_is_told(found: bytes, told: str) -> None:
    with pytest.raises(PrecheckFailed, match=told):
        Numeric().compare(found, b"1 2")


def test_a_tree_of_numbers_is_compared_by_its_places() -> None:
    comparison = Numeric(Tolerance(0.01)).compare(b'{"a": [1, 2.5], "b": NaN}', b'{"a": [1.001, 2], "b": NaN}')
    assert comparison.message == "$.a[1]: found 2.5, expected 2"
    assert comparison.score == pytest.approx(2 / 3)
    with pytest.raises(PrecheckFailed, match=r"\$\.a\[0\]: 'x' is no number"):
        Numeric().compare(b'{"a": ["x"]}', b'{"a": [1]}')


def test_trees_are_compared_leaf_by_leaf() -> None:
    found = b'{"a": 1.0, "b": [1, {"c": null}], "d": true}'
    expected = b'{"d": 1, "b": [1, {"c": 0}, "z"], "a": 1}'
    comparison = JsonTree().compare(found, expected)
    assert comparison.score == pytest.approx(2 / 5)
    assert comparison.message == (
        "$.b[1].c: found None, expected 0; $.b[2]: missing, expected 'z'; $.d: found True, expected 1"
    )
    assert not comparison.numbers_only


def test_numbers_alone_that_are_off_are_told_as_that() -> None:
    assert JsonTree().compare(b'{"a": 1, "b": "x"}', b'{"a": 2, "b": "x"}').numbers_only


def test_empty_objects_and_arrays_are_something() -> None:
    assert JsonTree().compare(b'{"a": {}, "b": []}', b'{"b": [], "a": {}}').passed
    assert JsonTree().compare(b'{"a": {}}', b'{"a": []}').message == (
        "$.a: found an object of 0 keys, expected an array of 0"
    )
    assert not JsonTree().compare(b"{}", b'{"a": {"b": 1}}').passed


def test_a_missing_tree_weighs_as_much_as_its_leaves() -> None:
    assert JsonTree().compare(b'{"a": 1}', b'{"a": 1, "b": {"c": 1, "d": [1, 2]}}').score == 0.25


def test_order_and_keys_are_left_out_on_demand() -> None:
    comparator = JsonTree(any_order=True, ignored_keys=frozenset({"at"}))
    assert comparator.compare(b'{"at": 1, "x": [2, {"b": 1, "at": 3}]}', b'{"x": [{"b": 1}, 2]}').passed
    assert not comparator.compare(b"[1, 1, 2]", b"[1, 2, 2]").passed
    assert comparator.compare(
        b'[{"at": 7, "x": "a"}, {"at": 3, "x": "b"}]', b'[{"at": 1, "x": "a"}, {"x": "b"}]'
    ).passed


def test_bags_of_bags_and_whole_numbers_with_a_point_are_the_same() -> None:
    comparator = JsonTree(any_order=True)
    assert comparator.compare(b"[[2, 1], [1, 3]]", b"[[1, 2], [3, 1]]").passed
    assert comparator.compare(
        b'[{"a": 1.0, "b": 1}, {"a": 1, "b": 2}]', b'[{"a": 1.0, "b": 2}, {"a": 1, "b": 1}]'
    ).passed
    assert not comparator.compare(b"[[2, 1], [1, 3]]", b"[[1, 2], [1, 1]]").passed


@every(
    (b"", "no JSON at line 1, column 1"),
    (b'{"a": 1,}', "no JSON at line 1"),
    (b'{"a": 1, "a": 2}', "the key 'a' stands twice"),
    (b"[" * 5_000 + b"]" * 5_000, "nested deeper"),
    (b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1), "nested deeper than 100 levels"),
    (b"1" * 5_000, "integer"),
    (b"[" + b"1," * 500_000 + b"1]", "more than 500,000 values"),
)
def test_what_is_no_json_of_ordinary_size_is_told(content: bytes, told: str) -> None:
    with pytest.raises(PrecheckFailed, match=told):
        read_json(content)


def test_a_key_that_stands_twice_after_many_others_is_found_at_once() -> None:
    pairs = [f'"{number}":0' for number in range(200_000)]
    with pytest.raises(PrecheckFailed, match="the key '199999' stands twice"):  # counting each would take hours
        read_json(f"{{{','.join([*pairs, pairs[-1]])}}}".encode())


def test_a_hundred_thousand_differences_are_told_in_short() -> None:
    comparison = JsonTree().compare(b"[" + b"1," * 100_000 + b"1]", b"[" + b"2," * 100_000 + b"2]")
    assert comparison.score == 0
    assert comparison.message.endswith("; and 99,996 more")
    assert len(comparison.message) < 500
