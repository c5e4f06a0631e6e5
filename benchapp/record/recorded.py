"""Read an episode's record back into the runner's values: exactly what a recorder was given."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace

from benchapp import models
from benchapp.models.trials import USAGE
from benchapp.record.trajectory_store import iterate_steps
from runner.base.digests import EMPTY_LIBRARY
from runner.base.encoding import decode
from runner.base.errors import RunnerError
from runner.base.types import (
    AuthorMode,
    Check,
    CheckGroup,
    CheckStatus,
    CompactionKind,
    DecisionStatus,
    Dimension,
    Files,
    ModelReply,
    ModelRequest,
    Phase,
    Role,
    Span,
    TrajectoryHead,
    TrajectoryKind,
    TrialSlot,
    Usage,
    Verdict,
)
from runner.base.types import Compaction as CompactionValue
from runner.base.types import Trajectory as TrajectoryValue
from runner.models.recording import CONTINUES, is_continuation, lengthen_request
from runner.protocols import recorder as events


def slot_of(trial: models.Trial) -> TrialSlot:
    """Return the trial's slot. Needs trial.task."""
    return TrialSlot(Phase(trial.phase), trial.task.key, trial.sample)


# Of attempts and calls: the column with the known part of a sum that is unknown as a whole.
BOUND_OF = {"input_tokens": "input_at_least", "output_tokens": "output_at_least", "cost_usd": "priced_usd"}


def usage_fields(usage: Usage) -> dict[str, float | None]:
    """Return usage as the columns that attempts, calls and trajectories share."""
    return {name: getattr(usage, name) for name in USAGE}


def billed_fields(usage: Usage) -> dict[str, float | None]:
    """Return the same as the columns of an attempt or a call: some of its parts may lack usage data."""
    return {**usage_fields(usage), **{name: getattr(usage, name) for name in BOUND_OF.values()}}


def read_history(episode: models.Episode) -> events.History:
    """Return the spine with everything on it, in two queries for any length."""
    entries = list(models.Entry.objects.filter(episode=episode).in_order())
    # Trial -> the trials it was shown, in the order shown. They are earlier on the same spine.
    slots = {entry.attempt.trial_id: slot_of(entry.attempt.trial) for entry in entries if entry.attempt}
    shown: defaultdict[int, list[TrialSlot]] = defaultdict(list)
    links = models.Trial.retrieved.through.objects.filter(from_trial__episode=episode).order_by("id")
    for trial, earlier in links.values_list("from_trial_id", "to_trial_id"):
        shown[trial].append(slots[earlier])
    retrieved = {trial: tuple(earlier) for trial, earlier in shown.items()}
    return tuple(events.Entry(entry.sequence, _event(entry, retrieved)) for entry in entries)


def _event(entry: models.Entry, retrieved: dict[int, tuple[TrialSlot, ...]]) -> events.Event:
    match entry.target:
        case models.Attempt() as attempt:
            task = attempt.trial.task
            return events.TrialDone(
                slot=slot_of(attempt.trial),
                family=task.family.key if task.family else "",
                role=Role(task.role) if task.role else None,
                success=attempt.trial.success,
                snapshot=attempt.trial.snapshot.digest if attempt.trial.snapshot else EMPTY_LIBRARY,
                retrieved=retrieved.get(attempt.trial.pk, ()),
            )
        case models.Decision() as decision:
            return events.Decided(
                number=decision.number,
                round=decision.round,
                family=decision.family.key,
                mode=AuthorMode(decision.mode),
                after_trial=None if decision.after_trial is None else slot_of(decision.after_trial),
                answer=decision.answer,
                status=DecisionStatus(decision.status),
                snapshot=decision.after.digest,
            )
        case models.Seeding() as seeding:
            return events.Seeded(seeding.family.key, seeding.snapshot.digest)
        case models.Seal() as seal:
            return events.Frozen(seal.snapshot.digest, seal.library_digest, seal.setup_digest, seal.seal)
        case models.Refusal() as refusal:
            slot = None if refusal.trial is None else slot_of(refusal.trial)
            return events.Refused(slot, tuple(refusal.paths), refusal.reason)
        case models.Skip() as skip:
            return events.Skipped(slot_of(skip.trial), skip.reason)
    raise RunnerError(f"entry {entry.sequence} of {entry.episode_id} points at nothing")


def read_library(digest: str) -> Files:
    """Return the files of a snapshot. RunnerError when it was never recorded; the empty library needs no row."""
    if digest == EMPTY_LIBRARY:
        return {}
    try:
        return models.Snapshot.objects.get(digest=digest).read()
    except models.Snapshot.DoesNotExist:
        raise RunnerError(f"no library with digest {digest} was recorded") from None


def find_compaction(trial: models.Trial, kind: CompactionKind) -> models.Compaction | None:
    """Return that of the counting attempt, as its author or agent received it."""
    rows = models.Compaction.objects.filter(trajectory__attempt=_counting(trial), kind=kind)
    return rows.select_related("text", "spans").order_by("id").first()


def read_compaction(trial: models.Trial, kind: CompactionKind) -> CompactionValue:
    row = find_compaction(trial, kind)
    if row is None:
        raise RunnerError(f"trial {trial.public_id} has no {kind} compaction")
    return CompactionValue(
        kind=CompactionKind(row.kind),
        version=row.version,
        text=row.text.content().decode(),
        tokens=row.tokens,
        spans=tuple(Span(*span) for span in json.loads(row.spans.content())),
        steps_total=row.steps_total,
        steps_kept=row.steps_kept,
    )


def read_trajectories(trial: models.Trial) -> tuple[TrajectoryValue, ...]:
    """Return those of the counting attempt, the main one first, without the logs they were read from."""
    rows = _counting(trial).trajectories.current().select_related("parent")
    parents = [row.parent.name if row.parent else None for row in rows]
    return tuple(
        TrajectoryValue(replace(read_head(row), parent=parent), tuple(iterate_steps(row)), usage_of(row))
        for row, parent in zip(rows, parents, strict=True)
    )


def usage_of(row: models.Attempt | models.Trajectory) -> Usage:
    return Usage(row.input_tokens, row.cached_tokens, row.output_tokens, row.cost_usd)


def read_head(row: models.Trajectory) -> TrajectoryHead:
    return TrajectoryHead(
        kind=TrajectoryKind(row.kind),
        name=row.name,
        source_format=row.source_format,
        agent_name=row.agent_name or None,
        agent_version=row.agent_version or None,
        model=row.model or None,
        skills_listed=tuple(row.extra.get("skills_listed", ())),
        extra=row.extra or None,
    )


def read_verdict(trial: models.Trial) -> Verdict | None:
    """Return the primary verdict of the counting attempt."""
    row = _counting(trial).verdicts.filter(is_primary=True).select_related("output").first()
    if row is None:
        return None
    return Verdict(
        source=row.source,
        success=row.success,
        reward=row.reward,
        outcome=row.outcome,
        process=row.process,
        overall=row.overall,
        checks=tuple(
            Check(CheckGroup(check.group), check.name, CheckStatus(check.status), check.message, check.duration_seconds)
            for check in row.checks.all()
        ),
        dimensions=tuple(
            Dimension(dimension.name, dimension.score, dimension.max_score, dimension.weight, dimension.reason)
            for dimension in row.dimensions.all()
        ),
        rewards=row.rewards,
        output=row.output.content().decode() if row.output else "",
        verifier_digest=row.verifier_digest,
        duration_seconds=row.duration_seconds,
        notes=tuple(row.notes),
    )


def read_reply(episode: models.Episode, key: str) -> ModelReply | None:
    call = episode.calls.filter(key=key, status=models.ModelCall.Status.ANSWERED).select_related("reply").first()
    return None if call is None or call.reply is None else decode(ModelReply, json.loads(call.reply.content()))


def read_request(call: models.ModelCall, before: tuple[str, ModelRequest] | None = None) -> ModelRequest:
    """Return what was sent. A turn adds to an earlier one: `before`, its key and request, saves reading it."""
    answered = models.ModelCall.objects.filter(episode=call.episode_id, status=models.ModelCall.Status.ANSWERED)
    chain = [json.loads(models.Blob.objects.read(call.request_id))]
    earlier: ModelRequest | None = None
    while is_continuation(chain[-1]):
        key = chain[-1][CONTINUES]
        if before is not None and before[0] == key:
            earlier = before[1]
            break
        chain.append(json.loads(models.Blob.objects.read(answered.values_list("request_id", flat=True).get(key=key))))
    request = lengthen_request(chain.pop(), earlier)
    while chain:
        request = lengthen_request(chain.pop(), request)
    return request


def _counting(trial: models.Trial) -> models.Attempt:
    attempt = trial.counting_attempt()
    if attempt is None:
        raise RunnerError(f"trial {trial.public_id} has no counting attempt")
    return attempt
