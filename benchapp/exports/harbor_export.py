"""One run as a Harbor job directory, for `harbor view` and anything else that reads Harbor's files.

Harbor has one attempt per trial and no library, so the counting attempt of every trial is written. Anything without a
place in Harbor (phase, sample, library, decisions) is put under `metadata` or left out. Memory: one chunk of steps.

An attempt is one ATIF document (Harbor's trajectory.json): the main trajectory, with its sub-agents inside. Steps are
stored as ATIF writes them, so most are copied unchanged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from benchapp.models import Attempt, Blob, Run, Trajectory, Trial, Verdict
from benchapp.models.trajectories import main_first
from benchapp.record.recorded import read_head, usage_of
from benchapp.record.trajectory_store import iterate_lines
from runner.base.types import CheckStatus, Usage
from runner.trajectories.atif_values import document_frame

Json = dict[str, Any]  # written here, member by member


def select_trajectories(attempt: Attempt) -> list[Trajectory]:
    """Return trajectories with steps that nothing superseded, the main one first."""
    return main_first(each for each in attempt.trajectories.all() if not each.is_superseded and each.steps_total)


def atif_pieces(attempt: Attempt, trajectories: Sequence[Trajectory]) -> Iterator[bytes]:
    """Yield the document in pieces. `trajectories`: at least one, as from `select_trajectories`."""
    main, *others = trajectories
    yield from _write_opening(_frame(main, usage_of(attempt)), main)
    if others:
        yield b', "subagent_trajectories": ['
        for place, other in enumerate(others):
            yield b", " if place else b""
            yield from _write_opening({"trajectory_id": other.name, **_frame(other, usage_of(other))}, other)
            yield b"}"
        yield b"]"
    yield b"}\n"


def _write_opening(frame: Json, trajectory: Trajectory) -> Iterator[bytes]:
    """Write everything except the closing brace."""
    yield json.dumps(frame, ensure_ascii=False, allow_nan=False).encode()[:-1] + b', "steps": ['
    for place, lines in enumerate(iterate_lines(trajectory)):
        yield (b",\n" if place else b"\n") + b",\n".join(lines)
    yield b"\n]"


def _frame(trajectory: Trajectory, usage: Usage) -> Json:
    extra = {**trajectory.extra, "kind": trajectory.kind, "digest": trajectory.digest}
    return document_frame(replace(read_head(trajectory), extra=extra), usage, trajectory.steps_total)


TASK_CHARS = 32  # of a task's name in its trial's, as Harbor cuts it
IDENT_CHARS = 7
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_CTRF = {CheckStatus.PASSED: "passed", CheckStatus.FAILED: "failed", CheckStatus.SKIPPED: "skipped"}


def write_harbor_job(run: Run, folder: Path) -> tuple[int, int, int]:
    """Write the job's files below `folder`. Raise FileExistsError unless it is empty or missing. Return how many trials
    and trajectories were written, and how many planned trials have no attempt that counts: Harbor can only hold their
    number."""
    if folder.exists() and any(folder.iterdir()):
        raise FileExistsError(f"{folder}: expected a new or an empty folder")
    folder.mkdir(parents=True, exist_ok=True)
    written = trajectories = 0
    stats = _Stats(run)
    attempts = Attempt.objects.filter(trial__episode__run=run, counts=True).select_related(
        "trial__task__suite", "trial__task_revision", "trial__episode", "trial__snapshot", "exception"
    )
    attempts = attempts.prefetch_related("verdicts__checks", "trajectories", "skill_uses")
    for attempt in attempts.order_by("trial__episode__ordinal", "trial__pk").iterator(chunk_size=200):
        result = _trial_result(run, attempt, folder.name)
        trajectories += _write_trial(folder / result["trial_name"], result, attempt)
        stats.add(result)
        written += 1
    total = Trial.objects.filter(episode__run=run).count()
    agent = {"name": run.harness, "model_name": run.agent_model}
    _dump(folder / "config.json", {"job_name": folder.name, "jobs_dir": "jobs", "n_attempts": 1, "agents": [agent]})
    _dump(folder / "result.json", stats.job_result(total))  # last: for Harbor, a job without one is unfinished
    return written, trajectories, total - written


# --- documents --------------------------------------------------------------------------------------------------


def trial_name(task: str, ident: UUID) -> str:
    """Return a name that is safe for a folder, for any name of a task."""
    short = _UNSAFE.sub("-", task.rpartition("/")[2])[:TASK_CHARS].strip(".-") or "task"
    return f"{short}__{ident.hex[:IDENT_CHARS]}{ident.hex[-IDENT_CHARS:]}"


def _trial_config(run: Run, trial: Trial, name: str, job: str) -> Json:
    return {
        "task": {"path": trial.task.key, "source": trial.task.suite.key},
        "trial_name": name,
        "trials_dir": f"jobs/{job}",
        "agent": {"name": run.harness, "model_name": run.agent_model},
        "job_id": str(run.public_id),
    }


def _trial_result(run: Run, attempt: Attempt, job: str) -> Json:
    trial = attempt.trial
    name = trial_name(trial.task.key, trial.public_id)
    provider, _, model = run.agent_model.rpartition("/")
    return {
        "id": str(trial.public_id),
        "task_name": trial.task.key,
        "trial_name": name,
        "trial_uri": f"skillglass:trials/{trial.public_id}",
        "task_id": {"path": trial.task.key},
        "source": trial.task.suite.key,
        "task_checksum": trial.task_revision.digest if trial.task_revision else "unknown",
        "config": _trial_config(run, trial, name, job),
        "agent_info": {
            "name": run.harness,
            "version": run.harness_version or "unknown",
            "model_info": {"name": model, "provider": provider or None},
        },
        "agent_result": {
            "n_input_tokens": attempt.input_tokens,
            "n_cache_tokens": attempt.cached_tokens,
            "n_output_tokens": attempt.output_tokens,
            "cost_usd": attempt.cost_usd,
            "metadata": _metadata(run, attempt),
        },
        "verifier_result": _verifier_result(_verdict(attempt)),
        "exception_info": _exception_info(attempt),
        "started_at": _moment(attempt.started_at),
        "finished_at": _moment(attempt.finished_at),
    }


def _metadata(run: Run, attempt: Attempt) -> Json:
    """Return what Harbor has no field for and its viewer shows unchanged."""
    trial = attempt.trial
    return {
        "skillglass": {
            "run": str(run.public_id),
            "condition": run.condition,
            "author_model": run.author_model,
            **({"author_agent": run.author_agent} if run.author_agent else {}),
            "scripted_model": run.scripted,
            "episode": trial.episode.key,
            "phase": trial.phase,
            "sample": trial.sample,
            "library_digest": trial.snapshot.digest if trial.snapshot else None,
            "skill_uses": [[use.kind, use.skill, use.step] for use in attempt.skill_uses.all()],
        }
    }


def _verdict(attempt: Attempt) -> Verdict | None:
    return next((verdict for verdict in attempt.verdicts.all() if verdict.is_primary), None)


def _verifier_result(verdict: Verdict | None) -> Json | None:
    """Return None if there is nothing to write: Harbor's viewer counts a missing reward as 0, its files need not."""
    if verdict is None:
        return None
    rewards = {name: value for name, value in verdict.rewards.items() if isinstance(value, int | float)}
    reward = verdict.reward
    if reward is None and verdict.success is not None and not rewards:
        reward = float(verdict.success)
    if reward is not None:
        rewards["reward"] = reward
    return {"rewards": rewards} if rewards else None


def _exception_info(attempt: Attempt) -> Json | None:
    if not attempt.exception_type:
        return None
    return {
        "exception_type": attempt.exception_type,
        "exception_message": attempt.exception_message,
        "exception_traceback": attempt.exception.text() if attempt.exception else "",
        "occurred_at": _moment(attempt.finished_at) or "1970-01-01T00:00:00Z",  # Harbor has no value for "unknown"
    }


def _moment(value: datetime | None) -> str | None:
    return value.isoformat().replace("+00:00", "Z") if value else None


# --- files ------------------------------------------------------------------------------------------------------


def _write_trial(folder: Path, result: Json, attempt: Attempt) -> int:
    """Write a trial and return the number of its trajectories."""
    folder.mkdir()
    _dump(folder / "config.json", result["config"])
    if verdict := _verdict(attempt):
        _write_verifier(folder / "verifier", verdict, result["verifier_result"])
    if info := result["exception_info"]:
        (folder / "exception.txt").write_text(info["exception_traceback"] or info["exception_message"], "utf-8")
    trajectories = select_trajectories(attempt)
    if trajectories:
        (folder / "agent").mkdir()
        with (folder / "agent" / "trajectory.json").open("wb") as stream:
            stream.writelines(atif_pieces(attempt, trajectories))
    _dump(folder / "result.json", result)
    return len(trajectories)


def _write_verifier(folder: Path, verdict: Verdict, result: Json | None) -> None:
    folder.mkdir()
    if result:
        _dump(folder / "reward.json", result["rewards"])
    if verdict.output_id:
        (folder / "test-stdout.txt").write_bytes(Blob.objects.read(verdict.output_id))
    checks = list(verdict.checks.all())
    if checks:
        tests = [
            {
                "name": check.name,
                "status": _CTRF.get(CheckStatus(check.status), "other"),
                "duration": check.duration_seconds or 0,
                **({"message": check.message} if check.message else {}),
                "tags": [check.group],
            }
            for check in checks
        ]
        _dump(folder / "ctrf.json", {"results": {"tool": {"name": verdict.source}, "tests": tests}})


def _dump(path: Path, value: Json) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, allow_nan=False, indent=2) + "\n", "utf-8")


# --- sums -------------------------------------------------------------------------------------------------------


class _Stats:
    """The job's own sums, added up from its trials' results."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.evals: dict[str, Json] = {}
        self.totals: dict[str, float | None] = {}
        self.errors = self.trials = 0
        self.times: list[str] = []

    def add(self, result: Json) -> None:
        self.trials += 1
        self.times += [result[name] for name in ("started_at", "finished_at") if result[name]]
        for name in ("n_input_tokens", "n_cache_tokens", "n_output_tokens", "cost_usd"):
            value = result["agent_result"][name]
            if value is not None:
                self.totals[name] = (self.totals.get(name) or 0) + value
        key = f"{self.run.harness}__{result['agent_info']['model_info']['name']}__{result['source']}"
        stats = self.evals.setdefault(key, {"n_trials": 0, "n_errors": 0, "reward_stats": {}, "exception_stats": {}})
        if verifier := result["verifier_result"]:
            stats["n_trials"] += 1
            for name, value in verifier["rewards"].items():
                rewards = stats["reward_stats"].setdefault(name, {})
                rewards.setdefault(str(value), []).append(result["trial_name"])
        if info := result["exception_info"]:
            self.errors += 1
            stats["n_errors"] += 1
            stats["exception_stats"].setdefault(info["exception_type"], []).append(result["trial_name"])

    def job_result(self, planned: int) -> Json:
        return {
            "id": str(self.run.public_id),
            "started_at": min(self.times, default=_moment(self.run.created_at)),
            "finished_at": max(self.times, default=_moment(self.run.created_at)),
            "n_total_trials": planned,
            "stats": {
                "n_completed_trials": self.trials,
                "n_errored_trials": self.errors,
                "n_pending_trials": planned - self.trials,
                "evals": self.evals,
                **self.totals,
            },
        }
