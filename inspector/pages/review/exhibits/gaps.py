"""The places where a text of the evidence was folded, with the address that answers with the rest."""

from __future__ import annotations

from typing import TypedDict
from urllib.parse import urlencode

from inspector.pages.review.exhibits.exhibit import Exhibit
from inspector.web.text.drawn_steps import FieldView
from inspector.web.text.folding import FoldedPart


class Gap(TypedDict):
    """`address` answers with the folded text. `characters` is None where its length is hidden."""

    address: str
    characters: int | None


def gap(exhibit: Exhibit, index: int, step: int, field: FieldView, part: FoldedPart) -> Gap:
    """The link that fetches what was folded. Of a text too long to be masked whole at once only the beginning is
    known, so its length is hidden while anything is."""
    hides_size = exhibit.hidden.facts and not part.raw
    address = gap_address(exhibit.piece_address, index, step, field.name, part.start, part.end if part.raw else None)
    return {
        "address": address,
        "characters": None if hides_size else part.end - part.start,
    }


def gap_address(base: str, index: int, step: int, name: str, start: int, end: int | None) -> str:
    query: dict[str, object] = {"step": step, "field": name, "start": start, "trajectory": index}
    return f"{base}?{urlencode({**query, 'end': end} if end is not None else query)}"
