"""The list of drafts, newest first."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Count, Q, QuerySet, Sum

from benchapp.models import Draft, DraftStep
from benchapp.record.json_shape import JsonShape, Shaped
from inspector.pages.drafts.draft import LOOP_WORDS
from inspector.web.responses import link_to
from runner.drafting.draft import Loop

STATUS_WORDS = {Draft.Status.WAITING: "running", Draft.Status.DONE: "drafted", Draft.Status.STOPPED: "stopped"}


@dataclass(frozen=True, slots=True)
class ListedDraft(Shaped):
    """A draft's row; its totals come with the query."""

    row: Draft
    steps: int
    edits: int
    cost_usd: float | None
    scripted: bool

    json_shape = JsonShape(
        *("id=row.public_id", "name=row.name", "loop=row.loop", "status=row.status", "model=row.model", "scripted"),
        *("steps", "edits", "cost_usd", "asked_at=row.asked_at", "admitted_as=row.admitted_as.key"),
        link_to("draft-json", "row.public_id"),
    )

    @property
    def loop(self) -> str:
        return LOOP_WORDS[Loop(self.row.loop)][0]

    @property
    def status(self) -> str:
        return "admitted" if self.row.admitted_as else STATUS_WORDS[Draft.Status(self.row.status)]

    @property
    def tone(self) -> str:
        return {"admitted": "ok", "stopped": "warn", "running": "acc"}.get(self.status, "")


def list_drafts() -> QuerySet[Draft]:
    """With their totals, for `read_listed`."""
    steps = {"steps_total": Q(), "edits_total": Q(steps__kind=DraftStep.Kind.EDIT), "scripts": Q(steps__scripted=True)}
    counts = {name: Count("steps", filter=which) for name, which in steps.items()}
    rows = Draft.objects.select_related("admitted_as", "asked_by").order_by("-pk")
    return rows.annotate(**counts, cost=Sum("steps__cost_usd"))


def read_listed(row: Draft) -> ListedDraft:
    total, edits, scripts, cost = (getattr(row, name) for name in ("steps_total", "edits_total", "scripts", "cost"))
    return ListedDraft(row, total, edits, cost, scripts > 0)
