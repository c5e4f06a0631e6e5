"""Codebooks to begin with, one YAML file each, in the format of `benchapp.review.codebooks.codebook_file`.

The names of codes are the field's; their definitions are our own words. Who failed (agent, skill text, author, ...) is
never a code: reviewers use the attribution for that.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from benchapp.review.codebooks.codebook_file import CodebookText, read_codebook

FOLDER = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class Starter:
    """`key` names it in addresses and in `Codebook.cloned_from`."""

    key: str
    text: CodebookText

    @property
    def codes_total(self) -> int:
        return sum(1 for _ in self.text.flat())


@cache
def starters() -> dict[str, Starter]:
    """Return every starter by its key, the one for the whole field first. A broken file raises CodebookFileError."""
    paths = sorted(FOLDER.glob("*.yaml"), key=lambda path: (path.stem != "skill-evolution", path.stem))
    return {path.stem: Starter(path.stem, read_codebook(path.read_bytes(), name=path.name)) for path in paths}
