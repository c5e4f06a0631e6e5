"""Everything the blame page shows for one address: a file of a library at one state, and where each of its lines is from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchapp.analysis.lineage.attribution import (
    LaterTrials,
    LedgerRow,
    count_later_trials,
    count_ledger_row,
    list_trials_with_lines,
)
from benchapp.analysis.lineage.library_states import LibraryState
from benchapp.analysis.lineage.line_history import Lineage
from benchapp.analysis.lineage.word_overlap import WordOverlap, find_overlaps
from benchapp.experiments.probe_results import ProbeResult
from benchapp.models import Decision, Episode, Run, Trial
from benchapp.record.line_matching import Move
from benchapp.record.textual_change import is_binary
from inspector.pages.library.changes import (
    FileChange,
    TreeRow,
    build_tree,
    compare_versions,
    read_contents,
    read_versions,
)
from inspector.pages.library.probe import read_probes_about, read_probes_by_decision
from inspector.pages.library.rail import LibraryCourse, Rail, RailStop, ShownTrial, open_course, read_evidence
from inspector.web.subject import find_neighbours, once_for
from inspector.web.text.diff import DiffRow, draw_source_rows, explain_no_rows
from inspector.web.text.excerpt import Segment

MAX_ROWS = 1_200  # lines of one page
AGES = 5  # shades, the newest first


@dataclass(frozen=True, slots=True)
class LineOrigin:
    """A state that lines of the file come from. `stop`: what made it; None for what was there at the start.

    `rounds_ago`: states between it and the one shown; `shade`: from 0, the newest, to AGES - 1.
    """

    place: int
    state: LibraryState
    stop: RailStop | None
    lines: int
    first_line: int
    rounds_ago: int
    shade: int
    later: LaterTrials

    @property
    def decision(self) -> Decision | None:
        return self.stop.decision if self.stop else None

    @property
    def word(self) -> str:
        return self.stop.word if self.stop else "Library at the start"


@dataclass(frozen=True, slots=True)
class LineSpan:
    """Consecutive lines of one origin."""

    origin: LineOrigin
    rows: tuple[DiffRow, ...]
    is_chosen: bool

    @property
    def first(self) -> int:
        return self.rows[0].new or 0

    @property
    def last(self) -> int:
        return self.rows[-1].new or 0


@dataclass(frozen=True, slots=True)
class Likeness:
    """A step of the evidence that uses words of the chosen line."""

    trial: Trial
    segment: Segment
    overlap: WordOverlap


@dataclass(frozen=True, slots=True)
class ChosenLine:
    """The line a reader asks about: who wrote it, from what, and what became of the later trials that had it."""

    number: int
    text: str
    first: int  # of the lines around it that came with it
    last: int
    origin: LineOrigin
    stands_until: LibraryState | None  # the last state that has it; None where the library still does
    later: LaterTrials
    ledger: LedgerRow
    probes: tuple[ProbeResult, ...]  # about the decision that wrote it
    evidence: tuple[ShownTrial, ...]
    alike: tuple[Likeness, ...]

    @property
    def length(self) -> int:
        """Of the lines around it that came with it."""
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One change of the library: what went along with it, and the probes that put it to the test."""

    stop: RailStop
    row: LedgerRow
    probes: tuple[ProbeResult, ...]


@dataclass(frozen=True, slots=True)
class BlamedFile:
    """`note`: why there are no lines. `moves`: (state, move), each a rename of the file."""

    episode: Episode
    rail: Rail
    state: LibraryState
    place: int
    files: tuple[FileChange, ...]
    path: str
    missing: str  # the skill or file of the query that is not in this state: `path` is another one
    note: str
    origins: tuple[LineOrigin, ...]
    spans: tuple[LineSpan, ...]
    rows_left_out: int
    moves: tuple[tuple[LibraryState, Move], ...]
    chosen: ChosenLine | None
    ledger: tuple[LedgerEntry, ...]  # of every change of the library, the latest first; none beside a chosen line
    is_beside: bool  # whether this experiment has no-skill trials of these tasks

    @property
    def tree(self) -> list[TreeRow]:
        return build_tree(self.files)

    @property
    def lines_total(self) -> int:
        return sum(origin.lines for origin in self.origins)

    @property
    def has_probes(self) -> bool:
        return any(entry.probes for entry in self.ledger)

    @property
    def skill(self) -> str:
        return self.path.partition("/")[0]

    @property
    def previous(self) -> LibraryState | None:
        return find_neighbours(self.rail.states, self.state)[0]

    @property
    def following(self) -> LibraryState | None:
        return find_neighbours(self.rail.states, self.state)[1]


def open_blame(run: Run, episode: Episode, query: Mapping[str, str]) -> BlamedFile:
    """Opens the page for a query string. Nonsense in it falls back to a page that exists."""
    course = open_course(run, episode)
    rail, lineage = course.rail, course.lineage
    state = rail.round(query.get("at", ""))
    place = rail.states.index(state)
    (versions,) = read_versions(state.snapshot)
    files = compare_versions(versions, versions)
    path, missing = _choose_path(files, query.get("skill", ""), query.get("file", ""))
    rows, note = _read_rows(files, path, lineage)
    origins = _trace_origins(course, place, path) if rows else {}
    number = 0 if missing else _parse_number(query.get("line", ""), len(rows))
    return BlamedFile(
        episode=episode,
        rail=rail,
        state=state,
        place=place,
        files=tuple(files),
        path=path,
        missing=missing,
        note=note,
        origins=tuple(sorted(origins.values(), key=lambda origin: -origin.place)),
        spans=tuple(_join_spans(rows[:MAX_ROWS], lineage.blame.origins(place, path), origins, number)) if rows else (),
        rows_left_out=max(0, len(rows) - MAX_ROWS),
        moves=_list_moves(course, place, path),
        chosen=_read_line(course, place, path, rows, origins, number) if rows and number else None,
        ledger=() if number else _build_ledger(episode, course),
        is_beside=bool(course.baseline),
    )


def _build_ledger(episode: Episode, course: LibraryCourse) -> tuple[LedgerEntry, ...]:
    """One row for every stop that changed the library, the latest first."""
    if course.lineage.too_big:
        return ()
    probes = once_for(episode.run, ("probes", episode.pk), lambda: read_probes_by_decision(episode))
    return tuple(
        LedgerEntry(stop, row, tuple(probes.get(stop.decision.pk, ())) if stop.decision else ())
        for stop in reversed(course.rail.stops)
        if (row := course.ledger_of(stop))
    )


def _choose_path(files: Sequence[FileChange], skill: str, file: str) -> tuple[str, str]:
    """(path, what of the query is missing). `file` is a path of the library, or of the folder that `skill` names;
    else it is the folder's SKILL.md or first file; else the library's."""
    paths = [change.path for change in files]
    for wanted in (f"{skill}/{file}", file):
        if file and wanted in paths:
            return wanted, ""
    folder = [path for path in paths if skill and path.startswith(f"{skill}/")]
    shown = sorted(folder or paths, key=lambda path: not path.endswith("/SKILL.md"))
    return shown[0] if shown else "", file or ("" if folder else skill)


def _read_rows(files: Sequence[FileChange], path: str, lineage: Lineage) -> tuple[tuple[DiffRow, ...], str]:
    """The lines of the file, or why there are none."""
    if not path:
        return (), "The library is empty."
    if lineage.too_big:
        return (), f"This library is too big to trace line by line: {lineage.too_big:,} bytes in all its states."
    version = next(change.latest for change in files if change.path == path)
    content = read_contents([version])[version.digest]
    if is_binary(content):
        return (), f"Binary file, {len(content):,} bytes: it has no lines."
    rows = draw_source_rows(path, content)
    return rows, "" if rows else explain_no_rows(content)


def _parse_number(asked: str, lines: int) -> int:
    """A line number of the file, 0 for none."""
    return int(asked) if asked.isascii() and asked.isdigit() and len(asked) < 8 and 0 < int(asked) <= lines else 0


def _trace_origins(course: LibraryCourse, place: int, path: str) -> dict[int, LineOrigin]:
    """state a line was written in -> its origin. Later trials are those that had any of its lines of this file."""
    found = {}
    rail, traced = course.rail, course.lineage.blame
    borns = traced.origins(place, path)
    newest_first = sorted(set(borns), reverse=True)
    for born in newest_first:
        numbers = [line for line, at in zip(traced.states[place][path], borns, strict=True) if at == born]
        last = max(traced.lines[number].last for number in numbers)
        found[born] = LineOrigin(
            place=born,
            state=rail.states[born],
            stop=rail.find_maker(rail.states[born]),
            lines=len(numbers),
            first_line=borns.index(born) + 1,
            rounds_ago=place - born,
            shade=min(newest_first.index(born), AGES - 1),
            later=_attribute_later(course, place, path, born, last),
        )
    return found


def _attribute_later(course: LibraryCourse, place: int, path: str, born: int, last: int) -> LaterTrials:
    """The trials given a state from `born` to `last`, and whether they read the skill as it was called then."""
    names = course.lineage.blame.paths(place, path)

    def standing(state: int) -> frozenset[str]:
        return frozenset([names[state].partition("/")[0]]) if born <= state <= last else frozenset()

    return count_later_trials(list_trials_with_lines(course.lineage, standing, born=born), course.baseline)


def _join_spans(
    rows: Sequence[DiffRow], borns: Sequence[int], origins: Mapping[int, LineOrigin], number: int
) -> list[LineSpan]:
    spans, start = [], 0
    for end in range(1, len(rows) + 1):
        if end == len(rows) or borns[end] != borns[start]:
            spans.append(LineSpan(origins[borns[start]], tuple(rows[start:end]), start < number <= end))
            start = end
    return spans


def _list_moves(course: LibraryCourse, place: int, path: str) -> tuple[tuple[LibraryState, Move], ...]:
    """The moves up to this state, newest first."""
    if not path or course.lineage.too_big:
        return ()
    traced = course.lineage.blame
    steps = traced.paths(place, path)
    return tuple(
        (course.rail.states[state], traced.moves[state][where])
        for state, where in sorted(steps.items(), reverse=True)
        if state <= place and where in traced.moves[state]
    )


def _read_line(
    course: LibraryCourse,
    place: int,
    path: str,
    rows: Sequence[DiffRow],
    origins: Mapping[int, LineOrigin],
    number: int,
) -> ChosenLine:
    traced, states = course.lineage.blame, course.rail.states
    borns = traced.origins(place, path)
    line = traced.lines[traced.states[place][path][number - 1]]
    origin = origins[line.born]
    first = last = number
    while first > 1 and borns[first - 2] == line.born:
        first -= 1
    while last < len(borns) and borns[last] == line.born:
        last += 1
    evidence = read_evidence(origin.decision) if origin.decision else []
    text = rows[number - 1].text
    return ChosenLine(
        number=number,
        text=text,
        first=first,
        last=last,
        origin=origin,
        stands_until=None if line.last == len(states) - 1 else states[line.last],
        later=_attribute_later(course, place, path, line.born, line.last),
        ledger=count_ledger_row(
            course.lineage, line.born, origin.stop.family if origin.stop else None, course.baseline
        ),
        probes=tuple(read_probes_about(origin.decision)),
        evidence=tuple(evidence),
        alike=tuple(_find_alike(text, evidence)),
    )


def _find_alike(line: str, evidence: Sequence[ShownTrial]) -> list[Likeness]:
    found = []
    for shown in evidence:
        segments = {one.step: one for one in shown.excerpt.segments if one.step} if shown.excerpt else {}
        texts = [(step, "".join(text for text, _ in segment.pieces)) for step, segment in segments.items()]
        found += [Likeness(shown.trial, segments[one.step], one) for one in find_overlaps(line, texts)]
    return sorted(found, key=lambda one: -len(one.overlap.shared))[:4]
