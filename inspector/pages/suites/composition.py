"""What a suite is composed of: tasks by group, within each the next one. Two rings of a paper's figure as bars.

Source: SkillFlow, figure 4 (categories and families); SkillGenBench, figure 3 (sources and domains); SkillEvolBench,
figure 2 (environments and families).
"""

from __future__ import annotations

from dataclasses import dataclass

from benchapp.stats.metrics.splits import name_attribute
from inspector.charts.chart import ChartDrawing, ChartTable, TableColumn
from inspector.charts.drawing.bars import MAX_BARS, Bar, BarPanel, BarPart, Bars, kinds_of_part, note_crowd
from inspector.charts.drawing.panels import lines, note_left_out, plain
from inspector.charts.drawing.quantities import plural
from inspector.pages.suites.suite import SuiteView

TASKS = "tasks"


@dataclass(frozen=True, slots=True)
class CompositionRow:
    """Tasks with one value of the outer split and one of the inner."""

    outer: str
    inner: str
    tasks: int

    @property
    def bar(self) -> Bar:
        hover = lines(plain(self.outer), plain(self.inner), plural(self.tasks, "task"))
        return Bar(self.inner, (BarPart(TASKS, self.tasks, "", hover),), f"{self.tasks:,}")


def draw_composition(view: SuiteView, by: str, within: str) -> ChartDrawing:
    """`by` and `within`: what `SuiteView.splits` lists; equal for one ring alone."""
    inner = [(value, {task.key for task in tasks}) for value, tasks in view.list_by(within)]
    rings = [(outer, _count_within(inner, {task.key for task in tasks})) for outer, tasks in view.list_by(by)]
    if by == within:
        rings = [("", [(outer, len(tasks)) for outer, tasks in view.list_by(by)])]
    rows = [CompositionRow(outer, inner, tasks) for outer, ring in rings for inner, tasks in ring]
    table = ChartTable.of(_columns(by, within), rows)
    if not rows:
        return ChartDrawing(None, table, absent="No task of this suite is known.")
    longest = max(len(ring) for _, ring in rings)
    several = any(len(task.values_of(split)) > 1 for task in view.tasks for split in (by, within))
    notes = ("A task with several values counts in each of them.",) if several else ()
    left_out = note_left_out(len(rings), "another split")
    return ChartDrawing(_draw(rings, rows), table, (*notes, *left_out, *note_crowd(longest, "values of a group")))


def _draw(rings: list[tuple[str, list[tuple[str, int]]]], rows: list[CompositionRow]) -> Bars:
    panels = [
        BarPanel(_head(outer, ring), "", tuple(row.bar for row in rows if row.outer == outer)[:MAX_BARS])
        for outer, ring in rings
    ]
    return Bars(panels, kinds_of_part(TASKS), across=1, share_x=True)


def _head(outer: str, ring: list[tuple[str, int]]) -> str:
    return f"{outer} · {plural(sum(tasks for _, tasks in ring), 'task')}" if outer else ""


def _count_within(inner: list[tuple[str, set[str]]], tasks: set[str]) -> list[tuple[str, int]]:
    """Of these tasks, in the order that the whole suite has."""
    return [(value, count) for value, having in inner if (count := len(having & tasks))]


def _columns(by: str, within: str) -> tuple[TableColumn, ...]:
    inner = TableColumn("inner", name_attribute(within))
    outer = () if by == within else (TableColumn("outer", name_attribute(by)),)
    return (*outer, inner, TableColumn("tasks", "tasks"))


def find_within(view: SuiteView, by: str) -> str:
    """The ring inside `by` that says most at a glance: a source's domains, else an environment's or a domain's families."""
    if by == "source" and "domain" in view.attributes:
        return "domain"
    if by == "family":
        return "role" if any(task.role for task in view.tasks) else by
    return "family"
