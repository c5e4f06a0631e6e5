"""One task's workflow: the form to draw it, and what two annotators drew side by side once both handed in."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from textwrap import wrap

from django.http import QueryDict
from django.utils.html import escape
from django.utils.safestring import SafeString

from benchapp.models import TaskWorkflow
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.record.visible import one_line, visible
from benchapp.review.workflows import SeenWorkflows
from runner.base.text import parse_count, replace_unprintable
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
    check_workflow,
    to_plain,
)
from runner.suites.workflows.workflow_comparison import common_part

WIDTHS = (320, 160)  # pixels of a step: alone in its row, and next to others
HEIGHTS = (32, 54)  # pixels of each step: where none says what it is in a task, and where some do
ACROSS, DOWN = 12, 24  # between steps
LANE = 13  # pixels between lanes next to the steps
PADDING, CHARACTER = 9, 6  # pixels: on both sides of a step's text, and of one character of its grounding

Edge = tuple[str, str]
BIG = 2**31 - 1


class WorkflowCanvas:
    """Left upper corners of the steps and their widths, by id. `high`: of each. `alone`: steps and edges that another
    workflow lacks; they are highlighted."""

    def __init__(self, workflow: Workflow, alone: Collection[str | Edge]) -> None:
        self.workflow, self.alone = workflow, alone
        rows = workflow.layers()
        self.widths = {step.id: WIDTHS[len(row) > 1] for row in rows for step in row}
        self.high = HEIGHTS[any(step.grounding for step in workflow.steps)]
        taken = [sum(self.widths[step.id] + ACROSS for step in row) - ACROSS for row in rows]  # by each row
        self.places: dict[str, tuple[float, float]] = {}
        self.layers: dict[str, int] = {}
        for number, row in enumerate(rows):
            left = 1 + (max(taken) - taken[number]) / 2
            for column, step in enumerate(row):
                across = column * (self.widths[step.id] + ACROSS)
                self.places[step.id] = (left + across, 1 + number * (self.high + DOWN))
                self.layers[step.id] = number
        lanes = sum(self.layers[b] - self.layers[a] != 1 for a, b in workflow.edges)
        self.width = max(taken) + 2 + (10 + LANE * lanes if lanes else 0)
        self.height = len(rows) * (self.high + DOWN) - DOWN + 2


def draw_workflow(workflow: Workflow, title: str, alone: Collection[str | Edge] = ()) -> SafeString:
    """Draw a workflow. `title` says whose it is, for readers who cannot see it; what is drawn follows in words."""
    if not workflow.steps:
        return SafeString('<p class="muted">No step yet.</p>')
    canvas = WorkflowCanvas(workflow, alone)
    parts = "".join([*_draw_edges(canvas), *(_draw_step(canvas, step) for step in workflow.steps)])
    size = f'width="{canvas.width:g}" height="{canvas.height:g}" viewBox="0 0 {canvas.width:g} {canvas.height:g}"'
    label = escape(f"{visible(title)}: {describe_workflow(workflow)}")
    return SafeString(f'<svg class="workflow" {size} role="img" aria-label="{label}">{parts}</svg>')


def describe_workflow(workflow: Workflow) -> str:
    """Describe every step with what it needs, in one line."""
    return "; ".join(
        name_step(step) + (f" after {', '.join(step.needs)}" if step.needs else "")
        for layer in workflow.layers()
        for step in layer
    )


def name_step(step: WorkflowStep) -> str:
    return step.id if step.id == step.label else f"{step.id} {step.label or 'without label'}"


def _draw_edges(canvas: WorkflowCanvas) -> Iterator[str]:
    """Draw edges to the next layer straight down; others run next to the steps, each in a lane of its own."""
    lane, high = 0, canvas.high
    right = max(x + canvas.widths[step] for step, (x, _) in canvas.places.items())
    for edge in sorted(canvas.workflow.edges, key=lambda pair: (canvas.layers[pair[0]], canvas.layers[pair[1]], pair)):
        (x1, y1), (x2, y2) = (canvas.places[each] for each in edge)
        first, second = (canvas.widths[each] for each in edge)
        kind = "alone" if edge in canvas.alone else ""
        if canvas.layers[edge[1]] - canvas.layers[edge[0]] == 1:
            start, end = (x1 + first / 2, y1 + high), (x2 + second / 2, y2)
            middle = (start[1] + end[1]) / 2
            path = f"M{start[0]:g} {start[1]:g}C{start[0]:g} {middle:g} {end[0]:g} {middle - 4:g} {end[0]:g} {end[1] - 6:g}"  # noqa: E501
            head = f"M{end[0]:g} {end[1]:g}l-4-7h8z"
        else:
            lane += 1
            out = right + LANE * lane
            y1, y2 = y1 + high / 2 + 6, y2 + high / 2 - 6
            path = f"M{x1 + first:g} {y1:g}H{out - 6:g}Q{out:g} {y1:g} {out:g} {y1 + 6:g}V{y2 - 6:g}Q{out:g} {y2:g} {out - 6:g} {y2:g}H{x2 + second + 6:g}"  # noqa: E501
            head = f"M{x2 + second:g} {y2:g}l7-4v8z"
        yield f'<path class="edge {kind}" d="{path}"/><path class="head {kind}" d="{head}"/>'


def _draw_step(canvas: WorkflowCanvas, step: WorkflowStep) -> str:
    x, y = canvas.places[step.id]
    kind = "alone" if step.id in canvas.alone else ""
    width = canvas.widths[step.id]
    fits = int((width - 2 * PADDING) / CHARACTER)
    rows = wrap(visible(step.grounding), fits, max_lines=2, placeholder="…")
    label = escape(visible(step.label) or "no label")
    name = "" if step.id == step.label else f'<tspan class="id">{escape(step.id)}</tspan> '
    lines = [name_step(step), step.grounding, step.why]
    title = escape("\n".join(one_line(line, 600) for line in lines if line))
    left, top = x + PADDING, y + (canvas.high / 2 + 4, 24, 17)[len(rows)]
    grounding = "".join(
        f'<text class="grounding" x="{left:g}" y="{top + 15 + 13 * row:g}">{escape(text)}</text>'
        for row, text in enumerate(rows)
    )
    return (
        f'<g class="step {kind}"><title>{title}</title>'
        f'<rect x="{x:g}" y="{y:g}" width="{width}" height="{canvas.high}" rx="6"/>'
        f'<text x="{left:g}" y="{top:g}">{name}<tspan class="label">{label}</tspan></text>{grounding}</g>'
    )


# --- the form ---------------------------------------------------------------------------------------------------------


class WorkflowEditor:
    """`revision`: of the draft it shows, 0 for none. `fields`: each step with the labels it can have and the steps it
    can need, and whether these are chosen."""

    def __init__(self, workflow: Workflow, revision: int = 0) -> None:
        self.workflow, self.revision, steps = workflow, revision, workflow.steps
        self.svg, self.rules = draw_workflow(workflow, "Your draft"), check_workflow(workflow)
        self.is_blank = not any(step.label or step.grounding or step.why for step in steps)
        self.broken = sum(bool(rule.problem) for rule in self.rules)
        self.may_add = len(steps) < MOST
        self.variations = [(kind, words, kind in workflow.varies) for kind, words in VARIATIONS.items()]
        self.fields = [
            (
                step,
                [(label, meaning, label == step.label) for label, meaning in LABELS.items()],
                [(each, each.id in step.needs) for each in steps if each.id != step.id],
            )
            for step in steps
        ]


def open_editor(seen: SeenWorkflows, *, settles: bool) -> WorkflowEditor:
    """Open with the person's draft, else a blank workflow. An adjudicator begins with the settled workflow, else with
    what both annotators have, in the words of the first."""
    draft = seen.settling if settles else seen.own
    if draft:
        return WorkflowEditor(draft.workflow, draft.revision)
    if not settles:
        return WorkflowEditor(blank_workflow())
    if seen.settled:
        return WorkflowEditor(renumber(seen.settled.workflow))
    one, other = (each.workflow for each in seen.compared)
    return WorkflowEditor(renumber(common_part(one, other)))


def blank_workflow() -> Workflow:
    """Return what a person starts from: as many steps as a workflow has at least, each after the one before it."""
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
    return parse_count(sent.get("revision", ""), BIG) or 0


def add_step(workflow: Workflow) -> Workflow:
    """Add one after the last one; nothing where there are as many as may be."""
    if len(workflow.steps) >= MOST:
        return workflow
    new = next(name for number in range(1, MOST + 1) if (name := f"s{number}") not in workflow.by_id)
    last = tuple(step.id for step in workflow.steps[-1:])
    return replace(workflow, steps=(*workflow.steps, WorkflowStep(new, "", needs=last)))


def drop_step(workflow: Workflow, step_id: str) -> Workflow:
    """Remove that step. Those that needed it need what it needed."""
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


# --- what was drawn ---------------------------------------------------------------------------------------------------


class DrawnWorkflow(Shaped):
    """One person's workflow, and what the other one lacks. `number`: its place in the comparison, from 0. `own_steps`:
    (its name, the step) of each that the other lacks. `own_edges`: in words, those between steps that both have: those
    of a single step come with it."""

    json_shape = JsonShape(
        "by=row.by handed_in_at=row.handed_in_at finds_consistent=row.finds_consistent",
        ("workflow", lambda drawn: to_plain(drawn.row.workflow)),
        ("alone", lambda drawn: {"steps": drawn.steps, "edges": [list(edge) for edge in drawn.edges]}),
    )

    def __init__(self, row: TaskWorkflow, alone: Collection[str | Edge], number: int) -> None:
        self.row, self.number, workflow = row, number, row.workflow
        self.svg = draw_workflow(workflow, f"Workflow of {row.name}", alone)
        self.own_steps = [(name_step(step), step) for step in workflow.steps if step.id in alone]
        self.steps = [step.id for _, step in self.own_steps]
        self.edges = sorted(edge for edge in workflow.edges if edge in alone)
        labels = {step.id: name_step(step) for step in workflow.steps}
        self.own_edges = [f"{labels[a]} → {labels[b]}" for a, b in self.edges if a not in alone and b not in alone]


def list_drawn(seen: SeenWorkflows) -> list[DrawnWorkflow]:
    """List those handed in; of the two that are compared, what each has alone."""
    alone = [frozenset[str | Edge]()] * len(seen.annotations)
    if seen.compared and seen.agreement is not None:
        first, second = seen.compared[0].workflow, seen.compared[1].workflow
        pairs, shared = seen.agreement.pairs, seen.agreement.shared
        alone[0] = _find_alone(first, pairs, shared)
        alone[1] = _find_alone(second, pairs.values(), {(pairs[a], pairs[b]) for a, b in shared})
    return [DrawnWorkflow(row, alone[number], number) for number, row in enumerate(seen.annotations)]


def _find_alone(workflow: Workflow, steps: Iterable[str], edges: Iterable[Edge]) -> frozenset[str | Edge]:
    """Return the steps and edges that are not among those."""
    return frozenset({step.id for step in workflow.steps} - set(steps)) | frozenset(workflow.edges - set(edges))
