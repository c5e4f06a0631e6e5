"""Keep the index up to date, a slice at a time: safe to repeat, to kill and to run twice at once.

The record is the queue: a source without SearchSource waits. Every importer and recorder would have to write to a
separate queue, and one forgotten place would leave holes that nobody sees. A query of the record forgets nothing, even
after a rollback, a restore or a late commit. A worker's job indexes a slice of what waits, then enqueues itself again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import DatabaseError, IntegrityError, transaction
from django.db.models import Exists, F, Model, OuterRef, Q, QuerySet
from redis.exceptions import RedisError

from benchapp import models
from benchapp.record.slices import SLICE_SECONDS, enqueue, list_hinted
from benchapp.record.trajectory_store import read_windows
from benchapp.search import search_index
from benchapp.search.sections import (
    Passage,
    Section,
    decision_sections,
    file_sections,
    is_cut,
    passages,
    verdict_sections,
)
from benchapp.search.tokens import fact, stream

log = logging.getLogger(__name__)

Kind = models.SearchDocument.Kind
Columns = dict[str, Any]  # of a SearchDocument
HEAVY_STEPS = 25  # read at once from a chunk with long texts


@dataclass(slots=True)
class Drafts:
    """The documents of one source, as (columns, tokens)."""

    owner: dict[str, Model]
    place: Columns = field(default_factory=dict)  # columns that all of them share
    facts: tuple[str, ...] = ()  # those columns in their words
    documents: list[tuple[Columns, list[str]]] = field(default_factory=list)
    library: str = ""
    cut: int = 0
    problem: str = ""

    def add(self, sections: Sequence[Section], columns: Columns, facts: tuple[str, ...] = ()) -> None:
        if tokens := stream((section.text for section in sections), facts):
            self.documents.append(({**self.place, **columns}, [*tokens, *self.facts]))


def _of_trial(owner: dict[str, Model], trial: models.Trial) -> Drafts:
    run = trial.episode.run
    place = {"run": run, "episode_id": trial.episode_id, "trial": trial}
    facts = (*_facts(run), fact("phase", trial.phase), *([fact("role", trial.task.role)] if trial.task.role else []))
    return Drafts(owner, place, facts)


def _of_episode(owner: dict[str, Model], episode: models.Episode) -> Drafts:
    return Drafts(owner, {"run": episode.run, "episode": episode}, _facts(episode.run))


def _facts(run: models.Run) -> tuple[str, ...]:
    return (fact("condition", run.condition),)


# --- trajectories ---------------------------------------------------------------------------------------------------


def of_trajectory(trajectory: models.Trajectory) -> Drafts:
    """Index the steps in passages. A passage never crosses the end of a chunk, so one chunk suffices to show it."""
    assert trajectory.attempt is not None  # of a trial
    drafts = _of_trial({"trajectory": trajectory}, trajectory.attempt.trial)
    pieces = models.Chunk.pieces.through.objects.filter(chunk=OuterRef("pk"))
    chunks = trajectory.chunks.select_related("blob").annotate(heavy=Exists(pieces)).order_by("ordinal")
    for chunk in chunks.iterator(chunk_size=1):
        # All steps at once, or a few at a time where long texts would fill the memory.
        size = HEAVY_STEPS if chunk.heavy else chunk.steps_total
        for first in range(chunk.first_step, chunk.first_step + chunk.steps_total, size):
            for steps in read_windows([(chunk, first, size)]):
                drafts.cut += sum(map(is_cut, steps))
                for passage in passages(steps):
                    drafts.add(passage.sections, _place(chunk, passage), passage.facts)
    return drafts


def _place(chunk: models.Chunk, passage: Passage) -> Columns:
    return {
        "kind": Kind.STEP,
        "chunk": chunk,
        "first_step": passage.first,
        "last_step": passage.last,
        "start": passage.start,
        "end": passage.end,
    }


# --- the rest -------------------------------------------------------------------------------------------------------


def of_verdict(verdict: models.Verdict) -> Drafts:
    drafts = _of_trial({"verdict": verdict}, verdict.attempt.trial)
    drafts.add(verdict_sections(verdict), {"kind": Kind.CHECK})
    return drafts


def of_decision(decision: models.Decision) -> Drafts:
    """Index the author's words, and each changed file in its new version."""
    drafts = _of_episode({"decision": decision}, decision.episode)
    drafts.add(decision_sections(decision), {"kind": Kind.DECISION})
    if decision.changed_library:
        _add_files(drafts, decision.after, besides=decision.before.manifest())
    return drafts


def of_seeding(seeding: models.Seeding) -> Drafts:
    """Index the files that came in without an author. Those that were in the library before are not repeated."""
    episode = seeding.entry.episode
    drafts = _of_episode({"seeding": seeding}, episode)
    known = models.SearchDocument.objects.filter(episode=episode, kind=Kind.FILE).values_list("path", "digest")
    _add_files(drafts, seeding.snapshot, besides=dict(known))
    return drafts


def of_library(episode: models.Episode) -> Drafts:
    library = episode.library
    if library is None:  # no longer in `_select_unordered`
        return Drafts({"episode": episode})
    drafts = _of_episode({"episode": episode}, episode)
    drafts.library = library.digest
    _add_files(drafts, library, besides={})
    return drafts


def _add_files(drafts: Drafts, snapshot: models.Snapshot, *, besides: Mapping[str, str]) -> None:
    for file in snapshot.files.all():
        if besides.get(file.path) != file.blob_id:
            columns = {"kind": Kind.FILE, "skill": file.skill, "path": file.path, "digest": file.blob_id}
            drafts.add(file_sections(file.path, models.Blob.objects.read(file.blob_id)), columns)


def of_comment(comment: models.Comment) -> Drafts:
    owner: dict[str, Model] = {"comment": comment}
    if comment.trial:
        drafts = _of_trial(owner, comment.trial)
    else:
        drafts = Drafts(owner, {"run": comment.run}, _facts(comment.run) if comment.run else ())
    drafts.add([Section("note", comment.text)], {"kind": Kind.NOTE})
    return drafts


# --- what waits -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SourceKind:
    """`all` is everything there is to index of this kind, `waiting` what has not been."""

    name: str
    all: Callable[[], QuerySet[Any]]
    waiting: Callable[[], QuerySet[Any]]
    drafts: Callable[[Any], Drafts]


def _select_unordered() -> QuerySet[models.Episode]:
    """Episodes whose library came without a history."""
    entries = models.Entry.objects.filter(episode=OuterRef("pk"))
    return models.Episode.objects.filter(~Exists(entries), library__files_total__gt=0)


def _of(model: type[Model], *related: str) -> Callable[[], QuerySet[Any]]:
    return lambda: model._default_manager.filter(search_source=None).select_related(*related)


def _place_of(trial: str) -> tuple[str, ...]:
    return f"{trial}__episode__run", f"{trial}__task"


def _waiting_libraries() -> QuerySet[models.Episode]:
    stale = Q(search_source=None) | ~Q(search_source__library=F("library__digest"))
    return _select_unordered().filter(stale).select_related("run", "library")


def _of_trials() -> QuerySet[models.Trajectory]:
    """Trajectories of trials. Sessions of authors are left out: search leads to trials."""
    return models.Trajectory.objects.exclude(attempt=None)


def _waiting_trajectories() -> QuerySet[models.Trajectory]:
    return _of_trials().filter(search_source=None).select_related(*_place_of("attempt__trial"))


# Small ones first: comments are found at once, even after a large import.
KINDS = (
    SourceKind("comment", models.Comment.objects.all, _of(models.Comment, "run", *_place_of("trial")), of_comment),
    SourceKind(
        "seeding", models.Seeding.objects.all, _of(models.Seeding, "snapshot", "entry__episode__run"), of_seeding
    ),
    SourceKind("episode", _select_unordered, _waiting_libraries, of_library),
    SourceKind(
        "decision", models.Decision.objects.all, _of(models.Decision, "episode__run", "before", "after"), of_decision
    ),
    SourceKind("verdict", models.Verdict.objects.all, _of(models.Verdict, *_place_of("attempt__trial")), of_verdict),
    SourceKind("trajectory", _of_trials, _waiting_trajectories, of_trajectory),
)


BATCH = 100  # sources in one transaction
BATCH_TOKENS = 400_000  # or that many tokens: about 10 MB, and SQLite's write lock is held for a fraction of a second
MAX_PROBLEM = 500


class IndexProgress:
    """How much of the record can be found. `unread`: indexed with nothing in it, because it could not be read."""

    def __init__(self) -> None:
        """Count documents; stores nothing."""
        self.total = sum(kind.all().count() for kind in KINDS)
        waiting = next(kind for kind in KINDS if kind.name == "episode").waiting().exclude(search_source=None).count()
        sources = models.SearchSource.objects.all()  # as many as trajectories and verdicts, so each count has its index
        self.unread, self.cut = sources.exclude(problem="").count(), sources.filter(cut__gt=0).count()
        self.indexed = min(sources.count() - waiting, self.total)
        self.is_complete = self.indexed >= self.total


def has_waiting() -> bool:
    return any(kind.waiting().order_by().exists() for kind in KINDS)


def index_waiting(*, seconds: float | None = None, tell: Callable[[int], None] = lambda done: None) -> int:
    """Index what waits, for at most about `seconds`. Return how many sources. `tell` gets the number so far."""
    deadline = None if seconds is None else time.monotonic() + seconds
    if not models.SearchDocument.objects.exists():  # after a flush, old words would count for the next documents
        search_index.clear()
    done = 0
    for kind in KINDS:
        for batch in _batches(kind, deadline):
            done += len(batch) if _store(kind, batch) else 0
            tell(done)
            if deadline is not None and time.monotonic() > deadline:
                return done
    return done


def index_anew() -> None:
    """Remove all documents and words, so that everything waits again."""
    with transaction.atomic():
        models.SearchDocument.objects.all()._raw_delete(using="default")  # nothing points at a document
        models.SearchSource.objects.all()._raw_delete(using="default")
        search_index.clear()


def _batches(kind: SourceKind, deadline: float | None) -> Iterator[list[Drafts]]:
    last = 0
    while rows := list(kind.waiting().filter(pk__gt=last).order_by("pk")[:BATCH]):
        batch: list[Drafts] = []
        tokens = 0
        for row in rows:
            last = row.pk
            batch.append(_drafts(kind, row))
            tokens += sum(len(words) for _, words in batch[-1].documents)
            if tokens >= BATCH_TOKENS or (deadline is not None and time.monotonic() > deadline):
                break
        yield batch


def _drafts(kind: SourceKind, row: Any) -> Drafts:
    """Return one source's drafts. An unreadable source is noted and no longer waits: it must not block others."""
    try:
        return kind.drafts(row)
    except (DatabaseError, MemoryError, OSError):
        raise  # the machine's failure
    except Exception as error:
        log.exception("search: %s %s cannot be indexed", kind.name, row.pk)
        return Drafts({kind.name: row}, problem=f"{type(error).__name__}: {error}"[:MAX_PROBLEM])


def _store(kind: SourceKind, batch: list[Drafts]) -> bool:
    """Store the batch in one transaction. False where somebody else indexed one of these just now, or one was deleted:
    the rest is found waiting again."""
    try:
        with transaction.atomic():
            if kind.name == "episode":  # an import may have replaced its library
                models.SearchSource.objects.filter(
                    episode__in=[drafts.owner["episode"].pk for drafts in batch]
                ).delete()
            sources = models.SearchSource.objects.bulk_create(
                models.SearchSource(**drafts.owner, library=drafts.library, cut=drafts.cut, problem=drafts.problem)
                for drafts in batch
            )
            pairs = [
                (source, draft) for source, drafts in zip(sources, batch, strict=True) for draft in drafts.documents
            ]
            documents = models.SearchDocument.objects.bulk_create(
                models.SearchDocument(source=source, **columns) for source, (columns, _) in pairs
            )
            search_index.store_tokens([(row.pk, words) for row, (_, (_, words)) in zip(documents, pairs, strict=True)])
        return True
    except IntegrityError:
        log.info("search: a batch of %s was indexed by somebody else, or deleted", kind.name)
        return False


HINT = "search"


def follow() -> bool:
    """Enqueue a job unless one is waiting or running. False also when the broker is offline: the next worker that
    checks makes up for it."""
    try:
        if list_hinted(HINT):
            return False
        _enqueue()
    except (RedisError, OSError) as error:
        log.info("search index not updated: cannot reach the broker: %s", error)
        return False
    return True


def follow_if_waiting() -> bool:
    return has_waiting() and follow()


def index_slice() -> None:
    """Index a slice. Enqueue again at the end while something waits, so that trials take turns with it."""
    done = index_waiting(seconds=SLICE_SECONDS)
    log.info("search: %d indexed", done)
    if done and has_waiting():
        _enqueue()  # the running job is this one


def _enqueue() -> None:
    enqueue(f"{__name__}.index_slice", HINT, description="index what waits for search")
