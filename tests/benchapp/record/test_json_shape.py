"""JSON twins declared as lists of names."""

from __future__ import annotations

import json
from dataclasses import dataclass
from types import SimpleNamespace
from uuid import UUID

import pytest

from benchapp.record.json_shape import JsonShape, Shaped, encode, to_json

ID = UUID(int=7)
RUN = SimpleNamespace(public_id=ID, condition="", task=SimpleNamespace(key="tidy"), parent=None)


@dataclass(frozen=True, slots=True)
class Count(Shaped):
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Half(Shaped):
    count: Count
    other: Count | None = None

    json_shape = JsonShape(
        "*count", "*other", "second=count", ("share", lambda half: half.count.done / half.count.total)
    )


def test_a_shape_names_keys_in_their_order_and_where_values_lie() -> None:
    shape = JsonShape(
        "id=public_id", "task=task.key", "parent=parent.task.key", "condition", "condition_name=condition?"
    )
    expected = {"id": ID, "task": "tidy", "parent": None, "condition": "", "condition_name": None}
    assert list(shape.read(RUN).items()) == list(expected.items())


def test_a_row_without_a_shape_is_told_field_by_field() -> None:
    assert Count(1, 4).as_json() == {"done": 1, "total": 4}


def test_a_star_puts_the_keys_of_an_attribute_beside_the_others() -> None:
    found = Half(Count(1, 4)).as_json()
    assert json.dumps(found) == '{"done": 1, "total": 4, "second": {"done": 1, "total": 4}, "share": 0.25}'


def test_a_row_of_the_record_stands_for_its_public_id() -> None:
    assert to_json({"run": RUN, "rows": (Count(0, 1), None)}) == {"run": ID, "rows": [{"done": 0, "total": 1}, None]}


def test_a_name_that_the_row_does_not_have_is_an_error() -> None:
    with pytest.raises(AttributeError):
        JsonShape("status").read(RUN)


def test_what_has_no_json_form_is_an_error() -> None:
    with pytest.raises(TypeError, match="complex has no JSON form"):
        encode(1j)
