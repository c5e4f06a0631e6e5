"""The evidence of an item as its JSON twin tells it: what the page shows, as masked and as folded as there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from inspector.pages.review.exhibits.exhibit import Exhibit
from inspector.pages.review.exhibits.exhibited_library import DecisionExhibit, LibraryExhibit
from inspector.pages.review.exhibits.exhibited_trial import TrialExhibit
from inspector.pages.review.exhibits.gaps import gap
from inspector.pages.trials.trial import LongText
from inspector.pages.trials.verdict import CheckLine, VerdictView
from inspector.web.text.diff import DiffRow
from inspector.web.text.drawn_steps import FieldView, StepView
from inspector.web.text.excerpt import EvidenceExcerpt

MAX_TEXT = 20_000  # characters of one text that the page cuts as well
MAX_PATHS = 500
FINDING = ("rule", "severity", "path", "message")

Absolute = Callable[[str], str]


def exhibit_as_json(exhibit: Exhibit, absolute: Absolute) -> dict[str, Any]:
    """`absolute` makes a whole address of a path. One of trial, decision and library is there, named by `unit`."""
    return {
        "unit": exhibit.unit,
        "title": exhibit.title,
        "key": exhibit.key,
        "facts": {fact.word: fact.value for fact in exhibit.facts},
        "hidden": [name for name in ("conditions", "models") if getattr(exhibit.hidden, name)],
        "may_still_tell": list(exhibit.cues),
        "url": absolute(exhibit.address) if exhibit.address else None,
        "trial": _trial(exhibit, exhibit.trial, absolute) if exhibit.trial else None,
        "decision": _decision(exhibit.decision) if exhibit.decision else None,
        "library": _library(exhibit.library) if exhibit.library else None,
    }


# --- a trial ---------------------------------------------------------------------------------------------------------


def _trial(exhibit: Exhibit, shown: TrialExhibit, absolute: Absolute) -> dict[str, Any]:
    return {
        "status": shown.trial.status,
        "instruction": _piece(shown.instruction),
        "trajectories": [
            {"index": way.index, "name": way.name, "kind": way.kind, "steps": way.steps} for way in shown.trajectories
        ],
        "trajectory": shown.index if shown.trajectories else None,
        "verdicts": [_verdict(view) for view in shown.verdicts],
        "output_end": _piece(shown.output),
        "exception": {"type": shown.exception, "message": shown.exception_text} if shown.exception else None,
        "skills": [{"skill": skill, "used": kinds} for skill, kinds in shown.skills],
        "steps": [_step(exhibit, shown.index, step, absolute) for step in shown.steps],
        "steps_total": shown.window.total,
    }


def _step(exhibit: Exhibit, index: int, step: StepView, absolute: Absolute) -> dict[str, Any]:
    return {
        "number": step.number,
        "source": step.source,
        "error": step.is_error,
        "copied": step.is_copied,
        "model": step.model or None,
        "time": step.time or None,
        "input_tokens": step.input_tokens,
        "output_tokens": step.output_tokens,
        "skills": [{"skill": skill, "used": kind} for skill, kind in step.skills],
        "fields": [_field(exhibit, index, step.number, field, absolute) for field in step.fields],
    }


def _field(exhibit: Exhibit, index: int, number: int, field: FieldView, absolute: Absolute) -> dict[str, Any]:
    """Its text in parts, each with where it starts. Of a folded part: how many characters it has (null: not told) and
    where they can be asked for."""
    parts: list[dict[str, Any]] = []
    for part in field.parts:
        if part.is_fold:
            left = gap(exhibit, index, number, field, part)
            folded = {"characters": left["characters"], "url": absolute(left["address"])}
            parts.append({"start": part.start, "folded": folded})
        else:
            parts.append({"start": part.start, "text": part.text})
    return {
        "name": field.name or None,
        "kind": field.kind,
        "label": field.label,
        "parts": parts,
        "error": field.is_error,
    }


def _piece(piece: LongText | None) -> dict[str, Any] | None:
    return {"text": piece.text, "left_out": piece.left_out} if piece else None


def _verdict(view: VerdictView) -> dict[str, Any]:
    return {
        "says": view.word,
        "reward": view.verdict.reward,
        "groups": [
            {
                "group": group.name,
                "passed": group.passed,
                "total": group.total,
                "checks": [_check(check) for check in (*group.open, *group.good)],
                "left_out": group.left_out,
            }
            for group in view.groups
        ],
        "dimensions": [
            {"name": one.name, "score": one.score, "max_score": one.max_score, "reason": one.reason[:MAX_TEXT]}
            for one in view.dimensions
        ],
    }


def _check(check: CheckLine) -> dict[str, Any]:
    return {
        "name": check.name,
        "status": check.status,
        "message": check.message,
        "message_left_out": check.message_left_out,
    }


# --- a decision, a library -------------------------------------------------------------------------------------------


def _decision(shown: DecisionExhibit) -> dict[str, Any]:
    return {
        "status": shown.decision.status,
        "mode": shown.mode or None,
        "operation": shown.operation or None,
        "summary": shown.summary[:MAX_TEXT],
        "error": shown.error[:MAX_TEXT],
        "findings": [{name: finding.get(name) for name in FINDING} for finding in shown.findings],
        "reply": shown.reply[:MAX_TEXT],
        "proposed": shown.is_proposal,
        "files": [
            {
                "path": file.diff.path,
                "status": file.diff.status,
                "added": file.diff.added,
                "removed": file.diff.removed,
                "note": file.diff.note,
                "lines": []
                if file.diff.is_collapsed
                else _lines([row for part in file.diff.blocks for row in part.rows]),
                "lines_left_out": file.rows_left_out,
            }
            for file in shown.files
        ],
        "paths": list(shown.paths[:MAX_PATHS]),
        "files_total": shown.files_total,
        "evidence": [
            {"title": seen.title, "status": seen.status, "shown": _excerpt(seen.excerpt)} for seen in shown.evidence
        ],
        "verdict_before": _verdict(shown.verdict) if shown.verdict else None,
    }


def _library(shown: LibraryExhibit) -> dict[str, Any]:
    return {
        "skills": shown.skills_total,
        "files": [
            {
                "path": file.path,
                "bytes": file.size,
                "lines": _lines(file.rows),
                "lines_left_out": file.rows_left_out,
                "note": file.note,
            }
            for file in shown.files
        ],
        "paths": list(shown.paths[:MAX_PATHS]),
        "files_total": len(shown.paths),
    }


def _lines(rows: Sequence[DiffRow]) -> list[dict[str, Any]]:
    return [{"sign": row.sign, "old": row.old, "new": row.new, "text": row.text} for row in rows]


def _excerpt(excerpt: EvidenceExcerpt | None) -> list[dict[str, Any]] | None:
    """What the author saw, segment by segment; null where only the fact is recorded."""
    if excerpt is None:
        return None
    return [
        {
            "step": segment.step,
            "heading": segment.heading,
            "text": "".join(text for text, _ in segment.pieces)[:MAX_TEXT],
        }
        for segment in excerpt.segments
    ]
