"""The form that draws a workflow: what it holds when it opens, and what it sends."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from django.http import QueryDict

from inspector.web.forms import parse_id
from runner.base.text import replace_unprintable
from runner.suites.workflows.workflow import (
    LABELS,
    LEAST,
    MAX_GROUNDING,
    MAX_WHY,
    MOST,
    STEP_ID,
    VARIATIONS,
    Workflow,
    WorkflowStep,
)

BIG = 2**31 - 1


def blank_workflow() -> Workflow:
    """What a person starts from: as many steps as a workflow has at least, each after the one before it."""
    ids = [f"s{number}" for number in range(1, LEAST + 1)]
    return Workflow(tuple(WorkflowStep(each, "", needs=tuple(ids[:place][-1:])) for place, each in enumerate(ids)))


def read_posted(sent: QueryDict) -> Workflow:
    """Return the steps in the form. What the form could not have sent is dropped."""
    ids = [each for each in dict.fromkeys(sent.getlist("step")) if STEP_ID.fullmatch(each)][:MOST]
    steps = tuple(
        WorkflowStep(
            each,
            label if (label := sent.get(f"label-{each}", "")) in LABELS else "",
            _clean(sent.get(f"grounding-{each}", ""), MAX_GROUNDING),
            _clean(sent.get(f"why-{each}", ""), MAX_WHY),
            tuple(need for need in ids if need != each and need in sent.getlist(f"needs-{each}")),
        )
        for each in ids
    )
    return Workflow(steps, tuple(kind for kind in VARIATIONS if kind in sent.getlist("varies")))


def _clean(text: str, longest: int) -> str:
    return replace_unprintable(" ".join(text.split()))[:longest]


def read_revision(sent: QueryDict) -> int:
    text = sent.get("revision", "")
    return min(int(text), BIG) if text.isdecimal() and len(text) < 11 else 0


def read_standing_id(sent: QueryDict) -> UUID | None:
    """The settled workflow at the time the form was opened, or None."""
    return parse_id(sent.get("seen", ""))


def add_step(workflow: Workflow) -> Workflow:
    """One more, after the last one; nothing where there are as many as may be."""
    if len(workflow.steps) >= MOST:
        return workflow
    new = next(name for number in range(1, MOST + 1) if (name := f"s{number}") not in workflow.by_id)
    last = tuple(step.id for step in workflow.steps[-1:])
    return replace(workflow, steps=(*workflow.steps, WorkflowStep(new, "", needs=last)))


def drop_step(workflow: Workflow, step_id: str) -> Workflow:
    """Without that step. Those that needed it need what it needed."""
    gone = workflow.by_id.get(step_id)
    if gone is None:
        return workflow
    steps = []
    for step in workflow.steps:
        inherited = gone.needs if step_id in step.needs else ()
        needs = dict.fromkeys(need for need in (*step.needs, *inherited) if need not in (step_id, step.id))
        steps.append(replace(step, needs=tuple(needs)))
    return replace(workflow, steps=tuple(step for step in steps if step.id != step_id))


def renumber(workflow: Workflow) -> Workflow:
    """Name the steps s1, s2 and so on, in the order they are done."""
    ordered = workflow.in_order()
    names = {step.id: f"s{number}" for number, step in enumerate(ordered.steps, start=1)}
    steps = (
        replace(step, id=names[step.id], needs=tuple(names[need] for need in step.needs if need in names))
        for step in ordered.steps
    )
    return Workflow(tuple(steps), workflow.varies)
