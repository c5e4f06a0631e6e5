"""The places where a text of the evidence was folded, with the address that answers with the rest."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from inspector.pages.review.exhibits.exhibit import Exhibit
from inspector.web.text.drawn_steps import FieldView
from inspector.web.text.folding import FoldedPart


def gap(exhibit: Exhibit, index: int, step: int, field: FieldView, part: FoldedPart) -> dict[str, Any]:
    """The link that fetches what was folded. Of a text too long to be masked whole at once only the beginning is
    known, so its length is not told while anything is hidden."""
    address = exhibit.piece_address
    if part.raw:
        return {
            "address": gap_address(address, index, step, field.name, part.start, part.end),
            "words": part.words,
            "characters": part.end - part.start,
        }
    return {
        "address": gap_address(address, index, step, field.name, part.start, None),
        "words": "show more" if exhibit.hidden.facts else part.words,
        "characters": None if exhibit.hidden.facts else part.end - part.start,
    }


def gap_address(base: str, index: int, step: int, name: str, start: int, end: int | None) -> str:
    query: dict[str, object] = {"step": step, "field": name, "start": start, "trajectory": index}
    return f"{base}?{urlencode({**query, 'end': end} if end is not None else query)}"
