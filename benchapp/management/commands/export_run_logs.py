"""One run as run logs, a log for each episode, in the open format that imports read (docs/reference/run-log.md)."""

from __future__ import annotations

import argparse
import uuid
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson
from django.core.management.base import BaseCommand

from benchapp.exports.harbor_export import select_trajectories
from benchapp.management.lookups import end_on, find_run
from benchapp.models import Attempt, Blob, Decision, Episode, Run, Snapshot
from benchapp.record.recorded import usage_of
from benchapp.record.trajectory_store import iterate_lines
from skillglass import run_log

PASSED = {"passed": True, "failed": False, "error": None}


class Command(BaseCommand):
    help = "Writes one run as run logs, one for each episode: an open format that other programs can read."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("run", type=uuid.UUID, help="run id, from its address")
        parser.add_argument("folder", type=Path, help="new or empty folder")

    def handle(self, *args: Any, **options: Any) -> None:
        with end_on(OSError):
            written, not_run = write_run_logs(find_run(options["run"]), options["folder"])
        self.stdout.write(f"{written:,} trials in {options['folder']}")
        if not_run:
            self.stdout.write(f"{not_run:,} planned trials have no counted attempt and are left out")


def write_run_logs(run: Run, folder: Path) -> tuple[int, int]:
    """Write a folder for each episode below `folder`. Raise FileExistsError unless it is empty or missing. Return how
    many trials were written, and how many planned trials have no attempt that counts. Sub-agents, and attempts that
    do not count, are left out."""
    if folder.exists() and any(folder.iterdir()):
        raise FileExistsError(f"{folder}: expected a new or an empty folder")
    written = planned = 0
    for episode in run.episodes.order_by("ordinal", "pk"):
        written += _write_episode(run, episode, folder)
        planned += episode.trials.count()
    return written, planned - written


def _write_episode(run: Run, episode: Episode, folder: Path) -> int:
    head: dict[str, object] = {
        "id": str(episode.public_id),
        "experiment": run.experiment.name,
        "suite": run.experiment.suite.key if run.experiment.suite else run.experiment.name,
        "condition": run.condition,
        "agent_model": run.agent_model,
        "author_model": run.author_model,
        "harness": run.harness,
        "replicate": run.replicate,
        "config": {},
    }
    log = run_log.Run(folder / f"{episode.ordinal:03}-{str(episode.public_id)[:8]}", head)
    attempts = Attempt.objects.filter(trial__episode=episode, counts=True).select_related(
        "trial__task__family", "trial__snapshot", "exception"
    )
    attempts = attempts.prefetch_related("verdicts__checks", "trajectories")
    on_spine = set[int]()
    for entry in episode.entries.in_order():
        log.at = _moment(entry.recorded_at)
        if entry.attempt_id is not None:
            on_spine.add(entry.attempt_id)
            _write_trial(log, attempts.get(pk=entry.attempt_id))
        elif entry.decision is not None:
            _write_decision(log, entry.decision)
        elif entry.seeding is not None:
            log.seed(_skills(entry.seeding.snapshot))
        elif entry.seal is not None:
            log.freeze(_skills(entry.seal.snapshot))
    for attempt in attempts.exclude(pk__in=on_spine).order_by("trial__pk").iterator(chunk_size=50):
        on_spine.add(attempt.pk)
        _write_trial(log, attempt)
    log.finish()
    return len(on_spine)


def _write_trial(log: run_log.Run, attempt: Attempt) -> None:
    row = attempt.trial
    log.at = _moment(attempt.started_at or attempt.finished_at) or log.at
    trial = log.trial(
        row.task.key,
        row.phase,
        id=str(row.public_id),
        skills=_skills(row.snapshot) if row.snapshot else {},
        title=row.task.title,
        family=row.task.family.key if row.task.family else "",
    )
    for trajectory in select_trajectories(attempt)[:1]:
        for lines in iterate_lines(trajectory):
            trial.log(*map(orjson.loads, lines))
    verdict = next((verdict for verdict in attempt.verdicts.all() if verdict.is_primary), None)
    for check in verdict.checks.all() if verdict else ():
        passed = PASSED.get(check.status, check.status)
        trial.check(check.name, passed, check.message, group=check.group)
    for name, value in verdict.rewards.items() if verdict else ():
        if value is not None:
            trial.score(name, value)
    used = usage_of(attempt)
    trial.add_usage(
        input_tokens=used.input_tokens,
        cached_tokens=used.cached_tokens,
        output_tokens=used.output_tokens,
        cost_usd=used.cost_usd,
    )
    log.at = _moment(attempt.finished_at) or log.at
    output = Blob.objects.read(verdict.output_id) if verdict and verdict.output_id else b""
    trial.end(
        verdict.success if verdict else None,
        verdict.reward if verdict else None,
        judge=verdict.source if verdict else "",
        output=output.decode("utf-8", "replace"),
        error=(attempt.exception_type, attempt.exception_message) if attempt.exception_type else None,
    )


def _write_decision(log: run_log.Run, decision: Decision) -> None:
    before = _skills(decision.before)
    proposed = _skills(decision.after)
    patch = decision.read_patch()
    if patch is not None and not decision.changed_library:  # what it proposed and the library did not take
        changed = {path: (text.encode(), run_log.PLAIN) for path, text in patch.upsert_files.items()}
        proposed = {path: file for path, file in {**before, **changed}.items() if path not in patch.delete_paths}
    log.decision(
        proposed,
        before=before,
        status=decision.status,
        reason=decision.summary or decision.error,
        reply=patch.summary if patch and patch.summary != decision.summary else "",
        evidence=[str(ident) for ident in decision.evidence.values_list("trial__public_id", flat=True)],
    )


def _skills(snapshot: Snapshot) -> dict[str, tuple[bytes, int]]:
    return {path: (file.content, file.mode) for path, file in snapshot.read().items()}


def _moment(value: datetime | None) -> str | None:
    return value.isoformat() if value else None
