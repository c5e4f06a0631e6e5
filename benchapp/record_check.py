"""Re-reads the whole record and says what does not hold. Reads only; memory is bounded by one chunk or one episode.

Ids are public ids where the row has one, else digests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import orjson
import zstandard
from django.apps import apps
from django.core.exceptions import ObjectDoesNotExist
from django.db.models import Count, Exists, F, ForeignKey, OuterRef, Q

from benchapp.models import (
    Attempt,
    Blob,
    Chunk,
    Decision,
    Entry,
    Episode,
    ModelCall,
    Run,
    Seal,
    Snapshot,
    Trajectory,
    Trial,
)
from benchapp.trajectory_store import FORMAT, REFERENCE
from runner.digests import EMPTY_LIBRARY, LIBRARY_FORMAT, digest_bytes, digest_json
from runner.types import DecisionStatus, Phase


@dataclass(frozen=True, slots=True)
class Flaw:
    kind: str  # what sort of row it is
    ident: str
    message: str

    def __str__(self) -> str:
        return f"{self.kind} {self.ident}: {self.message}"


def flaws() -> Iterator[Flaw]:
    """Everything wrong with the record, area by area."""
    yield from _missing()
    yield from _blobs()
    yield from _chunks()
    yield from _trajectories()
    yield from _snapshots()
    yield from _setups()
    yield from _attempts()
    yield from _trials()
    yield from _calls()
    for episode in Episode.objects.select_related("run").order_by("id").iterator(chunk_size=100):
        try:
            yield from _episode(episode)
        except ObjectDoesNotExist as error:  # named above, row by row
            yield Flaw("episode", str(episode.public_id), f"cannot be followed: {error}")


# --- content ----------------------------------------------------------------------------------------------------


def _missing() -> Iterator[Flaw]:
    """Rows and contents that something points at and that are not there. The database forbids it; a torn file or a
    restored dump may not, and a join would pass over such a row in silence."""
    for model in apps.get_app_config("benchapp").get_models(include_auto_created=True):
        for key in (field for field in model._meta.concrete_fields if isinstance(field, ForeignKey)):
            target = key.related_model._default_manager.filter(pk=OuterRef(key.attname))
            lost = model._default_manager.exclude(**{f"{key.attname}__isnull": True}).exclude(Exists(target))
            named = "public_id" if hasattr(model, "public_id") else "pk"
            for ident, wanted in lost.order_by("pk").values_list(named, key.attname).iterator():
                kind = str(key.related_model._meta.verbose_name)
                yield Flaw(str(model._meta.verbose_name), str(ident), f"its {key.name}, {kind} {wanted}, is missing")


def _blobs() -> Iterator[Flaw]:
    for blob in Blob.objects.order_by("digest").iterator(chunk_size=16):
        try:
            content = blob.content()
        except zstandard.ZstdError as error:
            yield Flaw("blob", blob.digest, f"cannot be decompressed: {error}")
            continue
        if (found := digest_bytes(content)) != blob.digest:
            yield Flaw("blob", blob.digest, f"its content has digest {found}")
        if len(content) != blob.size:
            yield Flaw("blob", blob.digest, f"its content has {len(content)} bytes (expected {blob.size})")


def _chunks() -> Iterator[Flaw]:
    chunks = Chunk.objects.select_related("blob", "outline", "trajectory").order_by("id")
    for chunk in chunks.iterator(chunk_size=4):
        ident = f"{chunk.trajectory.public_id} #{chunk.ordinal}"
        try:
            lines = [orjson.loads(line) for line in chunk.blob.content().splitlines()]
            rows = len(chunk.outline.content().splitlines())
        except (orjson.JSONDecodeError, zstandard.ZstdError) as error:
            yield Flaw("chunk", ident, f"cannot be read: {error}")
            continue
        expected = list(range(chunk.first_step, chunk.first_step + chunk.steps_total))
        if [line.get("step_id") for line in lines] != expected:
            yield Flaw("chunk", ident, f"steps are not {chunk.first_step} to {expected[-1]}, in order")
        if rows != chunk.steps_total:
            yield Flaw("chunk", ident, f"its outline has {rows} rows (expected {chunk.steps_total})")
        pieces = {digest for line in lines for digest in _references(line)}
        for digest in sorted(pieces - set(chunk.pieces.values_list("digest", flat=True))):
            yield Flaw("chunk", ident, f"its long text {digest} is not among its pieces")


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value.get(REFERENCE, ())
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _references(item)


def _trajectories() -> Iterator[Flaw]:
    for trajectory in Trajectory.objects.order_by("id").iterator(chunk_size=500):
        chunks = list(trajectory.chunks.order_by("ordinal").values_list("first_step", "steps_total", "blob_id"))
        ident = str(trajectory.public_id)
        starts = [first for first, _, _ in chunks]
        if starts != [1 + sum(total for _, total, _ in chunks[:place]) for place in range(len(chunks))]:
            yield Flaw("trajectory", ident, "its chunks leave a hole or overlap")
        if (total := sum(total for _, total, _ in chunks)) != trajectory.steps_total:
            yield Flaw("trajectory", ident, f"its chunks hold {total} steps (expected {trajectory.steps_total})")
        if digest_json([FORMAT, [digest for _, _, digest in chunks]]) != trajectory.digest:
            yield Flaw("trajectory", ident, "its chunks do not add up to its digest")


def _snapshots() -> Iterator[Flaw]:
    for snapshot in Snapshot.objects.order_by("id").iterator(chunk_size=500):
        rows = snapshot.files.values_list("path", "blob_id", "mode")
        manifest = {path: [digest, mode] for path, digest, mode in rows}
        if digest_json([LIBRARY_FORMAT, manifest]) != snapshot.digest:
            yield Flaw("snapshot", snapshot.digest, "its files do not add up to its digest")


# --- trials -----------------------------------------------------------------------------------------------------


def _setups() -> Iterator[Flaw]:
    for run in Run.objects.exclude(setup_digest="").order_by("id").iterator(chunk_size=200):
        if digest_json(run.setup) != run.setup_digest:
            yield Flaw("run", str(run.public_id), "its setup does not add up to its setup digest")


def _attempts() -> Iterator[Flaw]:
    crowded = Trial.objects.annotate(counting=Count("attempts", filter=Q(attempts__counts=True))).filter(counting__gt=1)
    for trial in crowded.iterator():
        yield Flaw("trial", str(trial.public_id), f"{trial.counting} attempts count (expected at most one)")
    voices = Attempt.objects.annotate(primary=Count("verdicts", filter=Q(verdicts__is_primary=True)))
    for attempt in voices.filter(primary__gt=1).iterator():
        yield Flaw("attempt", str(attempt.public_id), f"{attempt.primary} primary verdicts (expected at most one)")


def _trials() -> Iterator[Flaw]:
    """The numbers a trial carries for lists are those of its counting attempt."""
    counting = Q(attempts__counts=True)
    missing = Trial.objects.filter(is_done=True).exclude(status=Trial.Status.SKIPPED).exclude(counting)
    for trial in missing.iterator():
        yield Flaw("trial", str(trial.public_id), "done, but no attempt counts")
    verdicts = Attempt.objects.filter(counts=True, verdicts__is_primary=True)
    for name in ("success", "reward", "outcome", "process", "overall"):
        differing = verdicts.exclude(**{f"trial__{name}": F(f"verdicts__{name}")}).filter(
            Q(**{f"trial__{name}__isnull": False}) | Q(**{f"verdicts__{name}__isnull": False})
        )
        for attempt in differing.select_related("trial").iterator():
            yield Flaw(
                "trial", str(attempt.trial.public_id), f"its {name} is not that of its counting attempt's verdict"
            )
    voiced = Attempt.objects.filter(trial=OuterRef("pk"), counts=True, verdicts__is_primary=True)
    for trial in Trial.objects.exclude(success=None).exclude(Exists(voiced)).iterator():
        yield Flaw("trial", str(trial.public_id), "is scored, but no verdict of its counting attempt says so")


def _calls() -> Iterator[Flaw]:
    for call in ModelCall.objects.filter(status=ModelCall.Status.ANSWERED, reply=None).iterator():
        yield Flaw("model call", str(call.public_id), "answered, but no reply is kept")


# --- episodes ---------------------------------------------------------------------------------------------------


def _episode(episode: Episode) -> Iterator[Flaw]:
    if not episode.is_ordered:
        return
    entries = list(episode.entries.in_order())
    yield from _spine(episode, entries)
    yield from _off_spine(episode)
    yield from _library_line(episode, entries)
    yield from _sealing(episode, entries)


def _spine(episode: Episode, entries: list[Entry]) -> Iterator[Flaw]:
    ident = str(episode.public_id)
    sequences = [entry.sequence for entry in entries]
    if sequences != list(range(1, len(entries) + 1)):
        yield Flaw("episode", ident, f"its spine has a hole or does not start at 1: {_first_gap(sequences)}")
    for entry in entries:
        named = [name for name in Entry.TARGETS.values() if getattr(entry, f"{name}_id") is not None]
        if named != [Entry.TARGETS[Entry.Kind(entry.kind)]]:
            yield Flaw("episode", ident, f"entry {entry.sequence} ({entry.kind}) points at {named or 'nothing'}")
    numbers = list(episode.decisions.order_by("number").values_list("number", flat=True))
    if numbers != list(range(1, len(numbers) + 1)):
        yield Flaw("episode", ident, f"its decisions are not numbered from 1 without holes: {_first_gap(numbers)}")


def _first_gap(numbers: list[int]) -> str:
    for before, after in pairwise([0, *numbers]):
        if after != before + 1:
            return f"{after} follows {before}"
    return "in order"


def _off_spine(episode: Episode) -> Iterator[Flaw]:
    for attempt in Attempt.objects.filter(trial__episode=episode, counts=True, entry=None).iterator():
        yield Flaw("attempt", str(attempt.public_id), "counts, but stands on no spine")
    for decision in episode.decisions.filter(entry=None).iterator():
        yield Flaw("decision", str(decision.public_id), "stands on no spine")


def _library_line(episode: Episode, entries: list[Entry]) -> Iterator[Flaw]:
    """Along the spine every step takes the library from where the one before left it."""
    current, rounds = EMPTY_LIBRARY, 0
    for entry in entries:
        if entry.seeding is not None:
            current = entry.seeding.snapshot.digest
        elif entry.attempt is not None:
            given = entry.attempt.trial.snapshot
            if given is not None and given.digest != current:
                ident = str(entry.attempt.trial.public_id)
                yield Flaw("trial", ident, f"was given library {given.digest}, but {current} stood")
        elif entry.decision is not None:
            yield from _decision(entry.decision, current, rounds)
            current, rounds = entry.decision.after.digest, entry.decision.round
    if episode.library is not None and episode.library.digest != current:
        yield Flaw("episode", str(episode.public_id), f"its library is {episode.library}, its spine ends at {current}")


def _decision(decision: Decision, current: str, rounds: int) -> Iterator[Flaw]:
    ident = str(decision.public_id)
    changed = decision.before_id != decision.after_id
    applied = decision.status == DecisionStatus.APPLIED
    if decision.before.digest != current:
        yield Flaw("decision", ident, f"starts from library {decision.before.digest}, but {current} stood")
    if changed != applied:
        yield Flaw("decision", ident, f"is {decision.status}, but the library {'changed' if changed else 'did not'}")
    if decision.round != rounds + applied:
        yield Flaw("decision", ident, f"ends round {decision.round} (expected {rounds + applied})")


def _sealing(episode: Episode, entries: list[Entry]) -> Iterator[Flaw]:
    sealed: Seal | None = None
    for entry in entries:
        if entry.seal is not None:
            sealed = entry.seal
            yield from _seal(episode, sealed)
        elif sealed is None:
            if entry.attempt is not None and entry.attempt.trial.phase in (Phase.DEPLOYMENT, Phase.REPLAY):
                yield Flaw("trial", str(entry.attempt.trial.public_id), "ran before the library was sealed")
        elif entry.kind in {Entry.Kind.DECISION, Entry.Kind.SEED}:
            yield Flaw("episode", str(episode.public_id), f"entry {entry.sequence} writes to a sealed library")
        elif entry.attempt is not None and entry.attempt.trial.phase != Phase.ACQUISITION:
            trial = entry.attempt.trial
            if trial.snapshot_id is not None and trial.snapshot_id != sealed.snapshot_id:
                yield Flaw("trial", str(trial.public_id), "was not given the sealed library")


def _seal(episode: Episode, seal: Seal) -> Iterator[Flaw]:
    ident = str(seal.public_id)
    if seal.library_digest != seal.snapshot.digest:
        yield Flaw("seal", ident, f"names library {seal.library_digest}, but its snapshot is {seal.snapshot.digest}")
    if seal.setup_digest != episode.run.setup_digest:
        yield Flaw("seal", ident, "names another setup than its run")
    if seal.seal != digest_json([seal.setup_digest, seal.library_digest]):
        yield Flaw("seal", ident, "is not the digest of its setup and library")
