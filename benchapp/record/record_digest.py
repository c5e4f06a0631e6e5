"""One digest for an experiment's whole record, equal wherever the same record is.

Covered: everything that a run or an import records, contents by their digests. Left out: database keys, hosts and
worker names, where and when an import was read, human acts. Digest = SHA-256 over canonical JSON lines: one for the
experiment, then run by run its trials, decisions and spine, in a fixed order. Memory: one run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import datetime

from django.db.models import Model

from benchapp import models
from benchapp.record.recorded import BOUND_OF
from runner.base.digests import canonical_json
from runner.base.errors import RunnerError

FORMAT = "record/1"

_RUN = ("condition", "replicate", "harness", "harness_version", "agent_model", "author_model", "seed", "setup_digest")
# Not whose library it was: that run may be deleted, or missing here.
_PROBE = ("state", "reverted", "reverted_digest", "times")
_TRIAL = ("phase", "sample", "status", "success", "reward", "outcome", "process", "overall", "exception_type")
_ATTEMPT = (
    "number counts status started_at finished_at started_text finished_text turns input_tokens cached_tokens "
    "output_tokens cost_usd exception_type exception_id source_tokens source_config_id"
).split()
_VERDICT = (
    "source verifier_digest is_primary success reward outcome process overall rewards output_id duration_seconds"
).split()
_CHECK = ("group", "name", "status", "message", "duration_seconds")
_DIMENSION = ("name", "score", "max_score", "weight", "reason")
_TRAJECTORY = ("name", "kind", "digest", "source_format", "steps_total", "is_superseded")
# What else a reader finds; not in the digest.
_READ = ("agent_seconds", "verifier_seconds", "exception_message", "estimated_usd")
_READ_OF_TRAJECTORY = (
    "name source_path agent_name agent_version model input_tokens cached_tokens output_tokens cost_usd extra".split()
)
_DECISION = (
    "number round mode answer status operation_type summary findings error patch_id lines_added lines_removed "
    "decided_at"
).split()

_CALL = (
    "key purpose model scripted status request_id reply_id input_tokens cached_tokens output_tokens cost_usd "
    "started_at finished_at"
).split()


def record_digest(experiment: models.Experiment) -> str:
    """Return 64 hex characters."""
    whole = hashlib.sha256()
    for line in record_lines(experiment):
        whole.update(canonical_json(line) + b"\n")
    return whole.hexdigest()


def record_lines(experiment: models.Experiment) -> Iterator[list[object]]:
    """Yield what the digest covers, in its order."""
    suite = experiment.suite
    yield [FORMAT, str(experiment.public_id), experiment.name, suite.key if suite else None, experiment.spec]
    for run in experiment.runs.order_by("public_id"):
        agent = ("author_agent",) if run.author_agent else ()  # so that others keep their digest
        yield ["run", str(run.public_id), _values(run, (*_RUN, *agent)), run.scripted]
        for probe in models.Probe.objects.filter(run=run).select_related("frozen", "library"):
            yield ["probe", _values(probe, _PROBE), probe.frozen.digest, probe.library.digest]
        for episode in run.episodes.order_by("key"):
            yield ["episode", episode.key, episode.protocol, episode.is_ordered, episode.is_tainted]
            trials = episode.trials.select_related("task", "task_revision", "snapshot").prefetch_related(
                "attempts__verdicts__checks",
                "attempts__verdicts__dimensions",
                "attempts__trajectories__compactions",
                "attempts__skill_uses",
                "retrieved__task",
            )
            for trial in trials.order_by("phase", "task__key", "sample"):
                yield ["trial", *_trial(trial)]
            decisions = episode.decisions.select_related("family", "after_trial__task", "before", "after")
            for decision in decisions.prefetch_related("evidence__trial__task", "evidence__compaction"):
                yield ["decision", *_decision(decision)]
            for call in episode.calls.prefetch_related("trajectories").order_by("key", "id"):
                yield ["call", *_call(call)]
            yield ["library", episode.library.digest if episode.library else None]
            yield from (["entry", entry.sequence, entry.kind, _target(entry)] for entry in episode.entries.in_order())


def _values(row: Model, names: tuple[str, ...] | list[str]) -> dict[str, object]:
    return {name: _plain(getattr(row, name)) for name in names}


def _plain(value: object) -> object:
    return value.isoformat() if isinstance(value, datetime) else value


def _slot(trial: models.Trial) -> tuple[str, str, int]:
    return trial.phase, trial.task.key, trial.sample


def _trial(trial: models.Trial) -> list[object]:
    revision = trial.task_revision.digest if trial.task_revision else None
    given = trial.snapshot.digest if trial.snapshot else None
    attempts = sorted(trial.attempts.all(), key=lambda attempt: attempt.number)
    start = [revision, given, sorted(_slot(shown) for shown in trial.retrieved.all())]
    return [_slot(trial), start, _values(trial, _TRIAL), [_attempt(attempt) for attempt in attempts]]


def _attempt(attempt: models.Attempt) -> tuple[dict[str, object], list[object], list[object], list[object]]:
    verdicts: list[object] = [
        [
            _values(verdict, (*_VERDICT, "notes") if verdict.notes else _VERDICT),  # so that others keep their digest
            [_values(check, _CHECK) for check in verdict.checks.all()],
            [_values(dimension, _DIMENSION) for dimension in verdict.dimensions.all()],
        ]
        for verdict in sorted(attempt.verdicts.all(), key=lambda item: (item.source, item.verifier_digest))
    ]
    trajectories: list[object] = [
        [
            _values(trajectory, _TRAJECTORY),
            sorted(
                [found.kind, found.version, found.text_id, found.spans_id] for found in trajectory.compactions.all()
            ),
        ]
        for trajectory in sorted(attempt.trajectories.all(), key=lambda item: (item.name, item.digest))
    ]
    uses = sorted((use.skill, use.kind, use.step or 0, use.path) for use in attempt.skill_uses.all())
    known = [name for name in BOUND_OF.values() if getattr(attempt, name) is not None]  # others keep their digest
    known += [name for name in ("files_digest", "lineage") if getattr(attempt, name)]
    return _values(attempt, (*_ATTEMPT, *known)), verdicts, trajectories, list(uses)


def _call(call: models.ModelCall) -> Iterator[object]:
    """Yield a call's values. What only an author's agent has is left out when empty: others keep their digest."""
    known = [name for name in BOUND_OF.values() if getattr(call, name) is not None]
    yield _values(call, (*_CALL, *known))
    if session := sorted(call.trajectories.all(), key=lambda item: (item.name, item.digest)):
        yield [_values(trajectory, _TRAJECTORY) for trajectory in session]


def reading_of(attempt: models.Attempt) -> list[object]:
    """Return all that readers found in an attempt's source, without number and status, to compare readings."""
    values, *below = _attempt(attempt)
    own = {name: value for name, value in values.items() if name not in ("number", "counts", "status")}
    trajectories = [_values(found, _READ_OF_TRAJECTORY) for found in attempt.trajectories.order_by("ordinal", "name")]
    return [own, _values(attempt, _READ), below, trajectories]


def _decision(decision: models.Decision) -> list[object]:
    evidence = [[_slot(item.trial), item.compaction and item.compaction.text_id] for item in decision.evidence.all()]
    libraries = [decision.before.digest, decision.after.digest]
    followed = decision.after_trial and _slot(decision.after_trial)
    return [_values(decision, _DECISION), decision.family.key, followed, libraries, evidence]


def _target(entry: models.Entry) -> object:
    match entry.target:
        case models.Attempt() as attempt:
            return _slot(attempt.trial)
        case models.Decision() as decision:
            return decision.number
        case models.Seeding() as seeding:
            return [seeding.family.key, seeding.snapshot.digest]
        case models.Seal() as seal:
            return [seal.seal, seal.setup_digest, seal.library_digest, _plain(seal.sealed_at)]
        case models.Refusal() as refusal:
            return [refusal.trial and _slot(refusal.trial), refusal.paths, refusal.reason]
        case models.Skip() as skip:
            return [_slot(skip.trial), skip.reason]
    raise RunnerError(f"entry {entry.sequence} of {entry.episode_id} points at nothing")
