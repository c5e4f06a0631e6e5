"""Write attempts: their own row, trajectories, compactions and skill uses. Also trajectories of an author's session.

Contents are stored before the rows that point at them: `pack_steps` and `pack_compaction` first, then the functions
here, inside the transaction that records the attempt. `Verdict.objects.record` writes verdicts, `Trial.settle` and
`Trial.take_numbers` the numbers of the trial.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import orjson

from benchapp.models import Attempt, Blob, Compaction, ModelCall, SkillUse, Trajectory
from benchapp.models.blobs import BlobStore
from benchapp.record.recorded import billed_fields
from benchapp.record.trajectory_store import Packed, save_packed
from runner.base.text import cut, storable
from runner.base.types import Compaction as CompactionValue
from runner.base.types import SkillUse as UseValue
from runner.base.types import TrajectoryHead, Usage

MAX_EXCEPTION_MESSAGE = 2_000  # characters on the row; a blob has the traceback, or the whole log


@dataclass(frozen=True, slots=True)
class PackedTrajectory:
    """A stored trajectory that no row points at yet."""

    head: TrajectoryHead
    packed: Packed
    reader_version: str
    usage: Usage = Usage()
    source: str | None = None  # digest of the log it was read from
    source_path: str = ""
    extra: Mapping[str, object] = field(default_factory=dict)
    compactions: tuple[Compaction, ...] = ()  # unsaved


def pack_compaction(value: CompactionValue, blobs: BlobStore | None = None) -> Compaction:
    """Store the contents and return the unsaved row. It lacks its trajectory."""
    spans = [[span.step, span.field, span.start, span.end, span.length, span.reason] for span in value.spans]
    # As `canonical_json` writes it: there are only whole numbers and plain names.
    text, places = (blobs or Blob.objects).put_many([storable(value.text).encode(), orjson.dumps(spans)])
    return Compaction(
        kind=value.kind,
        version=value.version,
        text_id=text,
        spans_id=places,
        tokens=value.tokens,
        steps_total=value.steps_total,
        steps_kept=value.steps_kept,
    )


def set_usage(attempt: Attempt, usage: Usage) -> None:
    for name, value in billed_fields(usage).items():
        setattr(attempt, name, value)


def set_exception(attempt: Attempt, kind: str, message: str, whole: str | None) -> None:
    """Set the exception. kind: its type. whole: digest of its traceback, or of the whole log."""
    attempt.exception_type = storable(kind)[:200]
    attempt.exception_message = cut(storable(message), MAX_EXCEPTION_MESSAGE)
    attempt.exception_id = whole


@dataclass(frozen=True, slots=True)
class BelowAttempt:
    """The unsaved rows of a saved attempt. A use belongs to the trajectory it names, or to none."""

    attempt: Attempt
    trajectories: Sequence[PackedTrajectory]
    uses: Iterable[UseValue]


def save_trajectories(attempt: Attempt, trajectories: Sequence[PackedTrajectory], uses: Iterable[UseValue]) -> None:
    """Save trajectories with their compactions, and skill uses. Parents come before their children."""
    save_below([BelowAttempt(attempt, trajectories, uses)])


def save_below(found: Sequence[BelowAttempt]) -> None:
    """Save those of many attempts, in as many statements as for one."""
    rows = _save_all([(each.attempt, each.trajectories) for each in found])
    SkillUse.objects.bulk_create(
        SkillUse(
            attempt=each.attempt,
            trajectory=named.get(use.trajectory),
            step=use.step,
            skill=storable(use.skill)[:200],
            kind=use.kind,
            path=storable(use.path or "")[:1000],
        )
        for each, named in zip(found, rows, strict=True)
        for use in each.uses
    )


def save_session(call: ModelCall, trajectories: Sequence[PackedTrajectory]) -> None:
    """Save what an agent did that worked as the author of this call."""
    _save_all([(call, trajectories)])


def _save_all(
    owned: Sequence[tuple[Attempt | ModelCall, Sequence[PackedTrajectory]]],
) -> list[dict[str, Trajectory]]:
    """Return each owner's rows by name. Those without a parent first, then level by level."""
    rows: list[dict[str, Trajectory]] = [{} for _ in owned]
    made = [
        (_place(rows[at], owner, ordinal, item), item)
        for at, (owner, items) in enumerate(owned)
        for ordinal, item in enumerate(items)
    ]
    waiting = made
    while waiting:
        save_packed([(row, item.packed) for row, item in waiting if row.parent is None or row.parent.pk])
        waiting = [(row, item) for row, item in waiting if row.pk is None]
    for row, item in made:
        for compaction in item.compactions:
            compaction.trajectory = row
    Compaction.objects.bulk_create(compaction for _, item in made for compaction in item.compactions)
    return rows


def _place(
    named: dict[str, Trajectory], owner: Attempt | ModelCall, ordinal: int, item: PackedTrajectory
) -> Trajectory:
    """Return the unsaved row, added to those of its owner by name."""
    named[item.head.name] = row = item.packed.row(
        owner,
        item.head,
        usage=item.usage,
        parent=named.get(item.head.parent or ""),
        ordinal=ordinal,
        reader_version=item.reader_version,
        source=item.source,
        source_path=item.source_path,
        extra=item.extra,
    )
    return row
