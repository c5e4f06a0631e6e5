"""The workflows of a suite by family: who drew what, how far they agree, what a family shares, and which tasks keep to it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import fmean

from django.urls import reverse
from django.utils.safestring import SafeString

from benchapp.models import User
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.review.workflows.seen_workflows import PLACES, SeenWorkflows, read_seen
from inspector.pages.suites.suite import SuiteTask, SuiteView
from inspector.pages.suites.workflow_drawing import draw_workflow
from inspector.web.responses import PathLink
from runner.suites.workflows.workflow import VARIATIONS, Workflow, to_plain
from runner.suites.workflows.workflow_comparison import (
    Membership,
    WorkflowAgreement,
    find_memberships,
    shared_workflow,
)

AGREEMENT = JsonShape("steps", "edges", "graph")


@dataclass(frozen=True, slots=True)
class WorkflowRow(Shaped):
    """A task. `membership`: how it compares with what its family shares; None without a settled workflow."""

    task: SuiteTask
    seen: SeenWorkflows
    url: str
    may_draw: bool
    may_settle: bool
    membership: Membership | None = None

    json_shape = JsonShape(
        *("key=task.key", "title=task.title", "handed_in=seen.handed_in", "hidden=is_hidden", "may_draw", "may_settle"),
        ("by", lambda row: [each.by for each in row.seen.annotations]),
        ("agreement", lambda row: row.agreement and AGREEMENT.read(row.agreement)),
        *("screening=seen.screening", "settled", "varies", "membership"),
        ("workflow", lambda row: row.seen.standing and to_plain(row.seen.standing)),
        ("url", lambda row: PathLink(row.url)),
    )

    @property
    def agreement(self) -> WorkflowAgreement | None:
        return self.seen.agreement

    @property
    def settled(self) -> bool:
        return self.seen.settled is not None

    @property
    def is_hidden(self) -> bool:
        """There is something, and this person does not see it yet."""
        return self.seen.is_hidden and self.seen.handed_in > 0

    @property
    def varies(self) -> list[str]:
        """In words."""
        return [VARIATIONS[kind] for kind in self.seen.standing.varies] if self.seen.standing else []

    @property
    def places(self) -> int:
        return PLACES

    @property
    def needs_settling(self) -> bool:
        return bool(self.seen.annotations) and self.seen.standing is None


@dataclass(frozen=True, slots=True)
class WorkflowFamily(Shaped):
    """`shared`: what all settled workflows of its tasks have; `standing`: their number. Tasks without a family share
    nothing; `name` is then empty."""

    environment: str
    name: str
    rows: tuple[WorkflowRow, ...]
    shared: Workflow
    standing: int

    json_shape = JsonShape(
        *("environment?", "name?", "standing"),
        ("shared", lambda family: to_plain(family.shared)),
        ("agreement", lambda family: family.agreement),
        "tasks=rows",
    )

    @property
    def has_shared(self) -> bool:
        return bool(self.name) and self.standing > 1

    @property
    def svg(self) -> SafeString:
        return draw_workflow(self.shared, f"What tasks of {self.name} share")

    @property
    def agreement(self) -> dict[str, float]:
        """Means over its tasks that two people drew; empty where there is none."""
        found = [row.agreement for row in self.rows if row.agreement]
        return {name: fmean(getattr(each, name) for each in found) for name in ("steps", "edges", "graph") if found}

    @property
    def compared(self) -> int:
        return sum(row.agreement is not None for row in self.rows)

    @property
    def screened(self) -> list[bool]:
        return [row.seen.screening for row in self.rows if row.seen.screening is not None]

    @property
    def members(self) -> int:
        return sum(row.membership is not None and row.membership.holds for row in self.rows)


def list_families(view: SuiteView, user: User) -> list[WorkflowFamily]:
    """Every family of the suite with all its tasks; a task that this person may still draw counts for nothing here."""
    seen = read_seen(view.row, user)
    found: dict[tuple[str, str], list[WorkflowRow]] = {}
    for task in view.tasks:
        row = _build_row(view, task, seen.get(task.key, SeenWorkflows()), user)
        found.setdefault((task.environment, task.family), []).append(row)
    return [_build_family(environment, name, rows) for (environment, name), rows in found.items()]


def _build_row(view: SuiteView, task: SuiteTask, seen: SeenWorkflows, user: User) -> WorkflowRow:
    url = reverse("suite-workflow", args=[view.key, task.key])
    return WorkflowRow(task, seen, url, not seen.explain_closed(user), not seen.explain_barred(user))


def _build_family(environment: str, name: str, rows: list[WorkflowRow]) -> WorkflowFamily:
    standing = {row.task.key: found for row in rows if (found := row.seen.standing)}
    drawn = list(standing.values())
    shared = shared_workflow(drawn if name else [])
    members = dict(zip(standing, find_memberships(shared, drawn), strict=True)) if name else {}
    placed = tuple(replace(row, membership=members.get(row.task.key)) for row in rows)
    return WorkflowFamily(environment, name, placed, shared, len(standing))
