"""A reviewer page's data: everything somebody wrote about one item, with its caps. Pure."""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from benchapp.review.coding.anchors import MAX_QUOTE, MarkPlace

MAX_MARKS = 200
MAX_LABELS = 20  # of one mark
MAX_MEMO = 20_000
MAX_SECONDS = 7 * 86_400
MAX_NUMBER = 2**31 - 1


def storable(text: object) -> object:
    """Replace what PostgreSQL cannot store: NUL and halves of surrogate pairs. What is not text fails later."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode() if isinstance(text, str) else text


Count = Annotated[int, Field(ge=0, le=MAX_NUMBER)]
Text = Annotated[str, BeforeValidator(storable)]


class StrictDraft(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class LabelDraft(StrictDraft):
    """`needs_look` stays until the reviewer confirms a label that came from another version; nobody can set it."""

    code: UUID
    needs_look: bool = False


class MarkDraft(StrictDraft):
    """One mark. `id` is drawn by the page, so that saving twice makes one. `trajectory`: which of the trial's, from 0."""

    id: UUID
    trajectory: Annotated[int, Field(ge=-1, le=10_000)] = 0
    step: Count | None = None
    field: Annotated[Text, Field(max_length=64)] = ""
    start: Count | None = None
    end: Count | None = None
    quote: Annotated[Text, Field(max_length=MAX_QUOTE)] = ""
    path: Annotated[Text, Field(max_length=1000)] = ""
    labels: Annotated[tuple[LabelDraft, ...], Field(max_length=MAX_LABELS)] = ()
    attribution: Literal["", "agent", "skill", "author", "compaction", "verifier", "harness", "task"] = ""
    first: bool = False
    memo: Annotated[Text, Field(max_length=MAX_MEMO)] = ""

    @property
    def place(self) -> MarkPlace:
        return MarkPlace(self.trajectory, self.step, self.field, self.start, self.end, self.quote, self.path)

    @property
    def codes(self) -> frozenset[UUID]:
        return frozenset(label.code for label in self.labels)


class Draft(StrictDraft):
    """Everything a reviewer wrote about one item. `seconds`: total time that somebody was active on the page."""

    marks: Annotated[tuple[MarkDraft, ...], Field(max_length=MAX_MARKS)] = ()
    memo: Annotated[Text, Field(max_length=MAX_MEMO)] = ""
    confidence: Literal[1, 2, 3] | None = None
    seconds: Annotated[float, Field(ge=0, le=MAX_SECONDS, allow_inf_nan=False)] = 0

    @model_validator(mode="after")
    def _consistent(self) -> Draft:
        if len({mark.id for mark in self.marks}) < len(self.marks):
            raise ValueError("two marks have the same id")
        if sum(mark.first for mark in self.marks) > 1:
            raise ValueError("more than one mark is called the first upstream failure")
        if any(len(mark.codes) < len(mark.labels) for mark in self.marks):
            raise ValueError("a mark has the same code twice")
        return self
