"""How skills are written, as rules read them: six static axes, and patterns A, B, C.

Sources: SkillGenBench, figure 5 and Table 3 (a radar of six axes by method); SkillLearnBench, Table 5 (patterns by
method).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from benchapp.analysis.diagnoses.profile import PROFILE_GROUPS, LibraryProfile, average_profile, read_skills
from benchapp.papers.published_rows import PrintedNumber
from benchapp.stats.inference.shares import half_up
from inspector.charts.chart import Answer, Chart, ChartDrawing, ChartTable, TableColumn, entry
from inspector.charts.drawing.bars import MAX_BARS, Bar, BarPanel, BarPart, Bars, kinds_of_part, note_crowd
from inspector.charts.drawing.panels import Heat, HeatCell, Heats, Scale, lines, plain
from inspector.charts.sheet import WITHOUT_LIBRARY, ChartSheet, lacks_libraries
from runner.authoring.contract.skill_file import PATTERNS
from runner.base.text import plural
from runner.base.var_folder import MANAGE

AXES = (*PROFILE_GROUPS, "overall")
UNREAD = f"Rules have read no library of these runs yet. A worker reads them, or {MANAGE} diagnose_libraries does."
PAPER, TABLE = "skilllearnbench", "Table 5"
NAMES = {"A": "A, instructions only", "B": "B, with scripts", "C": "C, with MCP or subagents"}
KINDS = kinds_of_part(*NAMES.values())


@dataclass(frozen=True, slots=True)
class ProfiledGroup:
    """A group, or a row of a paper: the part of its skills of each pattern in percent;
    of own runs the profile and its axes in percent."""

    label: str
    source: str
    patterns: Mapping[str, float]
    profile: LibraryProfile | None = None
    axes: Mapping[str, float | None] = field(default_factory=dict)
    url: str = ""

    @property
    def counts(self) -> str:
        if self.profile is None:
            return ""
        read, libraries = self.profile.read, plural(self.profile.libraries, "library", "libraries")
        return f"{plural(self.profile.skills, 'skill')} of {read} read of {libraries}"


def list_profiled(sheet: ChartSheet) -> list[ProfiledGroup]:
    """The groups with a library that rules have read and that holds a skill."""
    wanted = [group for group in sheet.groups if group.condition not in WITHOUT_LIBRARY]
    read = read_skills(run for group in wanted for run in group.runs)
    rows = []
    for group in wanted:
        profile = average_profile([read[run.pk] for run in group.runs])
        if profile.skills:
            parts: dict[str, float] = {
                pattern: 100 * profile.patterns[pattern] / profile.skills for pattern in PATTERNS
            }
            axes: dict[str, float | None] = dict.fromkeys(AXES)
            if profile.overall is not None:
                axes = {
                    axis: round(100 * part, 10)
                    for axis, part in zip(AXES, (*profile.axes, profile.overall), strict=True)
                }
            rows.append(ProfiledGroup(group.label, "own", parts, profile, axes, sheet.trials_url(group)))
    return rows


# --- six axes -------------------------------------------------------------------------------------------------------


COUNTS = (
    TableColumn("skills", "skills", read=lambda row: row.profile and row.profile.skills),
    TableColumn("read", "libraries read", read=lambda row: row.profile and row.profile.read),
    TableColumn("libraries", "libraries", read=lambda row: row.profile and row.profile.libraries),
)
AXES_COLUMNS = (
    TableColumn("group", "group", read=lambda row: row.label),
    *(TableColumn(axis, axis, "%", entry("axes", axis)) for axis in AXES),
    *COUNTS,
)


def draw_axes(sheet: ChartSheet) -> ChartDrawing:
    rows = list_profiled(sheet)
    table = ChartTable.of(AXES_COLUMNS, rows)
    if not rows:
        return ChartDrawing(None, table, absent=UNREAD)
    cells = {}
    for row in rows[:MAX_BARS]:
        for axis, value in row.axes.items():
            text = "" if value is None else str(half_up(value))
            hover = lines(f"<b>{plain(row.label)}</b>, {axis}", f"{text} % of the cues", row.counts)
            cells[row.label, axis] = HeatCell(value, text, hover, row.url)
    labels = [row.label for row in rows[:MAX_BARS]]
    picture = Heats([Heat("", cells)], labels, AXES, Scale(0, 100, diverging=False, unit="%"), across=1)
    answers = tuple(
        Answer(label, cell.value, f"{cell.text} %", axis)
        for (label, axis), cell in cells.items()
        if cell.value is not None
    )
    return ChartDrawing(picture, table, (*NOTES, *note_crowd(len(rows), "groups")), answers=answers)


NOTES = (
    "Part of the cues that rules find in a skill, on six axes as SkillGenBench groups them, as the mean over the "
    "skills of the libraries as they are now. A cue is a word or is not there. The cues are ours, so these are not "
    "the paper's scores, and the paper finds that static quality and success differ. Overall is the mean of the six.",
    "SkillGenBench's figure 5 is not published as numbers.",
)
AXES_CHART = Chart(
    key="static-axes",
    title="Static axes of skills",
    question="What do skills contain?",
    draw=draw_axes,
    lacks=lacks_libraries,
    after="SkillGenBench, figure 5",
    finding="Cues of {what}: {high} {most}; {low} {least}",
    is_kept=False,
)


# --- patterns -------------------------------------------------------------------------------------------------------


PATTERN_COLUMNS = (
    TableColumn("group", "group", read=lambda row: row.label),
    *(
        TableColumn(f"pattern_{pattern.lower()}", NAMES[pattern], "%", entry("patterns", pattern))
        for pattern in PATTERNS
    ),
    *COUNTS,
    TableColumn("source", "source"),
)


def draw_patterns(sheet: ChartSheet) -> ChartDrawing:
    own, printed = list_profiled(sheet), _list_printed(sheet.printed)
    table = ChartTable.of(PATTERN_COLUMNS, (*own, *printed))
    if not own and not printed:
        return ChartDrawing(None, table, absent=UNREAD)
    blocks = [
        BarPanel(title, "% of skills", tuple(map(_build_bar, rows[:MAX_BARS])), 100.0)
        for title, rows in (("", own), ("Published: SkillLearnBench, Table 5", printed))
        if rows
    ]
    answers = tuple(
        Answer(row.label, row.patterns[pattern], f"{half_up(row.patterns[pattern])} %", NAMES[pattern])
        for row in own
        for pattern in PATTERNS
    )
    notes = (*PATTERN_NOTES, *note_crowd(len(own), "groups"))
    return ChartDrawing(Bars(blocks, KINDS, across=1), table, notes, answers=answers)


def _build_bar(row: ProfiledGroup) -> Bar:
    counts = row.counts or "average of six models"
    parts = []
    for pattern, value in row.patterns.items():
        if value:
            hover = lines(f"<b>{plain(row.label)}</b>", f"{half_up(value, 1)} % {NAMES[pattern]}", counts)
            parts.append(BarPart(NAMES[pattern], value, str(half_up(value, 1)), hover, row.url))
    return Bar(row.label, tuple(parts), plural(row.profile.skills, "skill") if row.profile else "")


def _list_printed(rows: Sequence[PrintedNumber]) -> list[ProfiledGroup]:
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        if (row.paper, row.table) == (PAPER, TABLE) and row.value is not None:
            found.setdefault(row.condition, {})[row.metric.removeprefix("pattern_").upper()] = row.value
    return [ProfiledGroup(condition, f"SkillLearnBench, {TABLE}", parts) for condition, parts in found.items()]


PATTERN_NOTES = (
    "Part of all skills in the libraries as they are now. C: a file configures subagents or MCP servers, or the "
    "instructions name one; B: else a file is code; A: else. The paper names the three and prints no rule, so the "
    "rule is ours.",
)
PATTERNS_CHART = Chart(
    key="patterns",
    title="Patterns of skills",
    question="Do authors write more than instructions?",
    draw=draw_patterns,
    lacks=lacks_libraries,
    after="SkillLearnBench, Table 5",
    finding="{what}: {high} {most} of skills; {low} {least}",
    papers=(PAPER,),
    is_kept=False,
)
