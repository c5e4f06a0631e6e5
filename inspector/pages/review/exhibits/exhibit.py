"""What the coding screen shows of an item: a trial, an author's decision or a library, without what its queue hides;
and the same as its JSON twin has it, as masked and as folded.

Nothing here names a row of the record: no public id, no run, no address but the item's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlencode
from uuid import UUID

from django import forms
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse

from benchapp.models import Decision, Episode, QueueItem, Run, Snapshot, Task, User
from benchapp.record.json_shape import JsonShape
from benchapp.record.textual_change import is_binary
from benchapp.record.visible import visible
from benchapp.review.blinding import Hidden, hidden_in
from benchapp.review.coding.anchors import ItemEvidence
from inspector.pages.library.changes import (
    PAGE_CHARS,
    PAGE_FILES,
    PAGE_ROWS,
    FileChange,
    Version,
    compare_versions,
    draw_changes,
    read_changes,
    read_contents,
    read_versions,
)
from inspector.pages.library.rail import read_evidence
from inspector.pages.review.exhibits.exhibited_trial import ShownFields, TrialExhibit
from inspector.pages.review.exhibits.giveaways import list_cues, masks_of_episode
from inspector.pages.review.exhibits.masking import Mask
from inspector.reader.compactions import EvidenceExcerpt
from inspector.reader.steps import FieldView
from inspector.reader.verdict import read_verdicts
from inspector.web.access import user_of
from inspector.web.responses import PathLink, read_htmx
from inspector.web.subject import item_closed_to
from inspector.web.text.diff import DiffRow, draw_source_rows, explain_no_rows
from runner.base.types import DecisionStatus
from runner.trajectories.fields import FIELD

PIECE_CHARS = 64_000  # of one field in one answer
KINDS = {"tool_calls": "call", "observations": "result"}


class PieceForm(forms.Form):
    """A piece of a field: offsets in characters of the text as shown."""

    trajectory = forms.IntegerField(required=False, min_value=0, max_value=10_000)
    step = forms.IntegerField(min_value=1, max_value=2**31 - 1)
    field = forms.RegexField(FIELD)
    start = forms.IntegerField(required=False, min_value=0, max_value=2**40)
    end = forms.IntegerField(required=False, min_value=0, max_value=2**40)


def field(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """Return a bounded piece as HTML for htmx, all that was asked for as plain text without it.
    404 if the item shows no such field."""
    item = load_item(public_id)
    if closed := item_closed_to(request, item):
        return closed
    form = PieceForm(request.GET)
    if not form.is_valid() or item.trial is None:
        raise Http404("no such piece")
    asked = form.cleaned_data
    index, start = asked["trajectory"] or 0, asked["start"] or 0
    trajectories = ItemEvidence(item).trajectories
    if index >= len(trajectories):
        raise Http404("no such trajectory")
    fields = ShownFields(item, hidden_in(item, user_of(request)))(trajectories[index], asked["step"])
    if asked["field"] not in fields:
        raise Http404("no such field")
    found = fields[asked["field"]].text[start : asked["end"]]
    if not read_htmx(request):
        return HttpResponse(found, "text/plain; charset=utf-8")
    left = max(0, len(found) - PIECE_CHARS)
    base = reverse("review-field", args=[public_id])
    more = gap_address(base, index, asked["step"], asked["field"], start + PIECE_CHARS, asked["end"]) if left else ""
    context = {
        "field": asked["field"],
        "kind": KINDS.get(asked["field"].partition("/")[0], asked["field"]),
        "piece": found[:PIECE_CHARS],
        "start": start,
        "left_out": left,
        "address": more,
    }
    return render(request, "review/_exhibit_piece.html", context)


MAX_TEXT = 20_000  # characters of one text that the page cuts as well
MAX_PATHS = 500
FINDING = ("rule", "severity", "path", "message")


@dataclass(frozen=True, slots=True)
class SeenTrial:
    """A trial the author was shown, as it was shown; excerpt None where only the fact is recorded."""

    title: str
    status: str
    excerpt: EvidenceExcerpt | None


class DecisionExhibit:
    """`is_proposal`: the later side is what a refused patch asked for. `mode`, `operation`: what the author was asked
    for and what it called its answer; empty while conditions are hidden, which differ in what they ask for. `chosen`:
    the one file asked for, else ""."""

    def __init__(self, decision: Decision, hidden: Hidden, query: Mapping[str, str]) -> None:
        self.decision = decision
        mask = masks_of_episode(decision.episode, hidden).names
        found, self.is_proposal = read_changes(decision.before, decision.after, decision)
        changes = _mask_changes([change for change in found if change.status], mask)
        chosen = next((change for change in changes if change.path == query.get("file")), None)
        self.mode = "" if hidden.conditions else decision.mode
        self.operation = "" if hidden.conditions else visible(decision.operation_type)
        self.summary, self.error = mask.text(decision.summary), mask.text(decision.error)
        self.findings = [
            {name: mask.text(value) if isinstance(value, str) else value for name, value in one.items()}
            for one in decision.findings
            if isinstance(one, dict)
        ]
        self.files = draw_changes([chosen] if chosen else changes, whole=chosen is not None)
        self.files_total = len(changes)
        self.chosen = chosen.path if chosen else ""
        self.paths = [change.path for change in changes]
        self.reply = ""
        if decision.status == DecisionStatus.FAILED:
            self.reply = mask.text(visible(decision.read_reply()))
        self.evidence = [
            SeenTrial(visible(seen.trial.task.title), seen.trial.status, _mask_excerpt(seen.excerpt, mask))
            for seen in read_evidence(decision)
        ]
        occasion = decision.after_trial
        verdicts = read_verdicts(occasion.counting_attempt(), clean=mask.text) if occasion else []
        self.verdict = verdicts[0] if verdicts else None


@dataclass(frozen=True, slots=True)
class LibraryFile:
    """A file with numbered lines; `note` says why there are none."""

    path: str
    size: int
    rows: tuple[DiffRow, ...]
    rows_left_out: int = 0
    note: str = ""


class LibraryExhibit:
    """`paths`: of every file. `chosen`: the one file asked for, else ""."""

    def __init__(self, snapshot: Snapshot, episode: Episode, hidden: Hidden, query: Mapping[str, str]) -> None:
        mask = masks_of_episode(episode, hidden).names
        (versions,) = read_versions(snapshot)
        changes = compare_versions({}, versions)
        chosen = [change for change in changes if change.path == query.get("file")]
        shown = chosen or changes[:PAGE_FILES]
        self.files = _draw_files(shown, read_contents(change.new for change in shown), mask, whole=bool(chosen))
        self.paths = [change.path for change in changes]
        self.chosen = chosen[0].path if chosen else ""
        self.files_left_out = 0 if chosen else len(changes) - len(self.files)
        self.skills_total = sum(path.count("/") == 1 and path.endswith("/SKILL.md") for path in versions)


def _mask_changes(changes: list[FileChange], mask: Mask) -> list[FileChange]:
    """Hide names in the contents line by line, so that line numbers stay those of the record."""
    if mask.pattern is None:
        return changes
    contents = read_contents(side for change in changes for side in (change.old, change.new))

    def mask_version(version: Version | None) -> Version | None:
        if version is None:
            return None
        content = _mask_bytes(contents[version.digest], mask)
        return replace(version, content=content, size=len(content))

    return [replace(change, old=mask_version(change.old), new=mask_version(change.new)) for change in changes]


def _mask_bytes(content: bytes, mask: Mask) -> bytes:
    return content if is_binary(content) else mask.lines(content.decode()).encode()


def _draw_files(
    changes: Sequence[FileChange], contents: Mapping[str, bytes], mask: Mask, *, whole: bool
) -> list[LibraryFile]:
    """Draw files in reading order until the page is full; one that was asked for is shown whole, as far as pages
    go."""
    rows_left, chars_left = (PAGE_ROWS * 8, PAGE_CHARS * 16) if whole else (PAGE_ROWS, PAGE_CHARS)
    files = []
    for change in changes:
        assert change.new is not None
        content = _mask_bytes(contents[change.new.digest], mask)
        if is_binary(content):
            files.append(LibraryFile(change.path, len(content), (), note="A binary file, not shown."))
            continue
        rows = draw_source_rows(change.path, content)
        kept: list[DiffRow] = []
        for row in rows:
            if len(kept) >= rows_left or len(row.text) > chars_left:
                break
            kept.append(row)
            chars_left -= len(row.text)
        rows_left -= len(kept)
        note = "" if rows else explain_no_rows(content)
        files.append(LibraryFile(change.path, len(content), tuple(kept), len(rows) - len(kept), note))
    return files


def _mask_excerpt(excerpt: EvidenceExcerpt | None, mask: Mask) -> EvidenceExcerpt | None:
    if excerpt is None or mask.pattern is None:
        return excerpt
    segments = (
        replace(
            segment,
            heading=mask.lines(segment.heading),
            pieces=tuple((mask.lines(text), is_cut) for text, is_cut in segment.pieces),
        )
        for segment in excerpt.segments
    )
    return replace(excerpt, segments=tuple(segments))


class Exhibit:
    """The exhibit of an item for a person and a query string (step, first, trajectory, file). Nonsense falls back. The
    number of queries depends on the unit and on the queue's switches, never on what they hide.

    One of `trial`, `decision` and `library` is set. `facts`: (word, value) of what is known about the item and not
    hidden. `address` leads to the page of the record that shows all of it; empty while anything is hidden.
    `piece_address` answers with pieces of texts that were folded, `piece_at` with those of the steps' texts. `hides`:
    what is hidden of the evidence; empty if all of it is shown.
    """

    def __init__(self, item: QueueItem, user: User, query: Mapping[str, str]) -> None:
        self.hidden = hidden = hidden_in(item, user)
        self.piece_address, self.piece_at = reverse("review-field", args=[item.public_id]), ""
        self.trial = self.decision = self.library = None
        facts, phase = [], ""
        if item.trial is not None:
            self.unit, task, run = "trial", item.trial.task, item.trial.episode.run
            self.title, self.key = visible(task.title), visible(task.key)
            facts, phase, address = _read_task(task), item.trial.phase, item.trial.get_absolute_url()
            self.trial = TrialExhibit(item, item.trial, hidden, query)
            self.piece_at = f"{self.piece_address}?trajectory={self.trial.index}"
        elif item.decision is not None:
            self.unit, family, run = "decision", item.decision.family, item.decision.episode.run
            self.title, self.key = f"Decision about {visible(family.name or family.key)}", family.key
            facts, address = [("family", visible(family.key))], item.decision.get_absolute_url()
            self.decision = DecisionExhibit(item.decision, hidden, query)
        else:
            snapshot, episode = item.library
            self.unit, run = "snapshot", episode.run
            self.title, self.key = f"Library of {visible(episode.title)}", visible(episode.key)
            address = f"{reverse('library', args=[run.public_id])}?episode={episode.public_id}&to={snapshot.digest}"
            self.library = LibraryExhibit(snapshot, episode, hidden, query)
        self.facts = [*facts, *_read_run(run, hidden, phase=phase)]
        self.cues = list_cues(item, hidden) if hidden.facts else []
        self.address = "" if hidden.facts else address
        condition = "the condition and its skills" if item.trial else "the condition"
        words = ((hidden.conditions, condition), (hidden.models, "the models"))
        self.hides = ", ".join(word for is_hidden, word in words if is_hidden)


def load_item(public_id: UUID) -> QueueItem:
    """Load the item with its codebook and all that an exhibit reads of its unit, in one query.
    404 if there is none."""
    rows = QueueItem.objects.select_related(
        "queue__version__codebook",
        "trial__task__family__environment",
        "trial__task_revision",
        "trial__snapshot",
        "trial__episode__run__experiment",
        "decision__family",
        "decision__before",
        "decision__after",
        "decision__call",
        "decision__episode__run__experiment",
        "decision__after_trial__task",
        "snapshot",
        "episode__run__experiment",
    )
    return get_object_or_404(rows, public_id=public_id)


def _read_task(task: Task) -> list[tuple[str, str]]:
    family = task.family
    environment = family.environment if family else None
    pairs = [
        ("environment", environment.name if environment else ""),
        ("family", family.name if family else ""),
        ("role", task.role),
    ]
    return [(word, visible(value)) for word, value in pairs if value]


def _read_run(run: Run, hidden: Hidden, *, phase: str = "") -> list[tuple[str, str]]:
    """Return what may be shown of the run. A replay shows that its condition replays, so the phase is hidden with the
    condition. A harness mostly works with one maker's models, so it is hidden with the model. Only some conditions
    have an author, so it is hidden with either."""
    pairs = [] if hidden.conditions else [("condition", run.condition), ("phase", phase)]
    if not hidden.models:
        author = "" if hidden.conditions else run.author_model
        pairs += [("model", run.agent_model), ("author model", author), ("harness", run.harness)]
    return [(word, visible(value)) for word, value in pairs if value]


def gap_address(base: str, index: int, step: int, name: str, start: int, end: int | None) -> str:
    """Return the address that answers with the rest of a folded text."""
    query: dict[str, object] = {"step": step, "field": name, "start": start, "trajectory": index}
    return f"{base}?{urlencode({**query, 'end': end} if end is not None else query)}"


# --- the twin -------------------------------------------------------------------------------------------------------


def read_exhibit(exhibit: Exhibit) -> dict[str, object]:
    """Build the twin of an exhibit. One of trial, decision and library is set, named by `unit`."""
    return {
        **EXHIBIT.read(exhibit),
        "trial": _read_trial(exhibit, exhibit.trial) if exhibit.trial else None,
        "decision": DECISION.read(exhibit.decision) if exhibit.decision else None,
        "library": LIBRARY.read(exhibit.library) if exhibit.library else None,
    }


EXHIBIT = JsonShape(
    "unit title key",
    ("facts", lambda exhibit: dict(exhibit.facts)),
    ("hidden", lambda exhibit: [name for name in ("conditions", "models") if getattr(exhibit.hidden, name)]),
    "may_still_tell=cues",
    ("url", lambda exhibit: PathLink(exhibit.address) if exhibit.address else None),
)

# --- a trial ---------------------------------------------------------------------------------------------------------

PIECE = JsonShape("text left_out")
STEP = JsonShape(
    "number source error=is_error copied=is_copied model? time? input_tokens output_tokens",
    ("skills", lambda step: [{"skill": skill, "used": kind} for skill, kind in step.skills]),
)
CHECK = JsonShape("name status message message_left_out")
CHECKS = JsonShape(
    "group=name passed total", ("checks", lambda group: CHECK.read_all((*group.open, *group.good))), "left_out"
)
DIMENSION = JsonShape("name score max_score", ("reason", lambda dimension: dimension.reason[:MAX_TEXT]))
VERDICT = JsonShape(
    "says=word reward=verdict.reward",
    ("groups", lambda view: CHECKS.read_all(view.groups)),
    ("dimensions", lambda view: DIMENSION.read_all(view.dimensions)),
)


def _read_trial(exhibit: Exhibit, shown: TrialExhibit) -> dict[str, object]:
    return {
        "status": shown.trial.status,
        "instruction": PIECE.read(shown.instruction) if shown.instruction else None,
        "trajectories": shown.trajectories,
        "trajectory": shown.index if shown.trajectories else None,
        "verdicts": VERDICT.read_all(shown.verdicts),
        "output_end": PIECE.read(shown.output) if shown.output else None,
        "exception": {"type": shown.exception, "message": shown.exception_text} if shown.exception else None,
        "skills": [{"skill": skill, "used": kinds} for skill, kinds in shown.skills],
        "steps": [
            {
                **STEP.read(card.step),
                "fields": [
                    {
                        "name": field.name or None,
                        "kind": field.kind,
                        "label": field.label,
                        "parts": _read_parts(exhibit, shown.index, card.step.number, field),
                        "error": field.is_error,
                    }
                    for field in card.step.fields
                ],
            }
            for card in shown.steps
        ],
        "steps_total": shown.window.total,
    }


def _read_parts(exhibit: Exhibit, index: int, number: int, field: FieldView) -> list[dict[str, object]]:
    """A field's text in parts, each with where it starts. Of a folded part: how many characters it has and where they
    can be asked for. Of a text too long to be masked whole at once only the beginning is known, so its length is
    hidden (null) while anything is."""
    parts: list[dict[str, object]] = []
    for part in field.parts:
        if not part.is_fold:
            parts.append({"start": part.start, "text": part.text})
            continue
        hides_size = exhibit.hidden.facts and not part.raw
        end = part.end if part.raw else None
        url = PathLink(gap_address(exhibit.piece_address, index, number, field.name, part.start, end))
        characters = None if hides_size else part.end - part.start
        parts.append({"start": part.start, "folded": {"characters": characters, "url": url}})
    return parts


# --- a decision, a library -------------------------------------------------------------------------------------------


SEGMENT = JsonShape("step heading", ("text", lambda segment: "".join(text for text, _ in segment.pieces)[:MAX_TEXT]))
SEEN_TRIAL = JsonShape("title status", ("shown", lambda seen: seen.excerpt and SEGMENT.read_all(seen.excerpt.segments)))
LINE = JsonShape("sign old new text")
CHANGED_FILE = JsonShape(
    "path=diff.path status=diff.status added=diff.added removed=diff.removed note=diff.note",
    (
        "lines",
        lambda file: LINE.read_all(
            row for block in (() if file.diff.is_collapsed else file.diff.blocks) for row in block.rows
        ),
    ),
    "lines_left_out=rows_left_out",
)
LIBRARY_FILE = JsonShape(
    "path bytes=size", ("lines", lambda file: LINE.read_all(file.rows)), "lines_left_out=rows_left_out note"
)
DECISION = JsonShape(
    "status=decision.status mode? operation?",
    ("summary", lambda shown: shown.summary[:MAX_TEXT]),
    ("error", lambda shown: shown.error[:MAX_TEXT]),
    ("findings", lambda shown: [{name: finding.get(name) for name in FINDING} for finding in shown.findings]),
    ("reply", lambda shown: shown.reply[:MAX_TEXT]),
    "proposed=is_proposal",
    ("files", lambda shown: CHANGED_FILE.read_all(shown.files)),
    ("paths", lambda shown: shown.paths[:MAX_PATHS]),
    "files_total",
    ("evidence", lambda shown: SEEN_TRIAL.read_all(shown.evidence)),
    ("verdict_before", lambda shown: shown.verdict and VERDICT.read(shown.verdict)),
)
LIBRARY = JsonShape(
    *("skills=skills_total", ("files", lambda shown: LIBRARY_FILE.read_all(shown.files))),
    *(("paths", lambda shown: shown.paths[:MAX_PATHS]), ("files_total", lambda shown: len(shown.paths))),
)
