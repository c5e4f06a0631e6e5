"""Write entries of the spine, for a run, an import, an operator, a fork or a synthetic campaign.

An entry and the row it points at are written in one transaction. Attempts are written by `attempt_rows`, decisions by
`decision_rows`; a seeding and a skip are plain rows. An archive copies entries as they are.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from benchapp.models import Attempt, Decision, Entry, Episode, Refusal, Seal, Seeding, Skip, Snapshot, Trial
from benchapp.models.episodes import Target
from runner.base.text import storable
from runner.protocols.recorder import Frozen

KINDS = {
    Attempt: Entry.Kind.TRIAL,
    Decision: Entry.Kind.DECISION,
    Seeding: Entry.Kind.SEED,
    Seal: Entry.Kind.FREEZE,
    Refusal: Entry.Kind.REFUSAL,
    Skip: Entry.Kind.SKIP,
}


def build_entry(episode: Episode, target: Target, at: datetime, sequence: int) -> Entry:
    """Return the unsaved entry that points at this saved row."""
    kind = KINDS[type(target)]
    return Entry(episode=episode, sequence=sequence, kind=kind, recorded_at=at, **{Entry.TARGETS[kind]: target})


def enter(episode: Episode, target: Target, at: datetime, sequence: int | None = None) -> None:
    """Put a saved row on the spine, at its next place if none is given.

    Call inside a transaction that no other entry can come between: the fenced one of a recorder, or one that locked the
    episode.
    """
    build_entry(episode, target, at, sequence or episode.next_sequence()).save(force_insert=True)


def write_seal(frozen: Frozen, at: datetime, public_id: UUID | None = None) -> Seal:
    """Write the seal. The library's snapshot must be recorded, except the empty one. public_id: None draws one."""
    return Seal.objects.create(
        snapshot=Snapshot.objects.standing_for(frozen.snapshot),
        library_digest=frozen.library_digest,
        setup_digest=frozen.setup_digest,
        seal=frozen.seal,
        sealed_at=at,
        **({} if public_id is None else {"public_id": public_id}),
    )


def write_refusal(trial: Trial | None, paths: tuple[str, ...], reason: str) -> Refusal:
    """Write a rejected write to the library."""
    return Refusal.objects.create(trial=trial, paths=[storable(path) for path in paths], reason=storable(reason))
