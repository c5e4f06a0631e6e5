"""The words of the glossary, from its document.
Every page explains some, so nothing here waits for a parser of Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from django.conf import settings

DOCS = Path(settings.BASE_DIR) / "docs"
NAME = "glossary"
_CELLS = 5  # word, on pages, model, address, meaning


@dataclass(frozen=True, slots=True)
class GlossaryTerm:
    """A word, its meaning without Markdown, and the heading of its table as an anchor of the document."""

    word: str
    meaning: str
    anchor: str


@cache
def read_terms() -> Mapping[str, GlossaryTerm]:
    """Return the terms by their word and by every name that pages use ("left out" is "tainted").
    A word of its own wins."""
    found = list(_find_terms((DOCS / f"{NAME}.md").read_text()))
    terms = {term.word: term for term, _ in found}
    return terms | {name: term for term, names in found for name in names if name and name not in terms}


def _find_terms(text: str) -> Iterator[tuple[GlossaryTerm, list[str]]]:
    anchor = ""
    for line in text.splitlines():
        if line.startswith("## "):
            anchor = build_anchor(line[3:])
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if len(cells) == _CELLS and cells[0] != "word" and not cells[0].startswith("---"):
            yield GlossaryTerm(cells[0], strip_marks(cells[4]), anchor), cells[1].split(", ")


def strip_marks(text: str) -> str:
    """Return the plain words of Markdown's links, emphasis and code."""
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text).replace("`", "").replace("*", "")


def build_anchor(heading: str) -> str:
    """Return the anchor that code hosts give a heading: its words in lower case, joined by hyphens."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
