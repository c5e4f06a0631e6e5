"""What finished libraries consist of. Source: SkillFlow, figure 8 (file kinds)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from benchapp.comparing.groups import Group
from benchapp.metrics.libraries import FILE_KINDS, LibrarySize, final_libraries
from inspector.charts.bars import MAX_BARS, Bar, Block, Part, crowded, kinds_of_part, stacked
from inspector.charts.drawing import Chart, Column, Drawing, Row, Table
from inspector.charts.growth import NOT_PUBLISHED, WITHOUT_LIBRARY
from inspector.charts.panels import lines, plain
from inspector.charts.quantities import plural
from inspector.charts.sheet import Sheet
from inspector.formats import number

KINDS = kinds_of_part(*FILE_KINDS)
COLUMNS = (
    Column("group", "group"),
    *(Column(kind.lower().replace(".", "_"), kind, "files per run") for kind in FILE_KINDS),
    Column("files", "all files", "files per run"),
    Column("skills", "skills", "skills per run"),
    Column("bytes", "size", "bytes per run"),
    Column("libraries", "libraries, all replicates"),
    Column("runs", "runs with a library"),
)


@dataclass(frozen=True, slots=True)
class Composition:
    """The libraries of a run added up; of several runs the mean of that. `libraries`: of all runs together."""

    files: Mapping[str, float]
    skills: float
    bytes: float
    libraries: int
    runs: int

    @property
    def total(self) -> float:
        return sum(self.files.values())


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


def draw(sheet: Sheet) -> Drawing:
    comparison = sheet.comparison
    wanted = [group for group in comparison.groups.all if group.condition not in WITHOUT_LIBRARY]
    libraries = final_libraries([run for group in wanted for run in group.runs], comparison.choices.as_of)
    found = {
        group: whole
        for group in wanted
        if (whole := composition([libraries.get(run.pk, ()) for run in group.runs])) is not None
    }
    if not any(whole.total for whole in found.values()):
        absent = f"None of these runs has a library with a file in it. {NOT_PUBLISHED}"
        return Drawing(None, Table(COLUMNS, tuple(_rows(sheet, found))), absent=absent)
    bars = tuple(_bar(sheet, group, whole) for group, whole in list(found.items())[:MAX_BARS])
    figure = stacked([Block("", "files in the finished libraries of a run", bars)], KINDS, across=1)
    return Drawing(figure, Table(COLUMNS, tuple(_rows(sheet, found))), _notes(len(found)))


def _bar(sheet: Sheet, group: Group, whole: Composition) -> Bar:
    url = sheet.trials_url(group)
    parts = []
    for kind, count in whole.files.items():
        if count:
            says = f"{number(count, 1)} of {number(whole.total, 1)} files: {kind}"
            hover = lines(plain(group.label), says, f"{plural(whole.libraries, 'library', 'libraries')}")
            parts.append(Part(kind, count, str(number(count, 1)), hover, url))
    end = f"{number(whole.total, 1)} files, {number(whole.skills, 1)} skills" if whole.total else "empty"
    return Bar(group.label, tuple(parts), end)


def _rows(sheet: Sheet, found: Mapping[Group, Composition]) -> Iterable[Row]:
    for group, whole in found.items():
        numbers = (*whole.files.values(), whole.total, whole.skills, whole.bytes, whole.libraries, whole.runs)
        yield Row((group.label, *numbers), sheet.trials_url(group))


def _notes(groups_total: int) -> tuple[str, ...]:
    return (
        "Files of all libraries of a run added up; with several replicates the mean over runs. A file is what its folder "
        "inside the skill says: references, scripts, assets; anything else but SKILL.md is other.",
        NOT_PUBLISHED,
        *crowded(groups_total, "groups"),
    )


CHART = Chart(
    key="file-kinds",
    title="What libraries consist of",
    question="Do authors write rules alone, or scripts, references and assets too?",
    draw=draw,
    after="SkillFlow, Figure 8",
)
