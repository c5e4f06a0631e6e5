"""docs/reference/protocols.md has a table of the conditions of every protocol that compares some."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from runner.protocols.conditions import conditions_of
from runner.protocols.registry import OFFERED

DOCUMENT = Path(__file__).parents[3] / "docs" / "reference" / "protocols.md"


@pytest.mark.parametrize("protocol", OFFERED)
def test_every_condition_has_a_row_in_the_section_of_its_protocol(protocol: str) -> None:
    sections = {part.split("\n")[0].lower(): part for part in DOCUMENT.read_text().split("\n## ")}
    section = sections[protocol.removesuffix("-agnostic")]
    assert set(conditions_of(protocol)) <= set(re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE))
