"""The step an agent is at, in a line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from benchapp.experiments.work.progress import AtWork
from benchapp.models import User
from benchapp.review.blinding import closed_trials

MAX_SAID = 200  # characters
CLOSED = "closed to you until your blind review is submitted"


def without_closed(user: User, working: list[AtWork]) -> list[AtWork]:
    """Hides the steps of trials whose own pages are closed to this blind reviewer. One query."""
    told = {row.attempt.trial_id for row in working if row.step is not None}
    closed = set(closed_trials(user).filter(pk__in=told).values_list("pk", flat=True)) if told else set()
    return [replace(row, step=_close_step(row.step)) if row.attempt.trial_id in closed else row for row in working]


def _close_step(step: Mapping[str, object] | None) -> Mapping[str, object]:
    return {"step_id": (step or {}).get("step_id", "?"), "message": CLOSED}


def in_a_line(step: Mapping[str, object] | None) -> str:
    """`step` as live.latest_of gives it, an ATIF step: "step 6 · shell · python merge.py ..."; "" without a step."""
    if step is None:
        return ""
    calls = step.get("tool_calls")
    call = calls[0] if isinstance(calls, list) and calls and isinstance(calls[0], dict) else {}
    arguments = call.get("arguments")
    texts = list(arguments.values()) if isinstance(arguments, dict) else []
    said = next((text for text in [*texts, step.get("message")] if isinstance(text, str) and text.strip()), "")
    place = f"step {step.get('step_id', '?')}"
    parts = [place, call.get("function_name") or "", " ".join(said.split())[:MAX_SAID]]
    return " · ".join(part for part in parts if part)
