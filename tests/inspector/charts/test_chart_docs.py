"""docs/reference/charts.md tells of every chart, under its own title and question, with a picture in both themes."""

from __future__ import annotations

import re
from pathlib import Path

from inspector.charts import CHARTS
from tests.cases import every

DOCS = Path(__file__).resolve().parents[3] / "docs"
PICTURES = DOCS / "pictures" / "charts"
MAX_BYTES = 120_000


def sections() -> dict[str, str]:
    """Key of the chart -> the section that names it."""
    parts = re.split(r"^## ", (DOCS / "reference" / "charts.md").read_text(), flags=re.MULTILINE)[1:]
    return {found[1]: part for part in parts if (found := re.search(r"^`([a-z-]+)` · ", part, flags=re.MULTILINE))}


def test_it_has_a_section_for_every_chart_in_their_order() -> None:
    assert list(sections()) == list(CHARTS)


@every(*CHARTS)
def test_it_says_what_the_chart_asks_and_where_it_departs(key: str) -> None:
    section, chart = sections()[key], CHARTS[key]
    assert section.startswith(f"{chart.title}\n")
    assert f"`{key}` · {chart.question}" in section
    for part in ("**Drawn.**", "**After**", "**Departs.**", "**Published numbers.**"):
        assert part in section
    said = " ".join(section.split()).lower()
    for figure in filter(None, chart.after.split("; ")):
        assert figure.lower() in said


@every("light", "dark")
@every(*CHARTS)
def test_it_shows_the_chart(key: str, theme: str) -> None:
    picture = PICTURES / f"{key}-{theme}.png"
    assert f"../pictures/charts/{picture.name}" in sections()[key]
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size < MAX_BYTES


def test_it_keeps_no_picture_of_a_chart_that_is_gone() -> None:
    assert {path.stem.rpartition("-")[0] for path in PICTURES.iterdir()} == set(CHARTS)
