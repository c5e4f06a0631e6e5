"""Write a run's model calls to a file, so that the run can be replayed from it (`runner.models.recording`)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchapp.experiments.plans import spec_of
from benchapp.models import Attempt, Blob, ModelCall, Run
from benchapp.record import recorded
from runner.base.digests import canonical_json
from runner.base.errors import SetupError
from runner.base.types import ModelRequest
from runner.engine.model_calls import PURPOSE as AGENT_CALLS
from runner.models.recording import FORMAT, request_digest, shorten_request


@dataclass(frozen=True, slots=True)
class WrittenRecording:
    """How many calls a file of a recording holds."""

    calls: int
    left_out: int  # calls that failed, and those of attempts that did not count


def export_recording(run: Run, path: Path) -> WrittenRecording:
    """Write the run's answered calls in their order. Raise SetupError if they were not kept or the run is open.

    Memory: one conversation of the run.
    """
    if run.is_open:
        raise SetupError(f"run {run.public_id} is {run.status}: record it after it has ended")
    if run.agent_model and not spec_of(run).record:
        raise SetupError(f"run {run.public_id}: its agent's calls were not kept; launch it with `record: true`")
    calls = list(_list_counting(run))
    total = ModelCall.objects.filter(episode__run=run).count()
    head = {
        "format": FORMAT,
        "run": str(run.public_id),
        "setup_digest": run.setup_digest,
        "models": sorted({call.model for call in calls}),
        "price_table": ", ".join(sorted({call.price_table for call in calls if call.price_table})),
        "context_window": _read_context_window(run),
        "calls": len(calls),
        "left_out": total - len(calls),
    }
    part = path.with_name(f"{path.name}.part")
    with part.open("wb") as file:
        file.write(canonical_json(head) + b"\n")
        for line in _build_lines(calls):
            file.write(canonical_json(line) + b"\n")
    part.replace(path)
    return WrittenRecording(len(calls), total - len(calls))


def _read_context_window(run: Run) -> int | None:
    """Return the author's window, which cut its prompts: a replay must cut them alike. None without a preset's."""
    preset = (run.setup.get("author") or {}).get("preset") or {}
    return preset.get("context_window")


def _list_counting(run: Run) -> Iterator[ModelCall]:
    """Yield answered calls, except those of attempts that do not count: a replay makes each trial once."""
    counting = _read_conversations(run)
    for call in ModelCall.objects.filter(episode__run=run, status=ModelCall.Status.ANSWERED).order_by("id"):
        if call.purpose != AGENT_CALLS or (call.episode_id, call.key.rpartition("/")[0]) in counting:
            yield call


def _read_conversations(run: Run) -> set[tuple[int, str]]:
    """Return (episode, key without its turn) of every attempt that counts."""
    attempts = Attempt.objects.filter(trial__episode__run=run, counts=True).select_related("trial__task")
    return {
        (attempt.trial.episode_id, f"{AGENT_CALLS}/{recorded.slot_of(attempt.trial)}/{attempt.number}")
        for attempt in attempts
    }


def _build_lines(calls: list[ModelCall]) -> Iterator[dict[str, object]]:
    """Build the lines. Episodes may have run in parallel: each keeps the latest turn of its own conversation."""
    latest: dict[int, tuple[str, ModelRequest, str]] = {}  # episode -> key, request, its digest
    for call in calls:
        before = latest.get(call.episode_id)
        request = recorded.read_request(call, (before[0], before[1]) if before else None)
        digest = request_digest(request)
        goes_on = before is not None and before[0].rpartition("/")[0] == call.key.rpartition("/")[0]
        yield {
            "purpose": call.purpose,
            "place": call.key.removeprefix(f"{AGENT_CALLS}/"),
            "model": call.model,
            "digest": digest,
            "request": shorten_request(request, before[1] if before and goes_on else None, before[2] if before else ""),
            "reply": json.loads(Blob.objects.read(call.reply_id)) if call.reply_id else None,
        }
        if call.purpose == AGENT_CALLS:
            latest[call.episode_id] = (call.key, request, digest)
