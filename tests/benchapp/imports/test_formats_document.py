"""docs/reference/import-formats.md has a row for every format that ships."""

from __future__ import annotations

import re
from pathlib import Path

from benchapp.imports.formats import _OURS

DOCUMENT = Path(__file__).parents[3] / "docs" / "reference" / "import-formats.md"


def test_every_format_has_a_row() -> None:
    assert set(_OURS) <= set(re.findall(r"^\| `([^`]+)` \|", DOCUMENT.read_text(), re.MULTILINE))
