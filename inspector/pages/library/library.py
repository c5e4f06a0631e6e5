"""Everything the library page shows for one address: an episode, two states of its library, and why they differ.

Without a choice in the address it opens on the change that says most (`LibraryCourse.find_telling`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchapp.analysis.lineage.attribution import LedgerRow
from benchapp.models import Decision, Episode, Run
from benchapp.record.textual_change import is_binary
from benchapp.record.visible import one_line
from inspector.evolution.decision_words import write_summary
from inspector.evolution.strip import Strip, link_to_pages, open_timeline
from inspector.evolution.strip_drawing import draw_strip
from inspector.pages.library.between import LibraryRange, list_range
from inspector.pages.library.changes import (
    PAGE_FILES,
    FileChange,
    ShownFile,
    TreeRow,
    build_tree,
    draw_changes,
    read_changes,
    read_contents,
)
from inspector.pages.library.gutter import add_gutters
from inspector.pages.library.rail import (
    LibraryCourse,
    Rail,
    RailStop,
    Selection,
    ShownTrial,
    TellingStop,
    Users,
    find_stops_beside,
    open_course,
    read_evidence,
    read_verdict_seen,
    select,
)
from inspector.pages.trials.verdict import VerdictView
from inspector.web.subject import once_for
from inspector.web.text.diff import DiffRow, draw_source_rows, explain_no_rows
from inspector.web.text.markdown import MAX_CHARS, cut_lines, render_markdown, split_frontmatter
from inspector.web.text.visible import visible
from runner.base.types import DecisionStatus

VIEWS = ("unified", "split", "rendered", "source")
TABS = ("why", "trajectory", "verdict", "users")
SOURCE_ROWS = 1_500
MAX_HEADING = 120  # characters


@dataclass(frozen=True, slots=True)
class DrawnDocument:
    """One file at the later state, whole: as rows of source or as drawn Markdown. `note`: why there is neither."""

    change: FileChange
    rows: tuple[DiffRow, ...] = ()
    rows_left_out: int = 0
    frontmatter: str = ""
    html: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class TimeMachine:
    """`is_proposal`: the later side is what a refused patch asked for; the library never was like that."""

    episode: Episode
    rail: Rail
    selection: Selection
    view: str
    tab: str
    changes: tuple[FileChange, ...]
    chosen: FileChange | None
    missing: str  # the file of the query that is in neither state
    is_proposal: bool
    files: tuple[ShownFile, ...]
    files_left_out: int
    document: DrawnDocument | None
    evidence: tuple[ShownTrial, ...]
    verdict: VerdictView | None
    users: Users | None
    ledger: LedgerRow | None  # of the stop, where it changed the library
    is_beside: bool  # whether this experiment has no-skill trials of these tasks
    reply: str  # the author's answer as it came, where no patch could be read from it
    previous: RailStop | None
    following: RailStop | None
    strip: Strip | None  # None where the episode's trials have no order
    telling: TellingStop | None  # the change that the page opens on
    between: LibraryRange | None  # where several decisions lie between the two states

    @property
    def heading(self) -> str:
        """What the page shows, in a sentence: the author's own where there is one."""
        decision, selection = self.decision, self.selection
        if decision:
            word = selection.stop.word if selection.stop else ""
            return one_line(write_summary(decision), MAX_HEADING) or f"Decision {decision.number}: {word.lower()}"
        if self.between:
            count, ends = self.between.standing, f"{selection.before.key} → {selection.after.key}"
            return f"{ends}: {count} decision{'' if count == 1 else 's'} wrote the text at {selection.after.key}"
        if selection.stop and selection.stop.seeding:
            return selection.stop.word
        return selection.after.title if self.files_total else "The library is empty"

    @property
    def is_opened_by_rule(self) -> bool:
        """Does the page show the change it opens on?"""
        return self.telling is not None and self.telling.stop == self.selection.stop

    @property
    def lines(self) -> tuple[int, int]:
        """(added, removed): what the record counted for a decision that is shown whole, else of the files drawn."""
        if self.decision and not self.is_proposal and len(self.files) == len(self.changed):
            return self.decision.lines_added, self.decision.lines_removed
        return sum(shown.diff.added for shown in self.files), sum(shown.diff.removed for shown in self.files)

    @property
    def changed(self) -> list[FileChange]:
        return [change for change in self.changes if change.status]

    @property
    def tree(self) -> list[TreeRow]:
        return build_tree(self.changes)

    @property
    def skills_total(self) -> int:
        return sum(change.path.endswith("/SKILL.md") and change.new is not None for change in self.changes)

    @property
    def files_total(self) -> int:
        return sum(change.new is not None for change in self.changes)

    @property
    def decision(self) -> Decision | None:
        return self.selection.decision

    @property
    def decisions_total(self) -> int:
        return sum(stop.decision is not None for stop in self.rail.stops)


def open_time_machine(run: Run, episode: Episode, query: Mapping[str, str]) -> TimeMachine:
    """Opens the page for a query string. Nonsense in it falls back to a page that exists."""
    course = open_course(run, episode)
    telling = course.find_telling()
    rail, selection = course.rail, _select(course.rail, query, telling)
    changes, is_proposal = _read_selected(selection)
    asked = query.get("file", "")
    chosen = _find_change(changes, asked)
    changed = [change for change in changes if change.status]
    view = query.get("view", "")
    if view not in VIEWS:
        view = "rendered" if selection.is_one_state and not is_proposal else "unified"
    shown = _choose_files(changed, chosen, view)
    document = _draw_document(chosen or _choose_first(changed or changes), view) if not shown else None
    decision = selection.decision
    previous, following = find_stops_beside(rail, selection)
    tab = query.get("tab", "")
    text = None if is_proposal else chosen or _choose_first(changed or changes)  # a refused patch was never mounted
    drawn = draw_changes(shown, whole=chosen is not None)
    return TimeMachine(
        episode=episode,
        rail=rail,
        selection=selection,
        view=view,
        tab=tab if tab in TABS else "why",
        changes=tuple(changes),
        chosen=chosen or (document.change if document else None),
        missing="" if chosen else asked,
        is_proposal=is_proposal,
        files=tuple(drawn if is_proposal else add_gutters(course, selection, drawn)),
        files_left_out=max(0, len(shown) - PAGE_FILES),
        document=document,
        evidence=once_for(run, ("evidence", decision.pk), lambda: tuple(read_evidence(decision))) if decision else (),
        verdict=once_for(run, ("verdict", decision.pk), lambda: read_verdict_seen(decision)) if decision else None,
        users=course.users_of(text, selection.stop) if text else None,
        ledger=course.ledger_of(selection.stop),
        is_beside=bool(course.baseline),
        reply=visible(decision.read_reply()) if decision and decision.status == DecisionStatus.FAILED else "",
        previous=previous,
        following=following,
        strip=_open_strip(run, episode, course, selection),
        telling=telling,
        between=_list_between(course, selection, text),
    )


def _open_strip(run: Run, episode: Episode, course: LibraryCourse, selection: Selection) -> Strip | None:
    if not episode.is_ordered or len(course.rail.stops) < 2:
        return None
    timeline, stop = open_timeline(run, episode, course.history), selection.stop
    trial = selection.decision.after_trial if selection.decision else None
    here = frozenset([stop.key if stop else "", str(trial.public_id) if trial else ""]) - {""}
    place = f"decision {selection.decision.number} of {timeline.decisions_total}" if selection.decision else ""
    band = None
    if stop is None and not selection.is_one_state and (inside := course.list_between(selection)):
        band = (inside[0].key, inside[-1].key)
        place = f"{selection.before.key} → {selection.after.key}"
    return Strip(timeline, draw_strip(timeline, link_to_pages(run, episode), here=here, band=band), place)


def _list_between(course: LibraryCourse, selection: Selection, text: FileChange | None) -> LibraryRange | None:
    if selection.stop or selection.is_one_state or course.lineage.too_big:
        return None
    return list_range(course, selection, text.path if text else "")


def find_chosen_file(episode: Episode, run: Run, query: Mapping[str, str]) -> FileChange | None:
    """The file that a query string names, in the states it names; None where neither has it."""
    course = open_course(run, episode)
    changes, _ = _read_selected(_select(course.rail, query, course.find_telling()))
    return _find_change(changes, query.get("file", ""))


def _select(rail: Rail, query: Mapping[str, str], telling: TellingStop | None) -> Selection:
    opens = telling.stop if telling else None
    return select(rail, decision=query.get("decision"), start=query.get("from"), end=query.get("to"), opens=opens)


def _find_change(changes: Sequence[FileChange], path: str) -> FileChange | None:
    return next((change for change in changes if path in (change.path, change.renamed_from)), None) if path else None


def _read_selected(selection: Selection) -> tuple[list[FileChange], bool]:
    return read_changes(selection.before.snapshot, selection.after.snapshot, selection.decision)


def _choose_first(changes: Sequence[FileChange]) -> FileChange | None:
    """Where reading starts: the first SKILL.md, else the first file."""
    skills = (change for change in changes if change.path.endswith("/SKILL.md"))
    return next(skills, None) or next(iter(changes), None)


def _choose_files(changed: Sequence[FileChange], chosen: FileChange | None, view: str) -> Sequence[FileChange]:
    """The files drawn as differences; none where one is drawn whole instead."""
    if view in ("rendered", "source"):
        return ()
    if chosen is not None:
        return (chosen,) if chosen.status else ()
    return changed


def _draw_document(change: FileChange | None, view: str) -> DrawnDocument | None:
    if change is None:
        return None
    content = read_contents([change.latest])[change.latest.digest]
    if is_binary(content):
        return DrawnDocument(change, note=f"Binary file, {len(content):,} bytes, not shown.")
    if view == "rendered" and change.path.endswith((".md", ".markdown")):
        frontmatter, body = split_frontmatter(content.decode())
        note = f"Rendered are the first {MAX_CHARS:,} of {len(body):,} characters." if len(body) > MAX_CHARS else ""
        return DrawnDocument(change, frontmatter=visible(cut_lines(frontmatter)), html=render_markdown(body), note=note)
    rows = draw_source_rows(change.path, content)
    note = "" if rows else explain_no_rows(content)
    return DrawnDocument(change, rows[:SOURCE_ROWS], max(0, len(rows) - SOURCE_ROWS), note=note)
