"""Fields of foreign records: the wanted type, or nothing."""

import pytest

from runner.base.types import Usage
from runner.trajectories.log_records import (
    parse_json,
    pick_fields,
    read_amount,
    read_arguments,
    read_count,
    read_list,
    read_milliseconds,
    read_object,
    read_objects,
    read_seconds,
    read_text,
    read_usage,
    read_usage_parts,
)
from tests.cases import every

ODD: list[object] = [None, True, "1", "", [], {}, [1], {"a": 1}, -1, float("nan"), float("inf"), 10**20]


@every(*ODD)
def test_what_is_no_amount_is_not_known(value: object) -> None:
    assert (read_amount(value), read_count(value), read_milliseconds(value), read_seconds(value)) == (None,) * 4


def test_a_count_loses_its_fraction_and_an_amount_keeps_it() -> None:
    assert (read_count(2.9), read_amount(2.9), read_count(0), read_amount(0)) == (2, 2.9, 0, 0.0)


def test_times_since_1970_become_iso_texts_up_to_the_year_9999() -> None:
    assert read_seconds(1.5) == read_milliseconds(1500) == "1970-01-01T00:00:01.500Z"
    assert (read_seconds(253_402_300_800), read_milliseconds(253_402_300_800_000)) == (None, None)


@pytest.mark.parametrize("value", [None, 1, "x", ["x"]], ids=repr)
def test_what_is_no_object_reads_as_an_empty_one(value: object) -> None:
    assert read_object(value) == {}
    assert read_usage(value, "in", "cached", "out") == Usage()


def test_lists_give_their_items_and_their_objects() -> None:
    assert (read_list([1, {"a": 1}]), read_objects([1, {"a": 1}])) == ([1, {"a": 1}], [{"a": 1}])
    assert (read_list({"a": 1}), read_objects("x")) == ([], [])


def test_a_text_is_made_fit_for_a_database() -> None:
    assert (read_text("a\0b"), read_text(""), read_text(1)) == ("a\u2400b", "", None)


def test_input_counted_in_parts_is_added_up() -> None:
    raw = {"fresh": 5, "read": 3, "written": "odd", "out": 2}
    assert read_usage_parts(raw, ("fresh", "read", "written"), "out") == Usage(8, 3, 2)
    assert read_usage_parts({}, ("fresh", "read", "written"), "out") == Usage()


@pytest.mark.parametrize(("raw", "found"), [(None, {}), ({"a": "b\0"}, {"a": "b\u2400"}), ("ls", {"raw": "ls"})])
def test_arguments_that_are_no_object_are_kept_below_a_key(raw: object, found: object) -> None:
    assert read_arguments(raw) == found


@pytest.mark.parametrize(("text", "value"), [('{"a": "b\n"}', {"a": "b\n"}), ("{", None), ("[" * 100_000, None)])
def test_a_text_that_spells_no_json_is_nothing(text: str, value: object) -> None:
    assert parse_json(text) == value


def test_only_fields_with_a_value_are_picked() -> None:
    assert pick_fields({"a": 0, "b": None, "c": 1}, ("a", "b", "d")) == {"a": 0}
