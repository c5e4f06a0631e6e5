"""Everything the page of findings shows for one address: a state of a library, what rules said of it, each in context."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import urlencode

from django.core.paginator import Page
from django.db.models import Case, IntegerField, QuerySet, Value, When
from django.urls import reverse

from benchapp.analysis.diagnoses.diagnosis import RULES, RULES_VERSION
from benchapp.analysis.diagnoses.hits import GROUPS, LibraryRule
from benchapp.analysis.diagnoses.library_shelf import read_text
from benchapp.analysis.diagnoses.profile import PROFILE_GROUPS, StoredSkill
from benchapp.analysis.lineage.library_states import LibraryState
from benchapp.models import Blob, Episode, LibraryDiagnosis, LibraryFinding, Run, SnapshotFile, Trial
from benchapp.record.textual_change import has_nul
from inspector.pages.library.rail import Rail, open_rail
from inspector.web.subject import find_neighbours, once_for
from inspector.web.text.visible import visible

PER_PAGE = 40
AROUND = 1  # lines before and after
MAX_LINES = 8  # of a span
MAX_COLUMNS = 220  # of a line, around the span
MAX_CONTEXT_BYTES = 1024 * 1024

PROFILE_WORDS = {
    "contract": "interface and verification named",
    "environment": "setup, dependencies, invocation, versions",
    "grounding": "tied to files, identifiers, examples",
    "procedure": "steps, order, branches, data, failures",
    "constraints": "musts, must-nots, limits, scope",
    "safety": "concise, no risky command, no leak found",
}

LACK_WORDS = {"concise": "too long", "no risky command": "a risky command", "no leak found": "a possible leak"}


@dataclass(frozen=True, slots=True)
class FindingLine:
    """A line of a file around a span; `marked` pieces belong to the span."""

    number: int
    pieces: tuple[tuple[str, bool], ...]


@dataclass(frozen=True, slots=True)
class ShownFinding:
    """One finding with its lines around it."""

    finding: LibraryFinding
    rule: LibraryRule | None  # None: of a rule that this version no longer has
    lines: tuple[FindingLine, ...]
    file_url: str


@dataclass(frozen=True, slots=True)
class FindingsColumn:
    """One state in the trend. Heights and places are in the drawing's own units."""

    state: LibraryState
    diagnosis: LibraryDiagnosis | None
    url: str
    x: int
    bars: tuple[tuple[str, int, int, int], ...]  # (severity, count, y, height)
    top: int

    @property
    def label_x(self) -> int:
        return self.x + BAR // 2


CHART_HEIGHT = 96
BAR, STEP, MIN_BAR = 26, 44, 3


@dataclass(frozen=True)
class FindingsPage:
    """The findings of one state of a library, filtered and counted."""

    run: Run
    episode: Episode
    rail: Rail
    state: LibraryState
    diagnoses: Mapping[int, LibraryDiagnosis]
    group: str
    closed: QuerySet[Trial]

    @property
    def diagnosis(self) -> LibraryDiagnosis | None:
        return self._find_diagnosis(self.state)

    @property
    def is_stale(self) -> bool:
        return self.diagnosis is not None and self.diagnosis.rules_version != RULES_VERSION

    @cached_property
    def rows(self) -> QuerySet[LibraryFinding]:
        """What this person may see of it, alarms first, then group by group."""
        found = LibraryFinding.objects.filter(diagnosis=self.diagnosis).exclude(trial__in=self.closed)
        places = [When(group=group, then=Value(place)) for place, group in enumerate(GROUPS)]
        weighs = [When(severity="alarm", then=Value(0))]
        return found.select_related("trial").order_by(
            Case(*weighs, default=Value(1), output_field=IntegerField()),
            Case(*places, default=Value(99), output_field=IntegerField()),
            "ordinal",
        )

    @cached_property
    def counts(self) -> Counter[tuple[str, str]]:
        """(group, severity) -> findings."""
        return Counter(self.rows.order_by().values_list("group", "severity"))

    def total(self, severity: str) -> int:
        return sum(count for (_, found), count in self.counts.items() if found == severity)

    @property
    def withheld(self) -> int:
        return sum(count for _, count in _count_severities(self.diagnosis)) - self.counts.total()

    @property
    def facets(self) -> list[tuple[str, str, int, int]]:
        """(group, word, findings, alarms) of the groups that have any."""
        totals: Counter[str] = Counter()
        for (group, _), count in self.counts.items():
            totals[group] += count
        return [
            (group, word, totals[group], self.counts[group, "alarm"]) for group, word in GROUPS.items() if totals[group]
        ]

    @property
    def chosen(self) -> QuerySet[LibraryFinding]:
        return self.rows.filter(group=self.group) if self.group else self.rows

    @cached_property
    def skills(self) -> list[dict[str, object]]:
        return [_build_skill_row(facts) for facts in self.diagnosis.skills] if self.diagnosis else []

    @property
    def patterns(self) -> list[tuple[str, int]]:
        found = Counter(row["pattern"] for row in self.skills)
        return [(pattern, found[pattern]) for pattern in "ABC"]

    @cached_property
    def filled(self) -> list[LibraryState]:
        """The states that hold something to read."""
        return [state for state in self.rail.states if state.snapshot and state.snapshot.files_total]

    @property
    def previous(self) -> LibraryState | None:
        return find_neighbours(self.filled, self.state)[0]

    @property
    def following(self) -> LibraryState | None:
        return find_neighbours(self.filled, self.state)[1]

    @cached_property
    def trend(self) -> list[FindingsColumn]:
        read = [self._find_diagnosis(state) for state in self.filled]
        most = max((sum(count for _, count in _count_severities(each)) for each in read), default=0) or 1
        return [self._draw_column(place, state, most) for place, state in enumerate(self.filled)]

    @property
    def chart_width(self) -> int:
        return max(1, len(self.filled)) * STEP

    def _find_diagnosis(self, state: LibraryState) -> LibraryDiagnosis | None:
        return self.diagnoses.get(state.snapshot.pk) if state.snapshot else None

    def _draw_column(self, place: int, state: LibraryState, most: int) -> FindingsColumn:
        diagnosis, bars, y = self._find_diagnosis(state), [], CHART_HEIGHT
        for severity, count in _count_severities(diagnosis):
            if count:
                height = max(MIN_BAR, round(count / most * (CHART_HEIGHT - 14)))
                y -= height
                bars.append((severity, count, y, height))
        query = urlencode({"episode": self.episode.public_id, "round": state.key})
        return FindingsColumn(state, diagnosis, f"?{query}", place * STEP + (STEP - BAR) // 2, tuple(bars), y - 4)


def _count_severities(diagnosis: LibraryDiagnosis | None) -> Iterable[tuple[str, int]]:
    if diagnosis is None:
        return ()
    return (("alarm", diagnosis.alarms), ("warning", diagnosis.warnings), ("note", diagnosis.notes))


def _build_skill_row(facts: StoredSkill) -> dict[str, object]:
    groups = []
    for group in PROFILE_GROUPS:
        cues = facts["cues"].get(group, {})
        groups.append(
            {
                "group": group,
                "found": sum(cues.values()),
                "total": len(cues),
                "missing": (missing := [cue for cue, is_there in cues.items() if not is_there]),
                "said": [LACK_WORDS.get(cue, f"no {cue}") for cue in missing],
            }
        )
    return {**facts, "groups": groups}


def read_diagnoses(episode: Episode) -> dict[int, LibraryDiagnosis]:
    """Snapshot pk -> what the rules found in it."""
    found = LibraryDiagnosis.objects.filter(episode=episode)
    return once_for(episode.run, ("diagnoses", episode.pk), lambda: {each.snapshot_id: each for each in found})


def open_findings(run: Run, episode: Episode, query: Mapping[str, str], closed: QuerySet[Trial]) -> FindingsPage:
    """The page for a query string. Nonsense falls back: to the last state, and to all groups."""
    rail = open_rail(run, episode)
    diagnoses = read_diagnoses(episode)
    group = query.get("group", "")
    return FindingsPage(
        run, episode, rail, rail.round(query.get("round", "")), diagnoses, group if group in GROUPS else "", closed
    )


def read_findings_on(page: Page[LibraryFinding], of: FindingsPage) -> list[ShownFinding]:
    """The findings of one page with their lines: two queries, whatever their number."""
    findings = list(page)
    wanted = {finding.path for finding in findings}
    files = SnapshotFile.objects.filter(snapshot=of.state.snapshot, path__in=wanted, size__lte=MAX_CONTEXT_BYTES)
    blobs = dict(files.values_list("path", "blob"))
    contents = Blob.objects.read_many([*blobs.values(), ""])
    texts = {path: read_text(contents[blob]) for path, blob in blobs.items() if not has_nul(contents[blob])}
    return [
        ShownFinding(
            finding,
            RULES.get(finding.rule),
            _cut_lines(texts[finding.path], finding) if finding.line and finding.path in texts else (),
            file_url(of, finding),
        )
        for finding in findings
    ]


def file_url(of: FindingsPage, finding: LibraryFinding) -> str:
    query = {
        "episode": str(of.episode.public_id),
        "from": of.state.key,
        "to": of.state.key,
        "file": finding.path,
        "view": "source",
    }
    anchor = f"#f0-R{finding.line}" if finding.line else ""
    return f"{reverse('library', args=[of.run.public_id])}?{urlencode(query)}{anchor}"


def _cut_lines(text: str, finding: LibraryFinding) -> tuple[FindingLine, ...]:
    lines = text.split("\n")
    first = max(1, finding.line - AROUND)
    start = sum(len(line) + 1 for line in lines[: first - 1])
    found: list[FindingLine] = []
    for number in range(first, len(lines) + 1):
        line = lines[number - 1]
        if (start > finding.end and number > finding.line) and len(found) and _is_past(found, finding, number):
            break
        if len(found) >= MAX_LINES + 2 * AROUND:
            break
        found.append(FindingLine(number, _cut_pieces(line, finding.start - start, finding.end - start)))
        start += len(line) + 1
    return tuple(found)


def _is_past(found: Sequence[FindingLine], finding: LibraryFinding, number: int) -> bool:
    """One line after the last that holds a piece of the span."""
    last = max((line.number for line in found if any(marked for _, marked in line.pieces)), default=finding.line)
    return number > last + AROUND


def _cut_pieces(line: str, start: int, end: int) -> tuple[tuple[str, bool], ...]:
    """The line in up to three pieces, cut around the span where it is long."""
    start, end = max(0, min(start, len(line))), max(0, min(end, len(line)))
    start += len(line[start:end]) - len(line[start:end].lstrip())  # of an indented line the words are marked
    left = max(0, min(start, len(line) - MAX_COLUMNS) - 40) if len(line) > MAX_COLUMNS else 0
    right = min(len(line), left + MAX_COLUMNS)
    end = min(end, right)
    pieces = (
        ("…" if left else "", False),
        (line[left:start], False),
        (line[start:end], True),
        (line[end:right] if end >= start else "", False),
        ("…" if right < len(line) else "", False),
    )
    return tuple((visible(text), marked) for text, marked in pieces if text)
