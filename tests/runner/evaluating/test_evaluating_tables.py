"""Comparing tables: columns by name, rows in order, by key or in any order, tolerances per column."""

from __future__ import annotations

import pytest

from runner.evaluating.comparisons.comparison import PrecheckFailed
from runner.evaluating.comparisons.table import MAX_ROWS, TableComparator, TableRows, read_rows
from runner.evaluating.comparisons.values import Tolerance
from tests.cases import every

EXPECTED = b"id,name,total\n1,ann,10.00\n2,bob,20.50\n"


@pytest.mark.parametrize(
    "found",
    [
        EXPECTED,
        b"\xef\xbb\xbf" + EXPECTED.replace(b"\n", b"\r\n"),
        b'total,id,name\n"10.00",1,ann\n20.50 , 2,bob',
        EXPECTED + b"\n\n",
    ],
)
def test_columns_go_by_name_and_line_ends_do_not_count(found: bytes) -> None:
    assert TableComparator().compare(found, EXPECTED).passed


def test_the_first_different_cell_is_told() -> None:
    comparison = TableComparator().compare(b"id,name,total\n1,ann,10.00\n2,bo,20.5\n", EXPECTED)
    assert comparison.score == pytest.approx(4 / 6)
    assert comparison.message == (
        "row 2, column 'name': found 'bo', expected 'bob'; row 2, column 'total': found '20.5', expected '20.50'"
    )
    assert not comparison.numbers_only


def test_a_tolerance_makes_numbers_of_texts_in_its_columns_only() -> None:
    found = b"id,name,total\n01,ann,10\n2,bob,20.503\n"
    tolerant = TableComparator(tolerances={"total": Tolerance(0.01)})
    assert tolerant.compare(found, EXPECTED).message == "row 1, column 'id': found '01', expected '1'"
    assert TableComparator(tolerance=Tolerance(0.01)).compare(found, EXPECTED).passed


def test_numbers_that_are_off_are_told_as_numbers() -> None:
    comparison = TableComparator(tolerance=Tolerance(0.01)).compare(EXPECTED.replace(b"20.50", b"21"), EXPECTED)
    assert comparison.numbers_only
    assert not TableComparator().compare(EXPECTED.replace(b"20.50", b"much"), EXPECTED).numbers_only


def test_not_a_number_and_infinity_are_values() -> None:
    tolerant = TableComparator(tolerance=Tolerance(0.1))
    assert tolerant.compare(b"x\nNaN\n-inf\n-0.0\n", b"x\nnan\n-Infinity\n0\n").passed
    assert not tolerant.compare(b"x\nnan\n", b"x\n0\n").passed


def test_rows_that_are_missing_or_too_many_are_told() -> None:
    comparison = TableComparator().compare(b"id,name,total\n1,ann,10.00\n", EXPECTED)
    assert (comparison.message, comparison.score) == ("row 2: missing", 0.5)
    more = TableComparator().compare(EXPECTED + b"3,cy,1\n", EXPECTED)
    assert more.message == "row 3: expected no such row"
    assert not more.numbers_only


def test_rows_are_matched_by_their_key() -> None:
    by_key = TableComparator(key=("id",))
    assert by_key.compare(b"id,name,total\n2,bob,20.50\n1,ann,10.00\n", EXPECTED).passed
    assert by_key.compare(b"id,name,total\n2,bob,20.50\n9,ann,10.00\n", EXPECTED).message == (
        "row ('1',): missing; row ('9',): expected no such row"
    )
    with pytest.raises(PrecheckFailed, match=r"rows: two rows have the key \('1',\)"):
        by_key.compare(b"id,name,total\n1,ann,10\n1,ann,10\n", EXPECTED)


def test_rows_in_any_order_are_bags() -> None:
    any_order = TableComparator(any_order=True)
    assert any_order.compare(b"x\n2\n1\n1\n", b"x\n1\n2\n1\n").passed
    assert not any_order.compare(b"x\n2\n2\n1\n", b"x\n1\n2\n1\n").passed


def test_a_row_that_is_missing_moves_no_other_in_any_order() -> None:
    rows = [f"{place},{place * 10}" for place in range(10)]
    whole, found = ("\n".join(["x,y", *each]).encode() for each in (rows, [*rows[:0:-1], "7,70"]))
    comparison = TableComparator(any_order=True).compare(found, whole)
    assert (comparison.passed, comparison.score) == (False, pytest.approx(0.9))
    where = "row 1 of rows that only one side has, sorted"
    told = [f"{where}, column {name}: found {found}, expected '0'" for name, found in (("'x'", "'7'"), ("'y'", "'70'"))]
    assert comparison.message == "; ".join(told)


def test_what_is_near_enough_passes_in_any_order_though_the_same_row_is_there_too() -> None:
    near = TableComparator(any_order=True, tolerance=Tolerance(absolute=0.06))
    assert near.compare(b"x\n1.00\n1.05\n", b"x\n1.05\n1.10\n").passed


def test_a_whole_number_with_a_point_is_the_same_row_in_any_order() -> None:
    found, expected = b'{"a": 1.0, "b": 1}\n{"a": 1, "b": 2}', b'{"a": 1.0, "b": 2}\n{"a": 1, "b": 1}'
    assert TableComparator("jsonl", any_order=True).compare(found, expected).passed
    assert TableComparator("jsonl", key=("a",)).compare(b'{"a": 1.0, "b": 1}', b'{"a": 1, "b": 1}').passed


def test_numbers_nearly_alike_do_not_part_rows_in_any_order() -> None:
    any_order = TableComparator(any_order=True, tolerances={"v": Tolerance(0.1)})
    assert any_order.compare(b"v,k\n10,b\n9.96,a\n", b"v,k\n10,a\n9.96,b\n").passed
    assert any_order.compare(b"v,k\n9,a\n10,a\n", b"v,k\n10.05,a\n9.05,a\n").passed  # by size, not by letters


def test_only_the_columns_asked_for_are_compared() -> None:
    found = b"id,total,note\n1,10.00,x\n2,20.50,y\n"
    assert TableComparator(columns=("id", "total"), extra_columns=True).compare(found, EXPECTED).passed
    with pytest.raises(PrecheckFailed, match="columns: 1 too many, the first is 'note'"):
        TableComparator(columns=("id", "total")).compare(found, EXPECTED)
    with pytest.raises(PrecheckFailed, match="columns: 'name' is missing"):
        TableComparator().compare(found, EXPECTED)


@every(
    (b"", "columns: there is no header"),
    (b"\n\n", "columns: there is no header"),
    (b"a,b,a\n1,2,3\n", "columns: the column 'a' is there twice"),
    (b"a,b\n1\n", "columns: line 2 has 1 cells, the header has 2"),
    (b'a\n"x"y\n', "format: line 2: "),
    (b'a\n"never closed\n', "format: line 2: "),
    (b"a\n" + b"x" * 200_000, "format: line 2: field larger than"),
    (b"\xff\xfea", "format: byte 0 is no UTF-8"),
    (b"a\n" + b"1\n" * (MAX_ROWS + 1), "size: more than 200,000 rows"),
    (b",".join(b"%d" % n for n in range(3_000)), "size: 3,000 columns"),
)
def test_what_is_no_table_that_can_be_compared_is_told(content: bytes, told: str) -> None:
    with pytest.raises(PrecheckFailed, match=told):
        read_rows(content, "csv")


def test_a_million_rows_end_at_the_bound() -> None:
    with pytest.raises(PrecheckFailed, match="size"):
        TableComparator(format="tsv").compare(b"a\n" + b"1\n" * 1_000_000, b"a\n1\n")


def test_a_table_may_have_no_rows() -> None:
    assert TableComparator().compare(b"a,b\n", b"a,b").passed
    assert read_rows(b"a\tb\n1\t2,3\n", "tsv") == TableRows(("a", "b"), (("1", "2,3"),))


def test_json_lines_keep_their_values() -> None:
    lines = TableComparator(format="jsonl")
    assert lines.compare(
        b'{"b": 1.0, "a": "x"}\r\n\n{"a": null}\n', b'{"a": "x", "b": 1}\n{"b": null, "a": null}'
    ).passed
    assert lines.compare(b'{"a": "1"}', b'{"a": 1}').message == "row 1, column 'a': found '1', expected 1"
    assert not lines.compare(b'{"a": true}', b'{"a": 1}').passed
    assert lines.compare(b'{"a": [1, {"x": 1, "y": 2}]}', b'{"a": [1, {"y": 2, "x": 1}]}').passed


@every(
    (b"{}\n", "no object with a key"),
    (b'{"a": 1}\n[1]\n', r"line 2: \[1\] is no JSON object"),
    (b"nope\n", "line 1 is no JSON"),
    (b"[" * 5_000, "line 1 is no JSON: nested too deeply"),
    (b'{"a": 1}\n{"a": ' + b"[" * 900 + b"]" * 900 + b"}", "line 2: JSON nested deeper than 100 levels"),
    (b'{"a": 1, "a": 2}', "line 1: the key 'a' stands twice"),
)
def test_lines_that_cannot_be_compared_are_told(content: bytes, told: str) -> None:
    with pytest.raises(PrecheckFailed, match=told):
        read_rows(content, "jsonl")
