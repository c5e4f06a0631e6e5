"""The bundled part of a paper's prompts: the place of each, how it is recognised, and what fills its placeholders."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from runner.prompts.roles import Asked
from runner.suites.documents import read_yaml

FOLDER = Path(__file__).parent / "layouts"


class _LayoutPart(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Piece(_LayoutPart):
    """A stretch of printed text, by a few words at its ends. `to`: possible ends; the first one found counts.

    `words`: digest of its letters and digits in the original text. `listing`: it is printed as source code.
    """

    after: str = ""  # words somewhere before it
    start: str = Field(alias="from")
    to: tuple[str, ...] = ()  # its last words
    before: str = ""  # words after it, if its last words are unknown
    listing: bool = False
    words: str = ""
    note: str = ""


class LayoutText(_LayoutPart):
    """A part of a message: a printed piece with other pieces in the places of `put`, or our own words."""

    piece: str = ""
    put: dict[str, str] = {}
    own: str = ""


class LayoutMessage(_LayoutPart):
    """A message of a prompt, built from a paper's pieces."""

    role: Literal["system", "user"]
    answers_once: bool = False
    parts: tuple[LayoutText, ...]
    values: dict[str, str] = {}


class LayoutPrompt(_LayoutPart):
    """A paper's prompt for one role on one occasion."""

    role: str
    occasion: str
    condition: str = ""
    answer: Literal["json", "text"] = "json"
    messages: tuple[LayoutMessage, ...]

    @property
    def asked(self) -> Asked:
        return Asked(self.role, self.occasion)

    @property
    def pieces(self) -> tuple[str, ...]:
        parts = (part for message in self.messages for part in message.parts)
        return tuple(dict.fromkeys(name for part in parts for name in (part.piece, *part.put.values()) if name))

    @property
    def stem(self) -> str:
        return "-".join(filter(None, (self.role, self.occasion, self.condition)))


class Absent(_LayoutPart):
    """An occasion without a printed prompt in the paper: ours is used."""

    role: str
    occasion: str
    why: str

    @property
    def asked(self) -> Asked:
        return Asked(self.role, self.occasion)


class PackLayout(_LayoutPart):
    """One paper's pack before its sentences."""

    name: str
    source: str
    protocols: tuple[str, ...]
    pieces: dict[str, Piece] = {}
    prompts: tuple[LayoutPrompt, ...] = ()
    absent: tuple[Absent, ...] = ()


@cache
def read_layouts() -> tuple[PackLayout, ...]:
    return tuple(PackLayout.model_validate(read_yaml(path)) for path in sorted(FOLDER.glob("*.yaml")))


def layout_of(protocol: str) -> PackLayout | None:
    """The layout of the paper behind this protocol."""
    return next((layout for layout in read_layouts() if protocol in layout.protocols), None)
