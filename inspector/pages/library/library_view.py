"""`/runs/<id>/library/`, the time machine: what the skills became, when, and why.

Without a choice in the address it opens on the change that says most (`LibraryCourse.find_telling`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from django.http import Http404, HttpRequest, HttpResponse

from benchapp.analysis.lineage.session_versions import SeeingSession, SkillSessions, read_sessions
from benchapp.models import Episode, Run
from benchapp.record.json_shape import JsonShape
from benchapp.record.textual_change import is_binary
from benchapp.record.visible import one_line, visible
from inspector.evolution.decision_words import write_summary
from inspector.evolution.strip import Strip, link_to_pages, open_timeline
from inspector.evolution.strip_drawing import draw_strip
from inspector.pages.library.between import LibraryRange, add_gutters
from inspector.pages.library.changes import (
    PAGE_FILES,
    FileChange,
    ShownFile,
    build_tree,
    draw_changes,
    read_changes,
    read_contents,
)
from inspector.pages.library.findings_view import read_diagnoses
from inspector.pages.library.probe import RESULT, read_probes_about
from inspector.pages.library.rail import (
    LibraryCourse,
    Rail,
    Selection,
    ShownTrial,
    TellingStop,
    choose_episode,
    find_stops_beside,
    read_evidence,
    read_verdict_seen,
    select,
)
from inspector.pages.people.comments import count_line_comments
from inspector.web.responses import PageLink, attach, is_published, link_to, paginate, render_page
from inspector.web.subject import find_neighbours, head_of, of_run, once_for, review_access
from inspector.web.text.diff import draw_source_rows, explain_no_rows
from inspector.web.text.markdown import MAX_CHARS, cut_lines, render_markdown, split_frontmatter
from inspector.web.text.row_shapes import RUN_HEAD
from runner.base.text import plural
from runner.base.types import DecisionStatus

VIEWS = {"unified": "Unified", "split": "Split", "rendered": "Rendered", "source": "Source"}
TABS = ("why", "trajectory", "verdict", "users")
SOURCE_ROWS = 1_500
MAX_HEADING = 120  # characters
TEMPLATE = "library/library.html"
SESSIONS: dict[str, tuple[str, Callable[[SeeingSession], object]]] = {
    "": ("could see it", lambda session: True),
    "read": ("read it", lambda session: session.has_read),
    "unread": ("did not read it", lambda session: not session.has_read),
    "failed": ("had a failed tool call", lambda session: session.failed),
    "changed": ("ran while it changed", lambda session: session.changes),
}


@of_run
def library(request: HttpRequest, run: Run, *, as_json: bool = False) -> HttpResponse:
    episodes, episode = choose_episode(run, request.GET.get("episode", ""))
    machine = TimeMachine(run, episode, request.GET) if episode else None
    decision = machine.decision if machine else None
    probed = once_for(run, ("probed", decision), lambda: read_probes_about(decision))

    if as_json:
        data = {
            "run": RUN_HEAD.read(run),
            "episodes": EPISODE.read_all(episodes),
            "episode": episode,
            **(MACHINE.read(machine) if machine else {}),
            "probes": RESULT.read_all(probed),
        }
        return render_page(request, TEMPLATE, data=data, as_json=True)

    episode_before, episode_after = find_neighbours(episodes, episode)
    context = {
        **head_of(run, episodes, episode),
        "episode_before": episode_before,
        "episode_after": episode_after,
        "machine": machine,
        "views": list(VIEWS.items()),
        "tabs": TABS,
        "diagnoses": read_diagnoses(episode) if episode else {},
        "probed": probed,
        "commented": None,
    }
    if machine and not is_published(request):
        state = {"from": machine.selection.before.key, "to": machine.selection.after.key}
        if machine.is_proposal and machine.decision:
            state = {"decision": str(machine.decision.number)}
        place = {"episode": str(machine.episode.public_id), **state, "view": machine.view}
        context["commented"] = count_line_comments(run, place)
    return render_page(request, TEMPLATE, context=context)


@of_run
def library_file(request: HttpRequest, run: Run) -> HttpResponse:
    """Send the file that the page's own query names, whole: as the later state has it,
    else as the earlier one had it."""
    asked = request.GET.get("episode", "")
    episode = next((each for each in choose_episode(run)[0] if str(each.public_id) == asked), None)
    chosen = None
    if episode:
        course = LibraryCourse(run, episode)
        changes, _ = _read_selected(_select(course.rail, request.GET, course.find_telling()))
        chosen = _find_change(changes, request.GET.get("file", ""))
    if chosen is None:
        raise Http404("no such file")
    version = chosen.latest
    content = read_contents([version])[version.digest]
    if is_binary(content):
        return HttpResponse(content, "application/octet-stream", headers=attach(version.digest[:16]))
    return HttpResponse(content, "text/plain; charset=utf-8")


@of_run
def library_sessions(request: HttpRequest, run: Run, *, as_json: bool = False) -> HttpResponse:
    """Show which version of a skill in git each session could see, who read it, and how they ended. `version` in the
    address lists the sessions of one version, `show` some of them. Nonsense lists all."""
    episodes, episode = choose_episode(run, request.GET.get("episode", ""))
    found = SkillSessions((), 0, 0, 0)
    if episode and run.is_of_git:
        found = read_sessions(episode, review_access(request).closed_trials())
    rows = [row for row in found.versions if row.version.key == request.GET.get("version")]
    show = request.GET.get("show", "")
    show = show if show in SESSIONS else ""
    word, is_shown = SESSIONS[show]
    listed = [session for row in rows or found.versions for session in row.sessions if is_shown(session)]
    page = paginate(request, listed)
    data = {
        "run": RUN_HEAD.read(run),
        "episodes": EPISODE.read_all(episodes),
        "episode": episode,
        "says": found.sentence,
        "versions": list(found.versions),
        "without_version": {"no_start_time": found.untimed, "before_first_commit": found.before, "deleted": found.gone},
        "matched_by_name": found.guessed,
        "sessions": [
            {**SeeingSession.json_shape.read(each), "url": PageLink("trial-json", each.trial)} for each in page
        ],
    }
    context = {
        **head_of(run, episodes, episode),
        "found": found,
        "chosen": rows[0] if rows else None,
        "word": word,
        "show": show,
    }
    return render_page(request, "library/sessions.html", data=data, context=context, page=page, as_json=as_json)


class TimeMachine:
    """What the page shows for a query string. Nonsense in it falls back to a page that exists.

    `is_proposal`: the later side is what a refused patch asked for; the library never was like that. `missing`: the
    file of the query that is in neither state. `document`: one file at the later state, whole. `ledger`: of the stop,
    where it changed the library. `is_beside`: whether this experiment has no-skill trials of these tasks. `reply`: the
    author's exact answer, where no patch could be read from it. `telling`: the change that the page opens on;
    `is_opened_by_rule`: the page shows it. `between`: if several decisions are between the two states.
    """

    def __init__(self, run: Run, episode: Episode, query: Mapping[str, str]) -> None:
        course = LibraryCourse(run, episode)
        self.telling = course.find_telling()
        self.episode, self.rail = episode, course.rail
        self.selection = selection = _select(course.rail, query, self.telling)
        self.is_opened_by_rule = self.telling is not None and self.telling.stop == selection.stop
        self.changes, self.is_proposal = _read_selected(selection)
        self.changed = [change for change in self.changes if change.status]
        self.tree = build_tree(self.changes)
        self.skills_total = sum(bool(each.path.endswith("/SKILL.md") and each.new) for each in self.changes)
        self.files_total = sum(change.new is not None for change in self.changes)
        self.decisions_total = sum(stop.decision is not None for stop in self.rail.stops)
        asked = query.get("file", "")
        chosen = _find_change(self.changes, asked)
        self.missing = "" if chosen else asked
        skills = [change for change in self.changed or self.changes if change.path.endswith("/SKILL.md")]
        first = chosen or next(iter(skills or self.changed or self.changes), None)  # where reading starts
        self.view = query.get("view", "")
        if self.view not in VIEWS:
            self.view = "rendered" if selection.is_one_state and not self.is_proposal else "unified"
        shown = self.changed  # as differences; none where one file is drawn whole instead
        if self.view in ("rendered", "source") or chosen is not None and not chosen.status:
            shown = []
        elif chosen is not None:
            shown = [chosen]
        document = first if not shown else None
        self.chosen = chosen or document
        self.document = _draw_document(document, self.view) if document else None
        drawn = draw_changes(shown, whole=chosen is not None)
        self.files = drawn if self.is_proposal else add_gutters(course, selection, drawn)
        self.files_left_out = max(0, len(shown) - PAGE_FILES)
        self.decision = decision = selection.decision
        self.previous, self.following = find_stops_beside(self.rail, selection)
        tab = query.get("tab", "")
        self.tab = tab if tab in TABS else "why"
        self.evidence = once_for(run, ("evidence", decision.pk), lambda: read_evidence(decision)) if decision else []
        self.verdict = None
        if decision:
            self.verdict = once_for(run, ("verdict", decision.pk), lambda: read_verdict_seen(decision))
        text = None if self.is_proposal else first  # a refused patch was never mounted
        self.users = course.users_of(text, selection.stop) if text else None
        self.ledger = course.ledger_of(selection.stop)
        self.is_beside = bool(course.baseline)
        failed = decision and decision.status == DecisionStatus.FAILED
        self.reply = visible(decision.read_reply()) if decision and failed else ""
        self.strip = _open_strip(run, episode, course, selection)
        is_range = not selection.stop and not selection.is_one_state and not course.lineage.too_big
        self.between = LibraryRange(course, selection, text.path if text else "") if is_range else None

    @property
    def heading(self) -> str:
        """Return what the page shows in a sentence: the author's own where there is one."""
        decision, selection = self.decision, self.selection
        if decision:
            word = selection.stop.word if selection.stop else ""
            return one_line(write_summary(decision), MAX_HEADING) or f"Decision {decision.number}: {word.lower()}"
        if self.between:
            count, ends = self.between.keeping, f"{selection.before.key} → {selection.after.key}"
            return f"{ends}: {plural(count, 'decision')} wrote the text at {selection.after.key}"
        if selection.stop and selection.stop.seeding:
            return selection.stop.word
        return selection.after.title if self.files_total else "The library is empty"

    @property
    def lines(self) -> tuple[int, int]:
        """Return (added, removed): what the record counted for a decision that is shown whole, else the counts of the
        files drawn."""
        if self.decision and not self.is_proposal and len(self.files) == len(self.changed):
            return self.decision.lines_added, self.decision.lines_removed
        return sum(shown.diff.added for shown in self.files), sum(shown.diff.removed for shown in self.files)


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


def _select(rail: Rail, query: Mapping[str, str], telling: TellingStop | None) -> Selection:
    opens = telling.stop if telling else None
    return select(rail, decision=query.get("decision"), start=query.get("from"), end=query.get("to"), opens=opens)


def _find_change(changes: Sequence[FileChange], path: str) -> FileChange | None:
    return next((change for change in changes if path in (change.path, change.renamed_from)), None) if path else None


def _read_selected(selection: Selection) -> tuple[list[FileChange], bool]:
    return read_changes(selection.before.snapshot, selection.after.snapshot, selection.decision)


def _draw_document(change: FileChange, view: str) -> dict[str, object]:
    """Return the file at the later state, as rows of source or as drawn Markdown,
    or a note that says why there is neither."""
    content = read_contents([change.latest])[change.latest.digest]
    if is_binary(content):
        return {"change": change, "note": f"Binary file, {len(content):,} bytes, not shown."}
    if view == "rendered" and change.path.endswith((".md", ".markdown")):
        frontmatter, body = split_frontmatter(content.decode())
        note = f"Rendered are the first {MAX_CHARS:,} of {len(body):,} characters." if len(body) > MAX_CHARS else ""
        drawn = {"frontmatter": visible(cut_lines(frontmatter)), "html": render_markdown(body)}
        return {"change": change, "note": note, **drawn}
    rows = draw_source_rows(change.path, content)
    note = "" if rows else explain_no_rows(content)
    left_out = max(0, len(rows) - SOURCE_ROWS)
    return {"change": change, "note": note, "rows": rows[:SOURCE_ROWS], "rows_left_out": left_out}


# --- the twin ---------------------------------------------------------------------------------------------------


def _hunks_twin(shown: ShownFile) -> list[dict[str, object]]:
    return [
        {
            "heading": "Frontmatter" if block.is_frontmatter else block.heading,
            "lines": DIFF_LINE.read_all(block.rows),
        }
        for block in shown.diff.blocks
        if not block.is_folded
    ]


def _evidence_twin(shown: ShownTrial) -> dict[str, object]:
    excerpt = shown.excerpt
    if excerpt is None:
        return {"trial": shown.trial, "text": None, "compaction": None}
    texts = (f"{each.heading}\n{''.join(text for text, _ in each.pieces)}".strip() for each in excerpt.segments)
    return {"trial": shown.trial, "text": "\n\n".join(texts), **COMPACTION.read(excerpt.compaction)}


EPISODE = JsonShape(
    "id=public_id key title decisions=decisions_total library_digest=library.digest",
    ("url", lambda episode: PageLink("library-json", episode.run.public_id, episode=episode.public_id)),
)
STATE = JsonShape("key digest?")
AFTER_TRIAL = JsonShape("id=public_id task=task.key success", link_to("trial-json"))
DECISION = JsonShape(
    "id=decision number=decision.number round=decision.round status=decision.status word mode=decision.mode",
    "operation_type=decision.operation_type answer=decision.answer family=decision.family.key",
    "summary=decision.summary error=decision.error findings=decision.findings",
    ("after_trial", lambda stop: stop.decision.after_trial and AFTER_TRIAL.read(stop.decision.after_trial)),
    "before=before.digest? after=after.digest? from=before.key to=after.key",
    ("lines", JsonShape("added=decision.lines_added removed=decision.lines_removed").read),
    "files_changed=decision.files_changed",
)
SEEDING = JsonShape("family=seeding.family.key to=after.key")
SEAL = JsonShape("seal library_digest setup_digest")
FILE = JsonShape("path renamed_from? status old=old.digest new=new.digest bytes=size")
DIFF_LINE = JsonShape("sign old new text note")
DIFF = JsonShape(
    "path=diff.path status=diff.status added=diff.added removed=diff.removed note=diff.note",
    ("hunks", _hunks_twin),
    "lines_left_out=rows_left_out",
)
COMPACTION = JsonShape("compaction=kind version tokens steps_kept steps_total")
MACHINE = JsonShape(
    ("states", lambda machine: STATE.read_all(machine.rail.states)),
    ("decisions", lambda machine: DECISION.read_all(stop for stop in machine.rail.stops if stop.decision)),
    ("seedings", lambda machine: SEEDING.read_all(stop for stop in machine.rail.stops if stop.seeding)),
    ("seal", lambda machine: SEAL.read(machine.rail.seal.seal) if machine.rail.seal else None),
    "from=selection.before.key to=selection.after.key decision=decision.number proposal=is_proposal",
    "not_there=missing?",
    ("files", lambda machine: FILE.read_all(machine.changes)),
    ("diff", lambda machine: DIFF.read_all(machine.files)),
    ("evidence", lambda machine: list(map(_evidence_twin, machine.evidence))),
    "users ledger",
)
