"""The evidence of an item as its JSON twin tells it: what the page shows, as masked and as folded as there."""

from __future__ import annotations

from benchapp.record.json_shape import JsonShape
from inspector.pages.review.exhibits.exhibit import Exhibit
from inspector.pages.review.exhibits.exhibited_trial import TrialExhibit
from inspector.pages.review.exhibits.gaps import gap
from inspector.pages.trials.verdict import VerdictView
from inspector.web.responses import PathLink
from inspector.web.text.diff import FileDiff
from inspector.web.text.drawn_steps import FieldView, StepView
from inspector.web.text.excerpt import EvidenceExcerpt

MAX_TEXT = 20_000  # characters of one text that the page cuts as well
MAX_PATHS = 500
FINDING = ("rule", "severity", "path", "message")


def read_exhibit(exhibit: Exhibit) -> dict[str, object]:
    """One of trial, decision and library is there, named by `unit`."""
    return {
        **EXHIBIT.read(exhibit),
        "trial": _read_trial(exhibit, exhibit.trial) if exhibit.trial else None,
        "decision": DECISION.read(exhibit.decision) if exhibit.decision else None,
        "library": LIBRARY.read(exhibit.library) if exhibit.library else None,
    }


EXHIBIT = JsonShape(
    *("unit", "title", "key", ("facts", lambda exhibit: {fact.word: fact.value for fact in exhibit.facts})),
    ("hidden", lambda exhibit: [name for name in ("conditions", "models") if getattr(exhibit.hidden, name)]),
    *("may_still_tell=cues", ("url", lambda exhibit: PathLink(exhibit.address) if exhibit.address else None)),
)

# --- a trial ---------------------------------------------------------------------------------------------------------

PIECE = JsonShape("text", "left_out")
TRAJECTORY = JsonShape("index", "name", "kind", "steps")
STEP = JsonShape(
    *("number", "source", "error=is_error", "copied=is_copied", "model?", "time?", "input_tokens", "output_tokens"),
    ("skills", lambda step: [{"skill": skill, "used": kind} for skill, kind in step.skills]),
)
CHECK = JsonShape("name", "status", "message", "message_left_out")
CHECKS = JsonShape(
    *("group=name", "passed", "total"),
    *(("checks", lambda group: CHECK.read_all((*group.open, *group.good))), "left_out"),
)
DIMENSION = JsonShape("name", "score", "max_score", ("reason", lambda dimension: dimension.reason[:MAX_TEXT]))
VERDICT = JsonShape(
    *("says=word", "reward=verdict.reward", ("groups", lambda view: CHECKS.read_all(view.groups))),
    ("dimensions", lambda view: DIMENSION.read_all(view.dimensions)),
)


def _read_trial(exhibit: Exhibit, shown: TrialExhibit) -> dict[str, object]:
    return {
        "status": shown.trial.status,
        "instruction": PIECE.read(shown.instruction) if shown.instruction else None,
        "trajectories": TRAJECTORY.read_all(shown.trajectories),
        "trajectory": shown.index if shown.trajectories else None,
        "verdicts": VERDICT.read_all(shown.verdicts),
        "output_end": PIECE.read(shown.output) if shown.output else None,
        "exception": {"type": shown.exception, "message": shown.exception_text} if shown.exception else None,
        "skills": [{"skill": skill, "used": kinds} for skill, kinds in shown.skills],
        "steps": [
            {**STEP.read(card.step), "fields": _read_fields(exhibit, shown.index, card.step)} for card in shown.steps
        ],
        "steps_total": shown.window.total,
    }


def _read_fields(exhibit: Exhibit, index: int, step: StepView) -> list[dict[str, object]]:
    return [
        {
            "name": field.name or None,
            "kind": field.kind,
            "label": field.label,
            "parts": _read_parts(exhibit, index, step.number, field),
            "error": field.is_error,
        }
        for field in step.fields
    ]


def _read_parts(exhibit: Exhibit, index: int, number: int, field: FieldView) -> list[dict[str, object]]:
    """A field's text in parts, each with where it starts. Of a folded part: how many characters it has (null: not told)
    and where they can be asked for."""
    parts: list[dict[str, object]] = []
    for part in field.parts:
        if part.is_fold:
            left = gap(exhibit, index, number, field, part)
            folded = {"characters": left["characters"], "url": PathLink(left["address"])}
            parts.append({"start": part.start, "folded": folded})
        else:
            parts.append({"start": part.start, "text": part.text})
    return parts


# --- a decision, a library -------------------------------------------------------------------------------------------


def _read_verdict(verdict: VerdictView | None) -> dict[str, object] | None:
    return VERDICT.read(verdict) if verdict else None


def _read_excerpt(excerpt: EvidenceExcerpt | None) -> list[dict[str, object]] | None:
    """What the author saw, segment by segment; null where only the fact is recorded."""
    return None if excerpt is None else SEGMENT.read_all(excerpt.segments)


def _read_lines(diff: FileDiff) -> list[dict[str, object]]:
    return LINE.read_all(row for block in diff.blocks for row in block.rows)


SEGMENT = JsonShape(
    *("step", "heading", ("text", lambda segment: "".join(text for text, _ in segment.pieces)[:MAX_TEXT])),
)
SEEN_TRIAL = JsonShape("title", "status", ("shown", lambda seen: _read_excerpt(seen.excerpt)))
LINE = JsonShape("sign", "old", "new", "text")
CHANGED_FILE = JsonShape(
    *("path=diff.path", "status=diff.status", "added=diff.added", "removed=diff.removed", "note=diff.note"),
    ("lines", lambda file: [] if file.diff.is_collapsed else _read_lines(file.diff)),
    "lines_left_out=rows_left_out",
)
LIBRARY_FILE = JsonShape(
    *("path", "bytes=size", ("lines", lambda file: LINE.read_all(file.rows)), "lines_left_out=rows_left_out", "note"),
)
DECISION = JsonShape(
    *("status=decision.status", "mode?", "operation?", ("summary", lambda shown: shown.summary[:MAX_TEXT])),
    ("error", lambda shown: shown.error[:MAX_TEXT]),
    ("findings", lambda shown: [{name: finding.get(name) for name in FINDING} for finding in shown.findings]),
    *(("reply", lambda shown: shown.reply[:MAX_TEXT]), "proposed=is_proposal"),
    ("files", lambda shown: CHANGED_FILE.read_all(shown.files)),
    *(("paths", lambda shown: shown.paths[:MAX_PATHS]), "files_total"),
    ("evidence", lambda shown: SEEN_TRIAL.read_all(shown.evidence)),
    ("verdict_before", lambda shown: _read_verdict(shown.verdict)),
)
LIBRARY = JsonShape(
    *("skills=skills_total", ("files", lambda shown: LIBRARY_FILE.read_all(shown.files))),
    *(("paths", lambda shown: shown.paths[:MAX_PATHS]), ("files_total", lambda shown: len(shown.paths))),
)
