"""The step an agent is at, in a line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from benchapp.experiments.work.progress import AtWork
from benchapp.review.blinding import Words, hidden_until

MAX_SAID = 200  # characters


def without_closed(words: Words, working: list[AtWork]) -> list[AtWork]:
    """Hide the steps of trials that are closed to this reader."""
    return [_close(row, words) if row.step else row for row in working]


def _close(row: AtWork, words: Words) -> AtWork:
    trial = row.attempt.trial
    queue = words.closing_trial(trial.task_id, trial.episode.key)
    if queue is None or row.step is None:
        return row
    return replace(row, step={"step_id": row.step.get("step_id", "?"), "message": hidden_until(queue)})


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
