"""One task's workflow: the form to draw it, and what two annotators drew side by side once both handed in."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from django.utils.safestring import SafeString

from benchapp.models import TaskWorkflow
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.review.workflows.seen_workflows import SeenWorkflows
from inspector.pages.suites.workflow_drawing import Edge, draw_workflow, name_step
from inspector.pages.suites.workflow_form import blank_workflow, renumber
from runner.suites.workflows.workflow import (
    LABELS,
    MOST,
    VARIATIONS,
    Workflow,
    WorkflowRule,
    WorkflowStep,
    check_workflow,
    to_plain,
)
from runner.suites.workflows.workflow_comparison import common_part


@dataclass(frozen=True, slots=True)
class DrawnWorkflow(Shaped):
    """One person's workflow, and what the other one lacks. `number`: its place in the comparison, from 0."""

    row: TaskWorkflow
    alone: Collection[str | Edge]
    number: int

    json_shape = JsonShape(
        *("by=row.by", "handed_in_at=row.handed_in_at", "finds_consistent=row.finds_consistent"),
        ("workflow", lambda drawn: to_plain(drawn.row.workflow)),
        ("alone", lambda drawn: {"steps": drawn.steps, "edges": [list(edge) for edge in drawn.edges]}),
    )

    @property
    def svg(self) -> SafeString:
        return draw_workflow(self.row.workflow, f"Workflow of {self.row.name}", self.alone)

    @property
    def steps(self) -> list[str]:
        """Ids of those that the other lacks."""
        return [step.id for step in self.row.workflow.steps if step.id in self.alone]

    @property
    def edges(self) -> list[Edge]:
        return sorted(edge for edge in self.row.workflow.edges if edge in self.alone)

    @property
    def own_steps(self) -> list[tuple[str, WorkflowStep]]:
        """(its name, the step)"""
        return [(name_step(step), step) for each in self.steps if (step := self.row.workflow.by_id[each])]

    @property
    def own_edges(self) -> list[str]:
        """Between steps that both have, in words: those of a single step come with it."""
        labels = {step.id: name_step(step) for step in self.row.workflow.steps}
        return [f"{labels[a]} → {labels[b]}" for a, b in self.edges if a not in self.alone and b not in self.alone]


@dataclass(frozen=True, slots=True)
class StepField:
    """A step in the form."""

    step: WorkflowStep
    labels: list[tuple[str, str, bool]]
    needs: list[tuple[str, bool]]


@dataclass(frozen=True, slots=True)
class WorkflowEditor:
    """`revision`: of the draft it shows, 0 for none."""

    workflow: Workflow
    revision: int

    @property
    def svg(self) -> SafeString:
        return draw_workflow(self.workflow, "Your draft")

    @property
    def rules(self) -> list[WorkflowRule]:
        return check_workflow(self.workflow)

    @property
    def is_ready(self) -> bool:
        return not any(rule.problem for rule in self.rules)

    @property
    def fields(self) -> list[StepField]:
        return [
            StepField(
                step,
                [(label, meaning, label == step.label) for label, meaning in LABELS.items()],
                [(each.id, each.id in step.needs) for each in self.workflow.steps if each.id != step.id],
            )
            for step in self.workflow.steps
        ]

    @property
    def may_add(self) -> bool:
        return len(self.workflow.steps) < MOST

    @property
    def variations(self) -> list[tuple[str, str, bool]]:
        return [(kind, words, kind in self.workflow.varies) for kind, words in VARIATIONS.items()]


def edit_own(seen: SeenWorkflows) -> WorkflowEditor:
    return WorkflowEditor(seen.own.workflow, seen.own.revision) if seen.own else WorkflowEditor(blank_workflow(), 0)


def edit_settling(seen: SeenWorkflows) -> WorkflowEditor:
    """Return their draft; else the settled workflow; else what both annotators have, in the words of the first."""
    if seen.settling:
        return WorkflowEditor(seen.settling.workflow, seen.settling.revision)
    if seen.settled:
        return WorkflowEditor(renumber(seen.settled.workflow), 0)
    one, other = (each.workflow for each in seen.compared)
    return WorkflowEditor(renumber(common_part(one, other)), 0)


def list_drawn(seen: SeenWorkflows) -> list[DrawnWorkflow]:
    """Those handed in; of the two that are compared, what each has alone."""
    if not seen.compared or seen.agreement is None:
        return [DrawnWorkflow(row, (), number) for number, row in enumerate(seen.annotations)]
    first, second = seen.compared[0].workflow, seen.compared[1].workflow
    pairs, shared = seen.agreement.pairs, seen.agreement.shared
    alone = [
        _find_alone(first, pairs, shared),
        _find_alone(second, pairs.values(), {(pairs[a], pairs[b]) for a, b in shared}),
        *([frozenset[str | Edge]()] * (len(seen.annotations) - 2)),
    ]
    return [
        DrawnWorkflow(row, mine, number) for number, (row, mine) in enumerate(zip(seen.annotations, alone, strict=True))
    ]


def _find_alone(workflow: Workflow, steps: Iterable[str], edges: Iterable[Edge]) -> frozenset[str | Edge]:
    """What is not among those."""
    return frozenset({step.id for step in workflow.steps} - set(steps)) | frozenset(workflow.edges - set(edges))


def draw_settled(seen: SeenWorkflows) -> SafeString:
    return draw_workflow(seen.settled.workflow, "Settled workflow") if seen.settled else SafeString("")
