"""Episodes: does the spine form one history, from the empty library to the seal?"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from benchapp.audit.check_finding import Flaw, flaw_each
from benchapp.models import Attempt, Decision, Entry, Episode, Experiment, Seal
from runner.base.digests import EMPTY_LIBRARY, digest_json
from runner.base.types import DecisionStatus, Phase


def check_episode(episode: Episode) -> Iterator[Flaw]:
    if not episode.is_ordered:
        return
    entries = list(episode.entries.in_order())
    yield from _check_spine(episode, entries)
    yield from _check_off_spine(episode)
    yield from _check_library_line(episode, entries)
    yield from _check_sealing(episode, entries)
    yield from _check_fork(episode, entries)


def _check_spine(episode: Episode, entries: list[Entry]) -> Iterator[Flaw]:
    ident = str(episode.public_id)
    sequences = [entry.sequence for entry in entries]
    if sequences != list(range(1, len(entries) + 1)):
        yield Flaw("episode", ident, f"its spine has a hole or does not start at 1: {_describe_gap(sequences)}")
    for entry in entries:
        named = [name for name in Entry.TARGETS.values() if getattr(entry, f"{name}_id") is not None]
        if named != [Entry.TARGETS[Entry.Kind(entry.kind)]]:
            yield Flaw("episode", ident, f"entry {entry.sequence} ({entry.kind}) points at {named or 'nothing'}")
    numbers = list(episode.decisions.order_by("number").values_list("number", flat=True))
    if numbers != list(range(1, len(numbers) + 1)):
        yield Flaw("episode", ident, f"its decisions are not numbered from 1 without holes: {_describe_gap(numbers)}")


def _describe_gap(numbers: list[int]) -> str:
    for before, after in pairwise([0, *numbers]):
        if after != before + 1:
            return f"{after} follows {before}"
    return "in order"


def _check_off_spine(episode: Episode) -> Iterator[Flaw]:
    attempts = Attempt.objects.filter(trial__episode=episode, counts=True, entry=None)
    yield from flaw_each(attempts, "attempt", "counts, but is missing from the spine")
    yield from flaw_each(episode.decisions.filter(entry=None), "decision", "is missing from the spine")


def _check_library_line(episode: Episode, entries: list[Entry]) -> Iterator[Flaw]:
    """Check that along the spine every step starts from the library that the one before left."""
    current, rounds = EMPTY_LIBRARY, 0
    for entry in entries:
        if entry.seeding is not None:
            current = entry.seeding.snapshot.digest
        elif entry.attempt is not None:
            given = entry.attempt.trial.snapshot
            if given is not None and given.digest != current:
                ident = str(entry.attempt.trial.public_id)
                yield Flaw("trial", ident, f"was given library {given.digest}, but the state was {current}")
        elif entry.decision is not None:
            yield from _check_decision(entry.decision, current, rounds)
            current, rounds = entry.decision.after.digest, entry.decision.round
    if episode.library is not None and episode.library.digest != current:
        yield Flaw("episode", str(episode.public_id), f"its library is {episode.library}, its spine ends at {current}")


def _check_decision(decision: Decision, current: str, rounds: int) -> Iterator[Flaw]:
    ident = str(decision.public_id)
    changed = decision.changed_library
    applied = decision.status == DecisionStatus.APPLIED
    if decision.before.digest != current:
        yield Flaw("decision", ident, f"starts from library {decision.before.digest}, but the state was {current}")
    if changed != applied:
        yield Flaw("decision", ident, f"is {decision.status}, but the library {'changed' if changed else 'did not'}")
    if decision.round != rounds + applied:
        yield Flaw("decision", ident, f"ends round {decision.round} (expected {rounds + applied})")


def _check_sealing(episode: Episode, entries: list[Entry]) -> Iterator[Flaw]:
    """Check the seal. An import may not say when its library was frozen; if it does, it must be consistent."""
    sealed: Seal | None = None
    is_own = episode.run.experiment.origin != Experiment.Origin.IMPORTED
    for entry in entries:
        if entry.seal is not None:
            sealed = entry.seal
            yield from _check_seal(episode, sealed)
        elif sealed is None:
            if is_own and entry.attempt is not None and entry.attempt.trial.phase in (Phase.DEPLOYMENT, Phase.REPLAY):
                yield Flaw("trial", str(entry.attempt.trial.public_id), "ran before the library was sealed")
        elif entry.kind in {Entry.Kind.DECISION, Entry.Kind.SEED}:
            yield Flaw("episode", str(episode.public_id), f"entry {entry.sequence} writes to a sealed library")
        elif entry.attempt is not None and entry.attempt.trial.phase != Phase.ACQUISITION:
            trial = entry.attempt.trial
            if trial.snapshot_id is not None and trial.snapshot_id != sealed.snapshot_id:
                yield Flaw("trial", str(trial.public_id), "was not given the sealed library")


def _check_seal(episode: Episode, seal: Seal) -> Iterator[Flaw]:
    ident = str(seal.public_id)
    if seal.library_digest != seal.snapshot.digest:
        yield Flaw("seal", ident, f"names library {seal.library_digest}, but its snapshot is {seal.snapshot.digest}")
    if seal.setup_digest != episode.run.setup_digest:
        yield Flaw("seal", ident, "names another setup than its run")
    if seal.seal != digest_json([seal.setup_digest, seal.library_digest]):
        yield Flaw("seal", ident, "is not the digest of its setup and library")


def _check_fork(episode: Episode, entries: list[Entry]) -> Iterator[Flaw]:
    """Check that a fork copied what its origin recorded, while that still exists."""
    ident, copied = str(episode.public_id), episode.copied_entries
    strays = [entry for entry in entries[copied:] if entry.attempt is not None and entry.attempt.is_copy]
    own = [entry for entry in entries[:copied] if entry.attempt is not None and not entry.attempt.is_copy]
    for entry in (*strays, *own):
        yield Flaw("episode", ident, f"entry {entry.sequence}: the attempt's mark as a copy does not fit its place")
    if not copied or episode.run.forked_from is None:
        return
    origin = episode.run.forked_from.episodes.filter(key=episode.key).first()
    before = [] if origin is None else list(origin.entries.in_order()[:copied])
    if [_describe_entry(entry) for entry in entries[:copied]] != [_describe_entry(entry) for entry in before]:
        yield Flaw("episode", ident, f"what it took over ({copied} entries) is not what its origin recorded")


def _describe_entry(entry: Entry) -> list[object]:
    """Describe an entry by its content, without the keys of its rows."""
    told: list[object] = [entry.sequence, entry.kind]
    if entry.attempt is not None:
        trial = entry.attempt.trial
        told += [trial.phase, trial.task_id, trial.sample, trial.snapshot_id, trial.success, entry.attempt.number]
        told += entry.attempt.trajectories.order_by("ordinal", "id").values_list("digest", flat=True)
    elif entry.decision is not None:
        row = entry.decision
        told += [row.number, row.status, row.patch_id, row.before_id, row.after_id]
    elif entry.seeding is not None:
        told += [entry.seeding.family_id, entry.seeding.snapshot_id]
    elif entry.seal is not None:
        told += [entry.seal.seal]
    return told
