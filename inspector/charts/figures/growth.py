"""How libraries grow from task to task. Source: SkillFlow, figure 7 (skill count by task)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import fmean

from benchapp.stats.comparing.groups import Group
from benchapp.stats.learning.library_sizes import Growth, count_growth
from inspector.charts.chart import Chart, ChartDrawing, ChartTable, TableColumn
from inspector.charts.drawing.lineup import crowd_notes, curves, facets_of
from inspector.charts.drawing.panels import lines, plain
from inspector.charts.drawing.quantities import plural
from inspector.charts.drawing.traces import ChartPoint
from inspector.charts.sheet import ChartSheet
from runner.protocols.conditions import conditions_without_library

NOT_PUBLISHED = "SkillFlow's own figure is not published as numbers."
WITHOUT_LIBRARY = conditions_without_library()
COUNTS = ("kept", "ever")
COLUMNS = (
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


def after_tasks(sheet: ChartSheet, group: Group, entries: Mapping[int, Sequence[Growth]]) -> list[After]:
    """By position, over the episodes that got so far, tainted ones left out. `entries`: by primary key of the run."""
    url = sheet.trials_url(group)
    at: dict[int, list[Growth]] = defaultdict(list)
    for entry in (entry for run in group.runs for entry in entries.get(run.pk, ())):
        if not entry.tainted:
            at[entry.position].append(entry)
    return [
        After(
            group,
            url,
            position,
            tuple(entry.skills for entry in found),
            tuple(entry.ever for entry in found),
            tuple(sum(entry.files.values()) for entry in found),
        )
        for position, found in sorted(at.items())
    ]


def draw(sheet: ChartSheet) -> ChartDrawing:
    count = sheet.options.get("count", COUNTS[0])
    comparison = sheet.comparison
    wanted = [group for group in comparison.groups.all if group.condition not in WITHOUT_LIBRARY]
    entries = count_growth([run for group in wanted for run in group.runs], comparison.choices.as_of)
    found = {group: steps for group in wanted if len(steps := after_tasks(sheet, group, entries)) > 1}
    if not found:
        absent = f"None of these runs has a library whose tasks came in a recorded order. {NOT_PUBLISHED}"
        return ChartDrawing(None, ChartTable(COLUMNS), absent=absent)
    facets = facets_of(found, apart=True)
    figure = curves(facets, lambda group: [step.point(count) for step in found[group]], corners=True)
    last = max(steps[-1].position for steps in found.values())
    figure.update_xaxes(title={"text": "tasks done"}, range=[-0.02 * last, 1.03 * last])
    most = max(max(step.counts(count)) for steps in found.values() for step in steps)
    figure.update_yaxes(range=[0, most * 1.08 + 0.1], dtick=1 if most <= 8 else None)
    figure.update_yaxes(title={"text": "skills ever held" if count == "ever" else "skills in the library"}, col=1)
    table = ChartTable.of(COLUMNS, chain(*found.values()))
    return ChartDrawing(figure, table, (*_notes(sheet, found, count), *crowd_notes(facets)))


def _notes(sheet: ChartSheet, found: Mapping[Group, Sequence[After]], count: str) -> Iterable[str]:
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
