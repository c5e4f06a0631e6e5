"""Write a run's model calls to a file, so that the run can be replayed from it (`runner.models.recording`)."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from benchapp.experiments.plans import spec_of
from benchapp.management.lookups import end_on, find_run, name_recording
from benchapp.models import Attempt, Blob, ModelCall, Run
from benchapp.record import recorded
from runner.base.errors import RunnerError, SetupError
from runner.base.types import ModelRequest
from runner.models.recording import FORMAT, SUFFIX, request_digest, shorten_request, write_recording
from runner.protocols.recorder import AGENT_CALLS


def export_recording(run: Run, path: Path) -> tuple[int, int]:
    """Write the run's answered calls in their order. Return how many, and how many were left out: calls that failed,
    and those of attempts that did not count. Raise SetupError if they were not kept or the run is open.

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
        # The author's window, which cut its prompts: a replay must cut them alike. None without a preset's.
        "context_window": ((run.setup.get("author") or {}).get("preset") or {}).get("context_window"),
        "calls": len(calls),
        "left_out": total - len(calls),
    }
    write_recording(path, head, _build_lines(calls))
    return len(calls), total - len(calls)


def _list_counting(run: Run) -> Iterator[ModelCall]:
    """Yield answered calls, except those of attempts that do not count: a replay makes each trial once."""
    attempts = Attempt.objects.filter(trial__episode__run=run, counts=True).select_related("trial__task")
    counting = {  # episode, and the key of a conversation without its turn
        (attempt.trial.episode_id, f"{AGENT_CALLS}/{recorded.slot_of(attempt.trial)}/{attempt.number}")
        for attempt in attempts
    }
    for call in ModelCall.objects.filter(episode__run=run, status=ModelCall.Status.ANSWERED).order_by("id"):
        if call.purpose != AGENT_CALLS or (call.episode_id, call.key.rpartition("/")[0]) in counting:
            yield call


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


class Command(BaseCommand):
    help = "Records every model call of a finished run in a file. Use it to replay the run offline."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("run", type=uuid.UUID, help="run id, from its page")
        parser.add_argument("file", help=f"a path, or a bare name in the recordings folder ({SUFFIX} is added)")

    def handle(self, *args: Any, **options: Any) -> None:
        run, path = find_run(options["run"]), name_recording(options["file"])
        with end_on(RunnerError, OSError):
            calls, left_out = export_recording(run, path)
        self.stdout.write(f"{path}: {calls:,} calls, {left_out:,} left out")
        name = f"recorded/{path.name.removesuffix(SUFFIX)}"
        self.stdout.write(
            f"To replay it, launch the experiment file again with agent_model and author_model {name},"
            f" conditions [{run.condition}], replicates 1 and seed {run.seed}."
        )
