"""One task's workflow: the form to draw it, and what two annotators drew side by side once both handed in."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
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
    WorkflowRule,
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


@dataclass(frozen=True, slots=True)
class WorkflowCanvas:
    """Left upper corners of the steps and their widths, by id. `high`: of each. `alone`: steps and edges that another
    workflow lacks; they are highlighted."""

    workflow: Workflow
    widths: dict[str, int]
    high: int
    places: dict[str, tuple[float, float]]
    layers: dict[str, int]
    width: float
    height: float
    alone: Collection[str | Edge]


def draw_workflow(workflow: Workflow, title: str, alone: Collection[str | Edge] = ()) -> SafeString:
    """Draw a workflow. `title` says whose it is, for readers who cannot see it; what is drawn follows in words."""
    if not workflow.steps:
        return SafeString('<p class="muted">No step yet.</p>')
    canvas = _lay_out(workflow, alone)
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


def _lay_out(workflow: Workflow, alone: Collection[str | Edge]) -> WorkflowCanvas:
    rows = workflow.layers()
    widths = {step.id: WIDTHS[len(row) > 1] for row in rows for step in row}
    high = HEIGHTS[any(step.grounding for step in workflow.steps)]
    inner = max(sum(widths[step.id] + ACROSS for step in row) - ACROSS for row in rows)
    places: dict[str, tuple[float, float]] = {}
    layers: dict[str, int] = {}
    for number, row in enumerate(rows):
        left = 1 + (inner - sum(widths[step.id] + ACROSS for step in row) + ACROSS) / 2
        for column, step in enumerate(row):
            places[step.id] = (left + column * (widths[step.id] + ACROSS), 1 + number * (high + DOWN))
            layers[step.id] = number
    lanes = sum(layers[b] - layers[a] != 1 for a, b in workflow.edges)
    width = inner + 2 + (10 + LANE * lanes if lanes else 0)
    return WorkflowCanvas(workflow, widths, high, places, layers, width, len(rows) * (high + DOWN) - DOWN + 2, alone)


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
    def is_blank(self) -> bool:
        return not any(step.label or step.grounding or step.why for step in self.workflow.steps)

    @property
    def broken(self) -> int:
        return sum(bool(rule.problem) for rule in self.rules)

    @property
    def fields(self) -> list[tuple[WorkflowStep, list[tuple[str, str, bool]], list[tuple[WorkflowStep, bool]]]]:
        """Return each step with the labels it can have and the steps it can need, and whether these are chosen."""
        return [
            (
                step,
                [(label, meaning, label == step.label) for label, meaning in LABELS.items()],
                [(each, each.id in step.needs) for each in self.workflow.steps if each.id != step.id],
            )
            for step in self.workflow.steps
        ]

    @property
    def may_add(self) -> bool:
        return len(self.workflow.steps) < MOST

    @property
    def variations(self) -> list[tuple[str, str, bool]]:
        return [(kind, words, kind in self.workflow.varies) for kind, words in VARIATIONS.items()]


def open_editor(seen: SeenWorkflows, *, settles: bool) -> WorkflowEditor:
    """Open with the person's draft, else a blank workflow. An adjudicator begins with the settled workflow, else with
    what both annotators have, in the words of the first."""
    draft = seen.settling if settles else seen.own
    if draft:
        return WorkflowEditor(draft.workflow, draft.revision)
    if not settles:
        return WorkflowEditor(blank_workflow(), 0)
    if seen.settled:
        return WorkflowEditor(renumber(seen.settled.workflow), 0)
    one, other = (each.workflow for each in seen.compared)
    return WorkflowEditor(renumber(common_part(one, other)), 0)


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


@dataclass(frozen=True, slots=True)
class DrawnWorkflow(Shaped):
    """One person's workflow, and what the other one lacks. `number`: its place in the comparison, from 0."""

    row: TaskWorkflow
    alone: Collection[str | Edge]
    number: int

    json_shape = JsonShape(
        "by=row.by handed_in_at=row.handed_in_at finds_consistent=row.finds_consistent",
        ("workflow", lambda drawn: to_plain(drawn.row.workflow)),
        ("alone", lambda drawn: {"steps": drawn.steps, "edges": [list(edge) for edge in drawn.edges]}),
    )

    @property
    def svg(self) -> SafeString:
        return draw_workflow(self.row.workflow, f"Workflow of {self.row.name}", self.alone)

    @property
    def steps(self) -> list[str]:
        """Return the ids of the steps that the other lacks."""
        return [step.id for step in self.row.workflow.steps if step.id in self.alone]

    @property
    def edges(self) -> list[Edge]:
        return sorted(edge for edge in self.row.workflow.edges if edge in self.alone)

    @property
    def own_steps(self) -> list[tuple[str, WorkflowStep]]:
        """Return (its name, the step) of each."""
        return [(name_step(step), step) for each in self.steps if (step := self.row.workflow.by_id[each])]

    @property
    def own_edges(self) -> list[str]:
        """Return the edges between steps that both have, in words: those of a single step come with it."""
        labels = {step.id: name_step(step) for step in self.row.workflow.steps}
        return [f"{labels[a]} → {labels[b]}" for a, b in self.edges if a not in self.alone and b not in self.alone]


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
