"""How libraries grow from task to task. Source: SkillFlow, figure 7 (skill count by task)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from benchapp.comparing.groups import Group
from benchapp.metrics.libraries import Growth, growth
from inspector.charts.drawing import Chart, Column, Drawing, Row, Table
from inspector.charts.lineup import Point, crowd_notes, curves, facets_of
from inspector.charts.panels import lines, plain
from inspector.charts.quantities import plural
from inspector.charts.sheet import Sheet
from runner.protocols.conditions import conditions_without_library

NOT_PUBLISHED = "SkillFlow's own figure is not published as numbers."
WITHOUT_LIBRARY = conditions_without_library()
COUNTS = ("kept", "ever")
COLUMNS = (
    Column("group", "group"),
    Column("position", "after task"),
    Column("skills", "skills, mean", "skills"),
    Column("lowest", "fewest", "skills"),
    Column("highest", "most", "skills"),
    Column("ever", "ever held, mean", "skills"),
    Column("files", "files, mean", "files"),
    Column("episodes", "episodes"),
)


@dataclass(frozen=True, slots=True)
class After:
    """A group's libraries after `position` tasks: one count of skills (held then, ever held) and files per episode."""

    position: int
    skills: tuple[int, ...]
    ever: tuple[int, ...]
    files: tuple[int, ...]

    def counts(self, count: str) -> tuple[int, ...]:
        return self.ever if count == "ever" else self.skills


def after_tasks(entries: Iterable[Growth]) -> list[After]:
    """By position, over the episodes that got so far, tainted ones left out."""
    at: dict[int, list[Growth]] = defaultdict(list)
    for entry in entries:
        if not entry.tainted:
            at[entry.position].append(entry)
    return [
        After(
            position,
            tuple(entry.skills for entry in found),
            tuple(entry.ever for entry in found),
            tuple(sum(entry.files.values()) for entry in found),
        )
        for position, found in sorted(at.items())
    ]


def draw(sheet: Sheet) -> Drawing:
    count = sheet.options.get("count", COUNTS[0])
    comparison = sheet.comparison
    wanted = [group for group in comparison.groups.all if group.condition not in WITHOUT_LIBRARY]
    entries = growth([run for group in wanted for run in group.runs], comparison.choices.as_of)
    found = {
        group: steps
        for group in wanted
        if len(steps := after_tasks(entry for run in group.runs for entry in entries.get(run.pk, ()))) > 1
    }
    if not found:
        absent = f"None of these runs has a library whose tasks came in a recorded order. {NOT_PUBLISHED}"
        return Drawing(None, Table(COLUMNS), absent=absent)
    facets = facets_of(found, apart=True)
    figure = curves(facets, lambda group: _points(sheet, group, found[group], count), corners=True)
    last = max(steps[-1].position for steps in found.values())
    figure.update_xaxes(title={"text": "tasks done"}, range=[-0.02 * last, 1.03 * last])
    most = max(max(step.counts(count)) for steps in found.values() for step in steps)
    figure.update_yaxes(range=[0, most * 1.08 + 0.1], dtick=1 if most <= 8 else None)
    figure.update_yaxes(title={"text": "skills ever held" if count == "ever" else "skills in the library"}, col=1)
    table = Table(COLUMNS, tuple(row for group, steps in found.items() for row in _rows(sheet, group, steps)))
    return Drawing(figure, table, (*_notes(sheet, found, count), *crowd_notes(facets)))


def _points(sheet: Sheet, group: Group, steps: Sequence[After], count: str) -> list[Point]:
    url = sheet.trials_url(group)
    return [_point(group, step, count, url) for step in steps]


def _point(group: Group, step: After, count: str, url: str) -> Point:
    counts = step.counts(count)
    return Point(step.position, fmean(counts), _hover(group, step, count), url, (min(counts), max(counts)))


def _hover(group: Group, step: After, count: str) -> str:
    counts = step.counts(count)
    spread = f"{min(counts)} to {max(counts)}" if min(counts) != max(counts) else "the same in each"
    return lines(
        plain(group.label),
        f"after {plural(step.position, 'task')}: {fmean(counts):.2f} skills",
        f"{spread}, {plural(len(counts), 'episode')}",
    )


def _rows(sheet: Sheet, group: Group, steps: Sequence[After]) -> Iterable[Row]:
    url = sheet.trials_url(group)
    for step in steps:
        spread = (fmean(step.skills), min(step.skills), max(step.skills))
        values = (group.label, step.position, *spread, fmean(step.ever), fmean(step.files), len(step.skills))
        yield Row(values, url)


def _notes(sheet: Sheet, found: Mapping[Group, Sequence[After]], count: str) -> Iterable[str]:
    what = "ever held up to there" if count == "ever" else "that stand then"
    yield (
        f"Skills {what}, after each task of acquisition or evaluation: the mean over the episodes of all replicates; "
        "thin bars reach from the episode with the fewest to the one with the most."
    )
    without = [group for group in sheet.comparison.groups.all if group not in found]
    if without:
        names = ", ".join(dict.fromkeys(group.condition for group in without))
        yield f"Not drawn, because no library of a recorded order is there: {names}."
    yield NOT_PUBLISHED


CHART = Chart(
    key="growth",
    title="Skills by task",
    question="Does the library keep growing, or does it settle?",
    draw=draw,
    after="SkillFlow, Figure 7",
    options={"count": COUNTS},
)
