"""Draws a workflow as SVG, from top to bottom, each step in the layer of its longest way: pure, no script needed."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from django.utils.html import escape
from django.utils.safestring import SafeString

from benchapp.record.visible import one_line, visible
from runner.suites.workflows.workflow import Workflow, WorkflowStep

WIDTH, HEIGHT = 160, 40  # pixels of a step
ACROSS, DOWN = 12, 24  # between steps
LANE = 13  # pixels between lanes next to the steps
MAX_SHOWN = 23  # characters of a step's grounding

Edge = tuple[str, str]


@dataclass(frozen=True, slots=True)
class WorkflowCanvas:
    """Left upper corners of the steps, by id. `alone`: steps and edges that another workflow lacks; they are highlighted."""

    workflow: Workflow
    places: dict[str, tuple[float, float]]
    layers: dict[str, int]
    width: float
    height: float
    alone: Collection[str | Edge]


def draw_workflow(workflow: Workflow, title: str, alone: Collection[str | Edge] = ()) -> SafeString:
    """`title` says whose it is, for who cannot see it; what is drawn follows in words."""
    if not workflow.steps:
        return SafeString('<p class="muted">No step yet.</p>')
    canvas = _lay_out(workflow, alone)
    parts = "".join([*_draw_edges(canvas), *(_draw_step(canvas, step) for step in workflow.steps)])
    size = f'width="{canvas.width:g}" height="{canvas.height:g}" viewBox="0 0 {canvas.width:g} {canvas.height:g}"'
    label = escape(f"{visible(title)}: {describe_workflow(workflow)}")
    return SafeString(f'<svg class="workflow" {size} role="img" aria-label="{label}">{parts}</svg>')


def describe_workflow(workflow: Workflow) -> str:
    """Every step with what it needs, in one line."""
    return "; ".join(
        name_step(step) + (f" after {', '.join(step.needs)}" if step.needs else "")
        for layer in workflow.layers()
        for step in layer
    )


def name_step(step: WorkflowStep) -> str:
    return step.id if step.id == step.label else f"{step.id} {step.label or 'without label'}"


def _lay_out(workflow: Workflow, alone: Collection[str | Edge]) -> WorkflowCanvas:
    rows = workflow.layers()
    broadest = max(map(len, rows))
    inner = broadest * WIDTH + (broadest - 1) * ACROSS
    places: dict[str, tuple[float, float]] = {}
    layers: dict[str, int] = {}
    for number, row in enumerate(rows):
        left = 1 + (inner - len(row) * WIDTH - (len(row) - 1) * ACROSS) / 2
        for column, step in enumerate(row):
            places[step.id] = (left + column * (WIDTH + ACROSS), 1 + number * (HEIGHT + DOWN))
            layers[step.id] = number
    lanes = sum(layers[b] - layers[a] != 1 for a, b in workflow.edges)
    width = inner + 2 + (10 + LANE * lanes if lanes else 0)
    return WorkflowCanvas(workflow, places, layers, width, len(rows) * (HEIGHT + DOWN) - DOWN + 2, alone)


def _draw_edges(canvas: WorkflowCanvas) -> Iterator[str]:
    """To the next layer straight down; others run next to the steps, each in a lane of its own."""
    lane = 0
    right = max(x for x, _ in canvas.places.values()) + WIDTH
    for edge in sorted(canvas.workflow.edges, key=lambda pair: (canvas.layers[pair[0]], canvas.layers[pair[1]], pair)):
        (x1, y1), (x2, y2) = (canvas.places[each] for each in edge)
        kind = "alone" if edge in canvas.alone else ""
        if canvas.layers[edge[1]] - canvas.layers[edge[0]] == 1:
            start, end = (x1 + WIDTH / 2, y1 + HEIGHT), (x2 + WIDTH / 2, y2)
            middle = (start[1] + end[1]) / 2
            path = f"M{start[0]:g} {start[1]:g}C{start[0]:g} {middle:g} {end[0]:g} {middle - 4:g} {end[0]:g} {end[1] - 6:g}"
            head = f"M{end[0]:g} {end[1]:g}l-4-7h8z"
        else:
            lane += 1
            out = right + LANE * lane
            y1, y2 = y1 + HEIGHT / 2 + 6, y2 + HEIGHT / 2 - 6
            path = f"M{x1 + WIDTH:g} {y1:g}H{out - 6:g}Q{out:g} {y1:g} {out:g} {y1 + 6:g}V{y2 - 6:g}Q{out:g} {y2:g} {out - 6:g} {y2:g}H{x2 + WIDTH + 6:g}"
            head = f"M{x2 + WIDTH:g} {y2:g}l7-4v8z"
        yield f'<path class="edge {kind}" d="{path}"/><path class="head {kind}" d="{head}"/>'


def _draw_step(canvas: WorkflowCanvas, step: WorkflowStep) -> str:
    x, y = canvas.places[step.id]
    kind = "alone" if step.id in canvas.alone else ""
    shown = visible(step.grounding)
    grounding = escape(shown if len(shown) <= MAX_SHOWN else shown[: MAX_SHOWN - 1] + "…")
    label = escape(visible(step.label) or "no label")
    name = "" if step.id == step.label else f'<tspan class="id">{escape(step.id)}</tspan> '
    lines = [name_step(step), step.grounding, step.why]
    title = escape("\n".join(one_line(line, 600) for line in lines if line))
    return (
        f'<g class="step {kind}"><title>{title}</title><rect x="{x:g}" y="{y:g}" width="{WIDTH}" height="{HEIGHT}" rx="6"/>'
        f'<text x="{x + 9:g}" y="{y + (17 if grounding else 25):g}">{name}<tspan class="label">{label}</tspan></text>'
        f'<text class="grounding" x="{x + 9:g}" y="{y + 32:g}">{grounding}</text></g>'
    )
