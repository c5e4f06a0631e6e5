"""`/runs/<id>/library/blame/`: who wrote each line of a skill, from what,
and how the later trials ended that had it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse

from benchapp.analysis.lineage.attribution import (
    LedgerRow,
    count_later_trials,
    count_ledger_row,
    list_trials_with_line,
)
from benchapp.analysis.lineage.library_states import LibraryState
from benchapp.analysis.lineage.line_history import Lineage, TracedLine
from benchapp.analysis.lineage.word_overlap import WordOverlap, find_overlaps
from benchapp.experiments.probe_results import ProbeResult
from benchapp.models import Decision, Episode, Run, Trial
from benchapp.record.json_shape import JsonShape
from benchapp.record.textual_change import Move, is_binary
from inspector.pages.library.changes import FileChange, build_tree, compare_versions, read_contents, read_versions
from inspector.pages.library.probe import RESULT, read_probes_about, read_probes_by_decision
from inspector.pages.library.rail import LibraryCourse, RailStop, ShownTrial, choose_episode, read_evidence
from inspector.reader.compactions import Segment
from inspector.web.responses import PageLink, link_to, render_page
from inspector.web.subject import find_neighbours, head_of, of_run, once_for
from inspector.web.text.diff import DiffRow, draw_source_rows, explain_no_rows
from inspector.web.text.row_shapes import RUN_HEAD
from runner.base.text import parse_count

TEMPLATE = "library/blame.html"
MAX_ROWS = 1_200  # lines of one page
AGES = 5  # shades, the newest first


class LineOrigin:
    """A state that lines of the file come from, with the later trials that had any of its lines of this file. `stop`:
    what made it; None for the library at the start. `age`: its place among the states of the file, newest first.

    `rounds_ago`: states between it and the one shown; `shade`: from 0, the newest, to AGES - 1.
    """

    def __init__(self, file: BlamedFile, born: int, age: int) -> None:
        course, traced = file.course, file.course.lineage.blame
        lines = zip(traced.states[file.place][file.path], file.borns, strict=True)
        numbers = [line for line, at in lines if at == born]
        whole = TracedLine(born, max(traced.lines[number].last for number in numbers))
        self.place, self.state, self.lines = born, course.rail.states[born], len(numbers)
        self.stop = stop = course.rail.find_maker(self.state)
        self.decision, self.word = stop.decision if stop else None, stop.word if stop else "Library at the start"
        self.first_line, self.rounds_ago = file.borns.index(born) + 1, file.place - born
        self.shade = min(age, AGES - 1)
        had_it = list_trials_with_line(course.lineage, file.place, file.path, whole)
        self.later = count_later_trials(had_it, course.baseline)


class LineSpan:
    """Consecutive lines of one origin."""

    def __init__(self, origin: LineOrigin, rows: Sequence[DiffRow], *, is_chosen: bool) -> None:
        self.origin, self.rows, self.is_chosen = origin, rows, is_chosen
        self.first, self.last = rows[0].new or 0, rows[-1].new or 0


@dataclass(frozen=True, slots=True)
class Likeness:
    """A step of the evidence that uses words of the chosen line."""

    trial: Trial
    segment: Segment
    overlap: WordOverlap


class BlamedFile:
    """A file of the library in the state at this place, line by line. `borns`: the state that each line was written in.
    `note`: why it has no lines."""

    def __init__(self, course: LibraryCourse, place: int, path: str, files: Sequence[FileChange]) -> None:
        self.course, self.place, self.path = course, place, path
        self.rows, self.note = _read_rows(files, path, course.lineage)
        self.borns: Sequence[int] = course.lineage.blame.origins(place, path) if self.rows else ()
        newest_first = sorted(set(self.borns), reverse=True)
        self.origins = {born: LineOrigin(self, born, age) for age, born in enumerate(newest_first)}

    def join_spans(self, number: int) -> list[LineSpan]:
        """Return the lines of the page in spans of one origin. `number`: of the line asked for."""
        spans, start = [], 0
        rows = self.rows[:MAX_ROWS]
        for end in range(1, len(rows) + 1):
            if end == len(rows) or self.borns[end] != self.borns[start]:
                is_chosen = start < number <= end
                spans.append(LineSpan(self.origins[self.borns[start]], rows[start:end], is_chosen=is_chosen))
                start = end
        return spans

    def list_moves(self) -> list[tuple[LibraryState, Move]]:
        """Return the moves up to this state, newest first."""
        if not self.path or self.course.lineage.too_big:
            return []
        traced = self.course.lineage.blame
        steps = sorted(traced.paths(self.place, self.path).items(), reverse=True)
        return [
            (self.course.rail.states[state], traced.moves[state][where])
            for state, where in steps
            if state <= self.place and where in traced.moves[state]
        ]


class ChosenLine:
    """The line a reader asks about: who wrote it, from what, and how the later trials that had it ended.

    `first`, `last`, `length`: of the lines around it that came with it. `stands_until`: the last state that has it;
    None where the library still does. `probes`: about the decision that wrote it.
    """

    def __init__(self, file: BlamedFile, number: int) -> None:
        course, borns = file.course, file.borns
        traced, states = course.lineage.blame, course.rail.states
        line = traced.lines[traced.states[file.place][file.path][number - 1]]
        self.number, self.text = number, file.rows[number - 1].text
        self.origin = origin = file.origins[line.born]
        self.first = self.last = number
        while self.first > 1 and borns[self.first - 2] == line.born:
            self.first -= 1
        while self.last < len(borns) and borns[self.last] == line.born:
            self.last += 1
        self.length = self.last - self.first + 1
        self.stands_until = None if line.last == len(states) - 1 else states[line.last]
        had_it = list_trials_with_line(course.lineage, file.place, file.path, line)
        self.later = count_later_trials(had_it, course.baseline)
        family = origin.stop.family if origin.stop else None
        self.ledger = count_ledger_row(course.lineage, line.born, family, course.baseline)
        self.probes = read_probes_about(origin.decision)
        self.evidence = read_evidence(origin.decision) if origin.decision else []
        self.alike = _find_alike(self.text, self.evidence)


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One change of the library: what went along with it, and the probes that put it to the test."""

    stop: RailStop
    row: LedgerRow
    probes: tuple[ProbeResult, ...]


@of_run
def blame(request: HttpRequest, run: Run, *, as_json: bool = False) -> HttpResponse:
    """Show the file, state and line that the address names. Nonsense falls back to a page that exists."""
    query = request.GET
    episodes, episode = choose_episode(run, query.get("episode", ""))
    data: dict[str, object] = {"run": RUN_HEAD.read(run), "episode": episode}
    context = head_of(run, episodes, episode)
    if episode is None:
        return render_page(request, TEMPLATE, data=data, context=context, as_json=as_json)
    course = LibraryCourse(run, episode)
    rail = course.rail
    state = rail.round(query.get("at", ""))
    place = rail.states.index(state)
    (versions,) = read_versions(state.snapshot)
    files = compare_versions(versions, versions)
    path, missing = _choose_path(files, query.get("skill", ""), query.get("file", ""))
    file = BlamedFile(course, place, path, files)
    newest_first = sorted(file.origins.values(), key=lambda origin: -origin.place)
    number = 0 if missing else parse_count(query.get("line", ""), len(file.rows)) or 0
    spans, moves = file.join_spans(number), file.list_moves()
    rows_left_out = max(0, len(file.rows) - MAX_ROWS)
    chosen = ChosenLine(file, number) if number else None
    ledger = [] if number else _build_ledger(episode, course)
    if as_json:
        data |= {
            "at": state.key,
            "states": [each.key for each in rail.states],
            "files": [change.path for change in files],
            "file": path or None,
            "not_there": missing or None,
            "note": file.note or None,
            "moves": [{"at": at.key, "from": move.old, "to": move.new, "alike": move.alike} for at, move in moves],
            "origins": [_origin_twin(episode, origin) for origin in newest_first],
            "spans": SPAN.read_all(spans),
            "lines": [row.text for span in spans for row in span.rows],
            "lines_left_out": rows_left_out,
            "ledger": LEDGER.read_all(ledger),
            "line": LINE.read(chosen) if chosen else None,
        }
        return render_page(request, TEMPLATE, data=data, as_json=True)
    previous, following = find_neighbours(rail.states, state)
    context["shades"] = range(AGES)
    context["blamed"] = {
        "rail": rail,
        "state": state,
        "previous": previous,
        "following": following,
        "files": files,
        "tree": build_tree(files),
        "path": path,
        "skill": path.partition("/")[0],
        "missing": missing,
        "note": file.note,
        "origins": newest_first,
        "lines_total": sum(origin.lines for origin in newest_first),
        "spans": spans,
        "rows_left_out": rows_left_out,
        "moves": moves,
        "chosen": chosen,
        "ledger": ledger,
        "has_probes": any(entry.probes for entry in ledger),
        "is_beside": bool(course.baseline),  # whether this experiment has no-skill trials of these tasks
    }
    return render_page(request, TEMPLATE, context=context)


def find_line(episode: Episode, decision: Decision, at: str, path: str, text: str) -> ChosenLine | None:
    """Return the first line of this text that the decision wrote, in the state `at`. None where it is gone."""
    course = LibraryCourse(episode.run, episode)
    state = course.rail.round(at)
    (versions,) = read_versions(state.snapshot)
    if path not in versions:
        return None
    file = BlamedFile(course, course.rail.states.index(state), path, compare_versions(versions, versions))
    for row, born in zip(file.rows[:MAX_ROWS], file.borns, strict=False):
        if row.new and row.text == text and file.origins[born].decision == decision:
            return ChosenLine(file, row.new)
    return None


def _build_ledger(episode: Episode, course: LibraryCourse) -> list[LedgerEntry]:
    """Return one row for every stop that changed the library, the latest first."""
    if course.lineage.too_big:
        return []
    probes = once_for(episode.run, ("probes", episode.pk), lambda: read_probes_by_decision(episode))
    return [
        LedgerEntry(stop, row, tuple(probes.get(stop.decision.pk, ())) if stop.decision else ())
        for stop in reversed(course.rail.stops)
        if (row := course.ledger_of(stop))
    ]


def _choose_path(files: Sequence[FileChange], skill: str, file: str) -> tuple[str, str]:
    """Return (path, what of the query is missing). `file` is a path of the library, or of the folder that `skill`
    names; else it is the folder's SKILL.md or first file; else the library's."""
    paths = [change.path for change in files]
    for wanted in (f"{skill}/{file}", file):
        if file and wanted in paths:
            return wanted, ""
    folder = [path for path in paths if skill and path.startswith(f"{skill}/")]
    shown = sorted(folder or paths, key=lambda path: not path.endswith("/SKILL.md"))
    return shown[0] if shown else "", file or ("" if folder else skill)


def _read_rows(files: Sequence[FileChange], path: str, lineage: Lineage) -> tuple[tuple[DiffRow, ...], str]:
    """Return the lines of the file, or why there are none."""
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


def _find_alike(line: str, evidence: Sequence[ShownTrial]) -> list[Likeness]:
    found = []
    for shown in evidence:
        segments = {one.step: one for one in shown.excerpt.segments if one.step} if shown.excerpt else {}
        texts = [(step, "".join(text for text, _ in segment.pieces)) for step, segment in segments.items()]
        found += [Likeness(shown.trial, segments[one.step], one) for one in find_overlaps(line, texts)]
    return sorted(found, key=lambda one: -len(one.overlap.shared))[:4]


# --- the twin -------------------------------------------------------------------------------------------------------


def _origin_twin(episode: Episode, origin: LineOrigin) -> dict[str, object]:
    decision = origin.decision
    made_by = None
    if decision is not None:
        address = {"episode": episode.public_id, "decision": decision.number}
        made_by = {**DECISION.read(decision), "url": PageLink("library-json", episode.run.public_id, **address)}
    return {"state": origin.state.key, "word": origin.word, "decision": made_by, **COUNTED.read(origin)}


DECISION = JsonShape("id=public_id number operation_type summary")
COUNTED = JsonShape("lines rounds_ago later_trials=later")
SPAN = JsonShape("first last origin=origin.state.key")
LEDGER = JsonShape("state=stop.after.key *row", ("probes", lambda entry: RESULT.read_all(entry.probes)))
EVIDENCE = JsonShape(
    *("trial", link_to("trial-json", "trial.public_id")),
    ("steps", lambda shown: shown.excerpt and [one.step for one in shown.excerpt.segments if one.step]),
)
OVERLAP = JsonShape("trial step=overlap.step shared_words=overlap.shared words=overlap.words")
LINE = JsonShape(
    "number text",
    ("written_with", lambda line: [line.first, line.last]),
    "origin=origin.state.key stands_until=stands_until.key later_trials=later ledger",
    ("probes", lambda line: RESULT.read_all(line.probes)),
    ("evidence", lambda line: EVIDENCE.read_all(line.evidence)),
    ("by_overlap", lambda line: OVERLAP.read_all(line.alike)),
)
