"""What finished libraries consist of. Source: SkillFlow, figure 8 (file kinds)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from benchapp.stats.comparing.groups import Group
from benchapp.stats.learning.library_sizes import FILE_KINDS, LibrarySize, read_final_libraries
from inspector.charts.chart import Chart, ChartDrawing, ChartTable, TableColumn
from inspector.charts.drawing.bars import MAX_BARS, Bar, BarPanel, BarPart, kinds_of_part, note_crowd, stack_bars
from inspector.charts.drawing.panels import lines, plain
from inspector.charts.drawing.quantities import plural
from inspector.charts.figures.growth import NOT_PUBLISHED, WITHOUT_LIBRARY
from inspector.charts.sheet import ChartSheet
from inspector.web.text.formats import number

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


COLUMNS = (
    TableColumn("group", "group", read=lambda row: row.group.label),
    *kind_columns(FILE_KINDS, "files per run"),
    TableColumn("files", "all files", "files per run", lambda row: row.whole.total),
    TableColumn("skills", "skills", "skills per run", lambda row: row.whole.skills),
    TableColumn("bytes", "size", "bytes per run", lambda row: row.whole.bytes),
    TableColumn("libraries", "libraries, all replicates", read=lambda row: row.whole.libraries),
    TableColumn("runs", "runs with a library", read=lambda row: row.whole.runs),
)


def draw(sheet: ChartSheet) -> ChartDrawing:
    comparison = sheet.comparison
    wanted = [group for group in comparison.groups.all if group.condition not in WITHOUT_LIBRARY]
    libraries = read_final_libraries([run for group in wanted for run in group.runs], comparison.choices.as_of)
    rows = [
        LibraryKinds(group, sheet.trials_url(group), whole)
        for group in wanted
        if (whole := composition([libraries.get(run.pk, ()) for run in group.runs])) is not None
    ]
    table = ChartTable.of(COLUMNS, rows)
    if not any(row.whole.total for row in rows):
        absent = f"None of these runs has a library with a file in it. {NOT_PUBLISHED}"
        return ChartDrawing(None, table, absent=absent)
    bars = tuple(map(_bar, rows[:MAX_BARS]))
    figure = stack_bars([BarPanel("", "files in the finished libraries of a run", bars)], KINDS, across=1)
    return ChartDrawing(figure, table, _notes(len(rows)))


def _bar(row: LibraryKinds) -> Bar:
    whole, parts = row.whole, []
    for kind, count in whole.files.items():
        if count:
            says = f"{number(count, 1)} of {number(whole.total, 1)} files: {kind}"
            hover = lines(plain(row.group.label), says, f"{plural(whole.libraries, 'library', 'libraries')}")
            parts.append(BarPart(kind, count, str(number(count, 1)), hover, row.url))
    end = f"{number(whole.total, 1)} files, {number(whole.skills, 1)} skills" if whole.total else "empty"
    return Bar(row.group.label, tuple(parts), end)


def _notes(groups_total: int) -> tuple[str, ...]:
    return (
        "Files of all libraries of a run added up; with several replicates the mean over runs. A file is what its folder "
        "inside the skill says: references, scripts, assets; anything else but SKILL.md is other.",
        NOT_PUBLISHED,
        *note_crowd(groups_total, "groups"),
    )


CHART = Chart(
    key="file-kinds",
    title="What libraries consist of",
    question="Do authors write rules alone, or scripts, references and assets too?",
    draw=draw,
    after="SkillFlow, Figure 8",
)
