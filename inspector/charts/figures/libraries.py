"""How libraries grow from task to task, what finished ones consist of, and whether larger ones help.

Sources: SkillFlow, figures 7 (skill count by task) and 8 (kinds of files); SkillEvolBench, figure 5 (a panel per
model, open marks for ordinary conditions, filled marks where tier-3 files are demanded, and the no-skill run of the
same model).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import fmean

import numpy as np
from plotly import graph_objects as go

from benchapp.stats.comparing.choices import NO_SKILL
from benchapp.stats.comparing.comparison import MetricCell
from benchapp.stats.comparing.groups import Group
from benchapp.stats.inference.shares import half_up
from benchapp.stats.learning.libraries import FILE_KINDS, LibraryNumbers, LibrarySize, read_library_numbers
from benchapp.stats.metrics.catalogue import name_metric
from benchapp.stats.metrics.metric import TrialMetric
from inspector.charts.chart import Answer, Chart, ChartDrawing, ChartTable, TableColumn, entry
from inspector.charts.drawing.arms import ModelPanel, arms_of
from inspector.charts.drawing.bars import MAX_BARS, Bar, BarPanel, BarPart, Bars, kinds_of_part, note_crowd
from inspector.charts.drawing.lineup import LinePanel, crowd_notes, curves, split_panels
from inspector.charts.drawing.palette import Style, by_name
from inspector.charts.drawing.panels import MAX_PANELS, lines, note_left_out, panels, plain
from inspector.charts.drawing.quantities import Ends, scale_cell, unit_of
from inspector.charts.drawing.traces import ChartPoint, Legend, reach, scatter
from inspector.charts.sheet import WITHOUT_LIBRARY, ChartSheet, lacks_libraries
from inspector.web.text.formats import number
from runner.base.text import plural
from runner.protocols.conditions import CONDITIONS

NOT_PUBLISHED = "SkillFlow's own figure is not published as numbers."
COUNTS = ("kept", "ever")
GROWTH_COLUMNS = (
    TableColumn("group", "group", read=lambda row: row.group.label),
    TableColumn("position", "after task"),
    TableColumn("skills", "skills, mean", "skills", lambda row: fmean(row.skills)),
    TableColumn("lowest", "fewest", "skills", lambda row: min(row.skills)),
    TableColumn("highest", "most", "skills", lambda row: max(row.skills)),
    TableColumn("ever", "ever held, mean", "skills", lambda row: fmean(row.ever)),
    TableColumn("files", "files, mean", "files", lambda row: fmean(row.files)),
    TableColumn("episodes", "episodes", read=lambda row: len(row.skills)),
)


@dataclass(frozen=True, slots=True)
class After:
    """A group's libraries after `position` tasks: one count of skills (held then, ever held) and files per episode."""

    group: Group
    url: str
    position: int
    skills: tuple[int, ...]
    ever: tuple[int, ...]
    files: tuple[int, ...]

    def counts(self, count: str) -> tuple[int, ...]:
        return self.ever if count == "ever" else self.skills

    def point(self, count: str) -> ChartPoint:
        counts = self.counts(count)
        low, high, mean = min(counts), max(counts), fmean(counts)
        hover = lines(
            plain(self.group.label),
            f"after {plural(self.position, 'task')}: {mean:.2f} skills",
            f"{f'{low} to {high}' if low != high else 'the same in each'}, {plural(len(counts), 'episode')}",
        )
        return ChartPoint(self.position, mean, hover, self.url, (low, high))


def _read_libraries(sheet: ChartSheet) -> tuple[list[Group], Mapping[int, LibraryNumbers]]:
    """The groups that write a library, and by primary key of their runs the numbers of these."""
    wanted = [group for group in sheet.groups if group.condition not in WITHOUT_LIBRARY]
    runs = [run for group in wanted for run in group.runs]
    return wanted, read_library_numbers(runs, sheet.comparison.choices.as_of)


def after_tasks(sheet: ChartSheet, group: Group, libraries: Mapping[int, LibraryNumbers]) -> list[After]:
    """By position, over the episodes that got so far, tainted ones left out. `libraries`: by primary key of the run."""
    url = sheet.trials_url(group)
    grown = [libraries[run.pk].growth for run in group.runs]
    clean = np.concatenate([~each.tainted for each in grown])
    position = np.concatenate([each.position for each in grown])[clean]
    order = np.argsort(position, kind="stable")
    counts = [
        np.concatenate([getattr(each, name) for each in grown])[clean][order] for name in ("skills", "ever", "files")
    ]
    positions = np.unique(position)
    starts, ends = (np.searchsorted(position[order], positions, side) for side in ("left", "right"))
    return [
        After(group, url, int(place), *(tuple(count[start:end].tolist()) for count in counts))
        for place, start, end in zip(positions, starts, ends, strict=True)
    ]


def draw_growth(sheet: ChartSheet) -> ChartDrawing:
    count = sheet.options.get("count", COUNTS[0])
    wanted, libraries = _read_libraries(sheet)
    found = {group: steps for group in wanted if len(steps := after_tasks(sheet, group, libraries)) > 1}
    if not found:
        absent = f"None of these runs has a library whose tasks came in a recorded order. {NOT_PUBLISHED}"
        return ChartDrawing(None, ChartTable(GROWTH_COLUMNS), absent=absent)
    facets = split_panels(found, apart=True)
    table = ChartTable.of(GROWTH_COLUMNS, chain(*found.values()))
    notes = (*_note_growth(sheet, found, count), *crowd_notes(facets))
    ends = ((group.label, fmean(steps[-1].counts(count))) for group, steps in found.items())
    answers = tuple(Answer(who, skills, str(number(skills, 1)), "skills a library") for who, skills in ends)
    return ChartDrawing(lambda: _draw_growth(facets, found, count), table, notes, answers=answers)


def _draw_growth(facets: Sequence[LinePanel[Group]], found: Mapping[Group, Sequence[After]], count: str) -> go.Figure:
    figure = curves(facets, lambda group: [step.point(count) for step in found[group]], corners=True)
    last = max(steps[-1].position for steps in found.values())
    figure.update_xaxes(title={"text": "tasks done"}, range=[-0.02 * last, 1.03 * last])
    most = max(max(step.counts(count)) for steps in found.values() for step in steps)
    figure.update_yaxes(range=[0, most * 1.08 + 0.1], dtick=1 if most <= 8 else None)
    title = "skills ever held" if count == "ever" else "skills in the library"
    return figure.update_yaxes(title={"text": title}, col=1)


def _note_growth(sheet: ChartSheet, found: Mapping[Group, Sequence[After]], count: str) -> Iterable[str]:
    what = "ever held up to then" if count == "ever" else "in the library"
    yield (
        f"Skills {what}, after each task of acquisition or evaluation: the mean over the episodes of all replicates; "
        "thin bars reach from the episode with the fewest to the one with the most."
    )
    without = [group for group in sheet.groups if group not in found]
    if without:
        names = ", ".join(dict.fromkeys(group.condition for group in without))
        yield f"Not drawn, because the order of their tasks is not recorded: {names}."
    yield NOT_PUBLISHED


GROWTH_CHART = Chart(
    key="growth",
    title="Skills by task",
    question="Do libraries keep growing?",
    draw=draw_growth,
    lacks=lacks_libraries,
    after="SkillFlow, Figure 7",
    finding="{high} ends with {most} {what}; {low} with {least}",
    options={"count": COUNTS},
)


KINDS = kinds_of_part(*FILE_KINDS)
KIND_KEYS = {kind: kind.lower().replace(".", "_") for kind in FILE_KINDS}
COUNTED = tuple(kind for kind in FILE_KINDS if kind != "other")  # as SkillEvolBench counts the size of a library


class Composition:
    """The libraries of a group's run added up, as papers count them; of several runs the mean of that. `files`: by
    kind. `libraries`: of all runs."""

    def __init__(self, group: Group, url: str, clean: Sequence[Sequence[LibrarySize]]) -> None:
        self.group, self.url, self.runs, self.libraries = group, url, len(clean), sum(map(len, clean))
        self.files = {
            kind: fmean(sum(each.files.get(kind, 0) for each in of_run) for of_run in clean) for kind in FILE_KINDS
        }
        self.skills = fmean(sum(each.skills for each in of_run) for of_run in clean)
        self.bytes = fmean(sum(each.bytes for each in of_run) for of_run in clean)
        self.total, self.counted = sum(self.files.values()), sum(self.files[kind] for kind in COUNTED)


def composition(group: Group, url: str, libraries: Mapping[int, LibraryNumbers]) -> Composition | None:
    """Over the runs that have a library that is not tainted; None where none has."""
    clean = [[each for each in libraries[run.pk].sizes if not each.tainted] for run in group.runs]
    return Composition(group, url, [of_run for of_run in clean if of_run]) if any(clean) else None


KIND_COLUMNS = (
    TableColumn("group", "group", read=lambda row: row.group.label),
    *(TableColumn(name, kind, "files per run", entry("files", kind)) for kind, name in KIND_KEYS.items()),
    TableColumn("files", "all files", "files per run", lambda row: row.total),
    TableColumn("skills", "skills", "skills per run", lambda row: row.skills),
    TableColumn("bytes", "size", "bytes per run", lambda row: row.bytes),
    TableColumn("libraries", "libraries, all replicates", read=lambda row: row.libraries),
    TableColumn("runs", "runs with a library", read=lambda row: row.runs),
)


def draw_kinds(sheet: ChartSheet) -> ChartDrawing:
    wanted, libraries = _read_libraries(sheet)
    found = [composition(group, sheet.trials_url(group), libraries) for group in wanted]
    rows = [row for row in found if row is not None]
    table = ChartTable.of(KIND_COLUMNS, rows)
    if not any(row.total for row in rows):
        absent = f"None of these runs has a library with a file in it. {NOT_PUBLISHED}"
        return ChartDrawing(None, table, absent=absent)
    bars = tuple(map(_bar, rows[:MAX_BARS]))
    picture = Bars([BarPanel("", "files in the finished libraries of a run", bars)], KINDS, across=1)
    answers = tuple(
        Answer(row.group.label, row.files[kind], str(number(row.files[kind], 1)), kind)
        for row in rows
        for kind in FILE_KINDS
    )
    return ChartDrawing(picture, table, (*KIND_NOTES, *note_crowd(len(rows), "groups")), answers=answers)


def _bar(row: Composition) -> Bar:
    parts = []
    for kind, count in row.files.items():
        if count:
            share = f"{number(count, 1)} of {number(row.total, 1)} files: {kind}"
            hover = lines(plain(row.group.label), share, f"{plural(row.libraries, 'library', 'libraries')}")
            parts.append(BarPart(kind, count, str(number(count, 1)), hover, row.url))
    end = f"{number(row.total, 1)} files, {number(row.skills, 1)} skills" if row.total else "empty"
    return Bar(row.group.label, tuple(parts), end)


KIND_NOTES = (
    "Files of all libraries of a run added up; with several replicates the mean over runs. A file is what its folder "
    "inside the skill says: references, scripts, assets; anything else but SKILL.md is other.",
    NOT_PUBLISHED,
)
KINDS_CHART = Chart(
    key="file-kinds",
    title="What libraries consist of",
    question="What do authors write?",
    draw=draw_kinds,
    lacks=lacks_libraries,
    after="SkillFlow, Figure 8",
    finding="{what} a run: {high} {most}; {low} {least}",
)


# --- size and success ---

SIZE_NOT_PUBLISHED = "The paper's own figure is not published as numbers."
TIER3 = "-tier3"
HEIGHT = 230  # px of a panel's inside


def _read_rounded(kind: str) -> Callable[[SizeRow], float]:
    """Free of the noise of a mean."""
    return lambda row: round(row.whole.files[kind], 10)


SIZE_COLUMNS = (
    TableColumn("panel", "model"),
    TableColumn("condition", "condition"),
    TableColumn("files", "files in the finished library", read=lambda row: round(row.whole.counted, 10)),
    *(TableColumn(KIND_KEYS[kind], kind, "files", _read_rounded(kind)) for kind in COUNTED),
    TableColumn("other", "other files, not counted", read=_read_rounded("other")),
    TableColumn("skills", "skills", read=lambda row: row.whole.skills),
    TableColumn("libraries", "libraries added up per run", read=lambda row: row.whole.libraries / row.whole.runs),
    TableColumn("replicates", "replicates with a library", read=lambda row: row.whole.runs),
    TableColumn("value", "metric"),
    TableColumn("passed", "passed", read=lambda row: row.cell.rate.passed if row.cell.metric.is_share else None),
    TableColumn("scored", "scored", read=lambda row: row.cell.rate.scored),
    TableColumn("planned", "planned", read=lambda row: row.cell.rate.planned),
)


class SizeRow:
    """One group: its libraries and its value with its interval, as shown. `condition`: what it is called in its
    panel."""

    def __init__(self, panel: str, condition: str, whole: Composition, cell: MetricCell) -> None:
        self.panel, self.condition, self.whole, self.cell = panel, condition, whole, cell
        self.group, self.url = whole.group, whole.url
        self.value, self.around = scale_cell(cell)

    @property
    def point(self) -> ChartPoint:
        files = ", ".join(f"{self.whole.files[kind]:g} {kind}" for kind in COUNTED)
        hover = lines(
            plain(self.panel),
            f"<b>{plain(self.condition)}</b>",
            f"{self.whole.counted:g} files: {files}",
            _counts(self.cell, self.group),
        )
        return ChartPoint(self.whole.counted, self.value, hover, self.url)


def draw_size(sheet: ChartSheet) -> ChartDrawing:
    metric = sheet.metric
    if metric is None or not sheet.comparison.runs:
        return ChartDrawing(None, ChartTable(SIZE_COLUMNS), absent=f"No run is chosen. {SIZE_NOT_PUBLISHED}")
    libraries = read_library_numbers(sheet.comparison.runs, sheet.comparison.choices.as_of)

    def rows_of(groups: Sequence[Group]) -> list[tuple[ModelPanel, list[SizeRow]]]:
        return [(arm, list(_list_sizes(sheet, metric, arm, libraries))) for arm in arms_of(groups)]

    owning = [(arm, any(row.value is not None for row in rows)) for arm, rows in rows_of(sheet.groups) if rows]
    # Arms are named apart from those that are drawn with them.
    drawn, bare = (
        rows_of([group for arm, has_value in owning if has_value is wanted for group in arm.groups])
        for wanted in (True, False)
    )
    value = TableColumn("value", metric.key, unit_of(metric.unit))
    columns = [value if column.key == "value" else column for column in SIZE_COLUMNS]
    table = ChartTable.of(columns, [row for _, rows in (*drawn, *bare) for row in rows])
    if not drawn:
        absent = f"None of the chosen runs has both a library and a value for {metric.key}."
        return ChartDrawing(None, table, absent=absent)
    answers = tuple(
        Answer(row.condition, row.whole.counted, str(number(row.whole.counted, 1)), what)
        for what, rows in ((f"files, {arm.title}" if len(drawn) > 1 else "files", rows) for arm, rows in drawn)
        for row in rows
    )
    notes = (*SIZE_NOTES, *note_left_out(len(drawn), "an agent model"))
    return ChartDrawing(lambda: _draw_size(sheet, metric, drawn), table, notes, answers=answers)


def _list_sizes(
    sheet: ChartSheet, metric: TrialMetric, arm: ModelPanel, libraries: Mapping[int, LibraryNumbers]
) -> Iterator[SizeRow]:
    """Of every group of the arm that has a library; empty ones count."""
    for group, name in zip(arm.groups, arm.rows, strict=True):
        whole = composition(group, sheet.trials_url(group, metric=metric), libraries)
        if whole is not None and group.condition not in WITHOUT_LIBRARY:
            yield SizeRow(arm.title, name, whole, sheet.comparison.cell(group, metric))


def _draw_size(
    sheet: ChartSheet, metric: TrialMetric, arms: Sequence[tuple[ModelPanel, Sequence[SizeRow]]]
) -> go.Figure:
    shown_arms = arms[:MAX_PANELS]
    styles = by_name(row.group.condition for _, rows in arms for row in rows)
    figure, place_of = panels([arm.title for arm, _ in shown_arms], across=2, height=HEIGHT, legend=styles)
    named = Legend()
    for place, (arm, rows) in enumerate(shown_arms):
        marks: list[tuple[str, ChartPoint, Style, Ends | None]] = []
        base = arm.find(NO_SKILL)
        cell = sheet.comparison.cell(base, metric) if base else None
        if base and cell and cell.value is not None:
            hover, url = lines(f"<b>{NO_SKILL}</b>", _counts(cell, base)), sheet.trials_url(base, metric=metric)
            marks.append((NO_SKILL, ChartPoint(0, scale_cell(cell)[0], hover, url), styles[NO_SKILL], None))
        for row in rows:
            if row.value is not None:
                style = styles[row.group.condition]
                style = style if is_tier3(row.group.condition) else style.open
                marks.append((row.group.condition, row.point, style, row.around))
        for name, point, style, around in marks:
            trace = scatter(
                [point],
                mode="markers",
                marker=style.mark(11, line={"width": 2}),
                error_y=reach(point.y, around, style.colour),
                **named.enter(name),
            )
            figure.add_trace(trace, **place_of(place))
    few = max(row.whole.counted for _, rows in shown_arms for row in rows) <= 10
    figure.update_xaxes(rangemode="tozero", dtick=1 if few else None, title_text="files in the finished library")
    figure.update_yaxes(title_text=f"{plain(name_metric(metric).title)}, {unit_of(metric.unit)}", col=1)
    return figure


def is_tier3(condition: str) -> bool:
    known = CONDITIONS.get(condition)
    return known.tier3_required if known else condition.endswith(TIER3)


def _counts(cell: MetricCell, group: Group) -> str:
    metric = cell.metric
    value, _ = scale_cell(cell)
    mean = "no value" if value is None else f"{half_up(value, 1)}{' %' if metric.is_share else ''}"
    counted = f"{cell.rate.passed}/{cell.rate.scored}" if metric.is_share else f"{cell.rate.scored} trials"
    runs = f", {group.replicates} replicates" if group.replicates > 1 else ""
    return f"{plain(metric.key)} {mean} ({counted}{runs})"


SIZE_NOTES = (
    "Filled marks: conditions that demand tier-3 files (references, scripts, assets). Open marks: all others.",
    f"The no-skill run of the same model has 0 files. {', '.join(COUNTED)} count; a run's libraries are added up; "
    "with several replicates both axes show the mean over them. Bars are 95 % intervals. Size was not assigned: this "
    "is association.",
    SIZE_NOT_PUBLISHED,
)
SIZE_CHART = Chart(
    key="library-size",
    title="Library size and success",
    question="Does a larger library help?",
    draw=draw_size,
    lacks=lacks_libraries,
    after="SkillEvolBench, figure 5",
    uses_metric=True,
)
