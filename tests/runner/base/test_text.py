"""Texts as the record and addresses hold them."""

from __future__ import annotations

import pytest

from runner.base.text import parse_count


@pytest.mark.parametrize("text", ["", "-1", "+1", " 1", "1.0", "0x1", "\u0663", "101", "0000019", "1" * 5_000])
def test_what_is_no_whole_number_up_to_the_limit_is_none(text: str) -> None:
    assert parse_count(text, 100) is None


@pytest.mark.parametrize(("text", "count"), [("0", 0), ("7", 7), ("100", 100), ("007", 7)])
def test_a_whole_number_is_read(text: str, count: int) -> None:
    assert parse_count(text, 100) == count
