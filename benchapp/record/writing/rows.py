"""Write attempts (with trajectories, compactions and skill uses), decisions and entries of the spine: for a run, an
import, an operator, a fork or a synthetic campaign. Also trajectories of an author's session.

Contents are stored before the rows that point at them, outside the transaction: `pack_steps`, `pack_compaction` and
`pack_decision`, which also counts what changed and may take long. An entry and the row it points at are written in one
transaction. `Verdict.objects.record` writes verdicts, `Trial.settle` and `Trial.take_numbers` the numbers of the trial;
a seeding and a skip are plain rows. An archive copies entries as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

import orjson

from benchapp import models
from benchapp.models.blobs import BlobStore
from benchapp.models.episodes import Target
from benchapp.record.recorded import billed_fields
from benchapp.record.textual_change import ChangeCounts, measure_change
from benchapp.record.trajectory_store import PackedSteps, save_packed
from runner.base.digests import canonical_json
from runner.base.encoding import encode
from runner.base.text import cut, storable, storable_value
from runner.base.types import Compaction as CompactionValue
from runner.base.types import Patch, TrajectoryHead, Usage
from runner.base.types import SkillUse as UseValue
from runner.protocols.recorder import Frozen

MAX_EXCEPTION_MESSAGE = 2_000  # characters on the row; a blob has the traceback, or the whole log


@dataclass(frozen=True, slots=True)
class PackedTrajectory:
    """A trajectory without a row, whose contents are stored."""

    head: TrajectoryHead
    steps: PackedSteps
    reader_version: str
    usage: Usage = Usage()
    source: str | None = None  # digest of the log it was read from
    source_path: str = ""
    extra: Mapping[str, object] = field(default_factory=dict)
    compactions: tuple[models.Compaction, ...] = ()  # unsaved

    def row(
        self, owner: models.Attempt | models.ModelCall, ordinal: int = 0, parent: models.Trajectory | None = None
    ) -> models.Trajectory:
        """Return the unsaved row."""
        return models.Trajectory(
            **({"attempt": owner} if isinstance(owner, models.Attempt) else {"call": owner}),
            name=self.head.name[:300],
            kind=self.head.kind,
            parent=parent,
            ordinal=ordinal,
            digest=self.steps.digest,
            source_format=self.head.source_format[:64],
            source_path=self.source_path[:1000],
            source_id=self.source,
            reader_version=self.reader_version,
            steps_total=self.steps.steps_total,
            copied_steps=self.steps.copied_steps,
            agent_name=(self.head.agent_name or "")[:100],
            agent_version=(self.head.agent_version or "")[:100],
            model=(self.head.model or "")[:200],
            input_tokens=self.usage.input_tokens,
            cached_tokens=self.usage.cached_tokens,
            output_tokens=self.usage.output_tokens,
            cost_usd=self.usage.cost_usd,
            extra={**(self.head.extra or {}), **self.extra},
        )


def pack_compaction(value: CompactionValue, blobs: BlobStore | None = None) -> models.Compaction:
    """Store the contents and return the unsaved row. It lacks its trajectory."""
    spans = [[span.step, span.field, span.start, span.end, span.length, span.reason] for span in value.spans]
    # As `canonical_json` writes it: there are only whole numbers and plain names.
    text, places = (blobs or models.Blob.objects).put_many([storable(value.text).encode(), orjson.dumps(spans)])
    return models.Compaction(
        kind=value.kind,
        version=value.version,
        text_id=text,
        spans_id=places,
        tokens=value.tokens,
        steps_total=value.steps_total,
        steps_kept=value.steps_kept,
    )


def set_measured(attempt: models.Attempt, times: object, usage: Usage, turns: int | None) -> None:
    """`times`: has attributes of these names, each None if unknown."""
    for name in ("started_at", "finished_at", "agent_seconds", "verifier_seconds"):
        setattr(attempt, name, getattr(times, name))
    attempt.turns = turns
    set_usage(attempt, usage)


def set_usage(attempt: models.Attempt, usage: Usage) -> None:
    for name, value in billed_fields(usage).items():
        setattr(attempt, name, value)


def set_exception(attempt: models.Attempt, kind: str, message: str, whole: str | None) -> None:
    """Set the exception. kind: its type. whole: digest of its traceback, or of the whole log."""
    attempt.exception_type = storable(kind)[:200]
    attempt.exception_message = cut(storable(message), MAX_EXCEPTION_MESSAGE)
    attempt.exception_id = whole


def save_below(
    found: Sequence[tuple[models.Attempt, Sequence[PackedTrajectory], Iterable[UseValue]]],
) -> None:
    """Save the trajectories of saved attempts with their compactions, and skill uses, in as many statements for many
    attempts as for one. Parents come before their children; a use belongs to the trajectory it names, or to none."""
    rows = _save_all([(attempt, trajectories) for attempt, trajectories, _ in found])
    models.SkillUse.objects.bulk_create(
        models.SkillUse(
            attempt=attempt,
            trajectory=named.get(use.trajectory),
            step=use.step,
            skill=storable(use.skill)[:200],
            kind=use.kind,
            path=storable(use.path or "")[:1000],
        )
        for (attempt, _, uses), named in zip(found, rows, strict=True)
        for use in uses
    )


def save_session(call: models.ModelCall, trajectories: Sequence[PackedTrajectory]) -> None:
    """Save what an agent did that worked as the author of this call."""
    _save_all([(call, trajectories)])


def _save_all(
    owned: Sequence[tuple[models.Attempt | models.ModelCall, Sequence[PackedTrajectory]]],
) -> list[dict[str, models.Trajectory]]:
    """Return each owner's rows by name. Those without a parent first, then level by level."""
    rows: list[dict[str, models.Trajectory]] = [{} for _ in owned]
    made: list[tuple[models.Trajectory, PackedTrajectory]] = []
    for named, (owner, items) in zip(rows, owned, strict=True):
        for ordinal, item in enumerate(items):
            named[item.head.name] = row = item.row(owner, ordinal, named.get(item.head.parent or ""))
            made.append((row, item))
    waiting = made
    while waiting:
        save_packed([(row, item.steps) for row, item in waiting if row.parent is None or row.parent.pk])
        waiting = [(row, item) for row, item in waiting if row.pk is None]
    for row, item in made:
        for compaction in item.compactions:
            compaction.trajectory = row
    models.Compaction.objects.bulk_create(compaction for _, item in made for compaction in item.compactions)
    return rows


MAX_OPERATION = 32  # characters


@dataclass(frozen=True, slots=True)
class PackedDecision:
    """The stored contents that a decision's row points at."""

    before: models.Snapshot
    after: models.Snapshot
    patch: str | None  # digest
    change: ChangeCounts

    def save(
        self, row: models.Decision, evidence: Iterable[tuple[models.Trial, models.Compaction | None]]
    ) -> models.Decision:
        """Complete and save the decision, then what its author was shown, in this order."""
        row.before, row.after, row.patch_id = self.before, self.after, self.patch
        row.operation_type = storable(row.operation_type)[:MAX_OPERATION]
        row.summary, row.error = storable(row.summary), storable(row.error)
        row.findings = storable_value(row.findings)
        for name, value in self.change.fields().items():
            setattr(row, name, value)
        row.save(force_insert=True)
        models.DecisionEvidence.objects.bulk_create(
            models.DecisionEvidence(decision=row, ordinal=ordinal, trial=trial, compaction=compaction)
            for ordinal, (trial, compaction) in enumerate(evidence)
        )
        return row


def pack_decision(before: models.Snapshot, after: models.Snapshot, patch: Patch | None = None) -> PackedDecision:
    change = ChangeCounts() if before == after else measure_change(before.read(), after.read())
    stored = None if patch is None else models.Blob.objects.put(canonical_json(encode(patch)))
    return PackedDecision(before, after, stored, change)


KINDS = {
    models.Attempt: models.Entry.Kind.TRIAL,
    models.Decision: models.Entry.Kind.DECISION,
    models.Seeding: models.Entry.Kind.SEED,
    models.Seal: models.Entry.Kind.FREEZE,
    models.Refusal: models.Entry.Kind.REFUSAL,
    models.Skip: models.Entry.Kind.SKIP,
}


def build_entry(episode: models.Episode, target: Target, at: datetime, sequence: int) -> models.Entry:
    """Return the unsaved entry that points at this saved row."""
    kind = KINDS[type(target)]
    return models.Entry(
        episode=episode, sequence=sequence, kind=kind, recorded_at=at, **{models.Entry.TARGETS[kind]: target}
    )


def enter(episode: models.Episode, target: Target, at: datetime, sequence: int | None = None) -> None:
    """Put a saved row on the spine, at its next place if none is given.

    Call inside a transaction that no other entry can come between: the fenced one of a recorder, or one that locked the
    episode.
    """
    build_entry(episode, target, at, sequence or episode.next_sequence()).save(force_insert=True)


def write_seal(frozen: Frozen, at: datetime, public_id: UUID | None = None) -> models.Seal:
    """Write the seal. The library's snapshot must be recorded, except the empty one. public_id: None draws one."""
    return models.Seal.objects.create(
        snapshot=models.Snapshot.objects.standing_for(frozen.snapshot),
        library_digest=frozen.library_digest,
        setup_digest=frozen.setup_digest,
        seal=frozen.seal,
        sealed_at=at,
        **({} if public_id is None else {"public_id": public_id}),
    )


def write_refusal(trial: models.Trial | None, paths: tuple[str, ...], reason: str) -> models.Refusal:
    """Write a rejected write to the library."""
    return models.Refusal.objects.create(trial=trial, paths=[storable(path) for path in paths], reason=storable(reason))
