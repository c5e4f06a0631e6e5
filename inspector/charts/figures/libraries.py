"""How libraries grow from task to task, and what finished ones consist of.

Source: SkillFlow, figures 7 (skill count by task) and 8 (kinds of files).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import fmean
from typing import Any

import numpy as np
from plotly import graph_objects as go

from benchapp.stats.comparing.groups import Group
from benchapp.stats.learning.library_history import FILE_KINDS
from benchapp.stats.learning.library_sizes import LibraryNumbers, LibrarySize, read_library_numbers
from inspector.charts.chart import Chart, ChartDrawing, ChartTable, TableColumn
from inspector.charts.contrast import Answer
from inspector.charts.drawing.bars import MAX_BARS, Bar, BarPanel, BarPart, Bars, kinds_of_part, note_crowd
from inspector.charts.drawing.lineup import LinePanel, crowd_notes, curves, split_panels
from inspector.charts.drawing.panels import lines, plain
from inspector.charts.drawing.quantities import plural
from inspector.charts.drawing.traces import ChartPoint
from inspector.charts.lacking import WITHOUT_LIBRARY, lacks_libraries
from inspector.charts.sheet import ChartSheet
from inspector.web.text.formats import number

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
    comparison = sheet.comparison
    wanted = [group for group in sheet.groups if group.condition not in WITHOUT_LIBRARY]
    libraries = read_library_numbers([run for group in wanted for run in group.runs], comparison.choices.as_of)
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
    return figure.update_yaxes(
        title={"text": "skills ever held" if count == "ever" else "skills in the library"}, col=1
    )


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
COUNTED = tuple(kind for kind in FILE_KINDS if kind != "other")  # as SkillEvolBench counts the size of a library


@dataclass(frozen=True, slots=True)
class Composition:
    """The libraries of a run added up, as papers count them; of several runs the mean of that. `libraries`: of all runs."""

    files: Mapping[str, float]  # by kind
    skills: float
    bytes: float
    libraries: int
    runs: int

    @property
    def total(self) -> float:
        return sum(self.files.values())

    @property
    def counted(self) -> float:
        return sum(self.files[kind] for kind in COUNTED)


def composition(runs: Sequence[Sequence[LibrarySize]]) -> Composition | None:
    """Over the runs that have a library that is not tainted; None where none has."""
    clean = [[library for library in of_run if not library.tainted] for of_run in runs]
    clean = [of_run for of_run in clean if of_run]
    if not clean:
        return None
    files = {kind: fmean(sum(each.files.get(kind, 0) for each in of_run) for of_run in clean) for kind in FILE_KINDS}
    skills = fmean(sum(each.skills for each in of_run) for of_run in clean)
    size = fmean(sum(each.bytes for each in of_run) for of_run in clean)
    return Composition(files, skills, size, sum(map(len, clean)), len(clean))


def kind_columns(kinds: Iterable[str], unit: str, digits: int | None = None) -> tuple[TableColumn, ...]:
    """A column per kind of file, of rows with a composition `whole`; `digits` frees them of the noise of a mean."""

    def reader(kind: str) -> Callable[[Any], float]:
        return lambda row: row.whole.files[kind] if digits is None else round(row.whole.files[kind], digits)

    return tuple(TableColumn(kind.lower().replace(".", "_"), kind, unit, reader(kind)) for kind in kinds)


@dataclass(frozen=True, slots=True)
class LibraryKinds:
    """What the finished libraries of a group consist of."""

    group: Group
    url: str
    whole: Composition


KIND_COLUMNS = (
    TableColumn("group", "group", read=lambda row: row.group.label),
    *kind_columns(FILE_KINDS, "files per run"),
    TableColumn("files", "all files", "files per run", lambda row: row.whole.total),
    TableColumn("skills", "skills", "skills per run", lambda row: row.whole.skills),
    TableColumn("bytes", "size", "bytes per run", lambda row: row.whole.bytes),
    TableColumn("libraries", "libraries, all replicates", read=lambda row: row.whole.libraries),
    TableColumn("runs", "runs with a library", read=lambda row: row.whole.runs),
)


def draw_kinds(sheet: ChartSheet) -> ChartDrawing:
    comparison = sheet.comparison
    wanted = [group for group in sheet.groups if group.condition not in WITHOUT_LIBRARY]
    libraries = read_library_numbers([run for group in wanted for run in group.runs], comparison.choices.as_of)
    rows = [
        LibraryKinds(group, sheet.trials_url(group), whole)
        for group in wanted
        if (whole := composition([libraries[run.pk].sizes for run in group.runs])) is not None
    ]
    table = ChartTable.of(KIND_COLUMNS, rows)
    if not any(row.whole.total for row in rows):
        absent = f"None of these runs has a library with a file in it. {NOT_PUBLISHED}"
        return ChartDrawing(None, table, absent=absent)
    bars = tuple(map(_bar, rows[:MAX_BARS]))
    picture = Bars([BarPanel("", "files in the finished libraries of a run", bars)], KINDS, across=1)
    answers = tuple(
        Answer(row.group.label, row.whole.files[kind], str(number(row.whole.files[kind], 1)), kind)
        for row in rows
        for kind in FILE_KINDS
    )
    return ChartDrawing(picture, table, _note_kinds(len(rows)), answers=answers)


def _bar(row: LibraryKinds) -> Bar:
    whole, parts = row.whole, []
    for kind, count in whole.files.items():
        if count:
            says = f"{number(count, 1)} of {number(whole.total, 1)} files: {kind}"
            hover = lines(plain(row.group.label), says, f"{plural(whole.libraries, 'library', 'libraries')}")
            parts.append(BarPart(kind, count, str(number(count, 1)), hover, row.url))
    end = f"{number(whole.total, 1)} files, {number(whole.skills, 1)} skills" if whole.total else "empty"
    return Bar(row.group.label, tuple(parts), end)


def _note_kinds(groups_total: int) -> tuple[str, ...]:
    return (
        "Files of all libraries of a run added up; with several replicates the mean over runs. A file is what its folder "
        "inside the skill says: references, scripts, assets; anything else but SKILL.md is other.",
        NOT_PUBLISHED,
        *note_crowd(groups_total, "groups"),
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
