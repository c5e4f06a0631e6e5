"""Keep the index up to date, a slice at a time: safe to repeat, to kill and to run twice at once."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from django.db import DatabaseError, IntegrityError, transaction

from benchapp.models import SearchDocument, SearchSource
from benchapp.search import search_index
from benchapp.search.search_documents import KINDS, DocumentDraft, Drafts, SourceKind

log = logging.getLogger(__name__)

BATCH = 100  # sources in one transaction
BATCH_TOKENS = 400_000  # or that many tokens: about 10 MB, and SQLite's write lock is held for a fraction of a second
MAX_PROBLEM = 500


@dataclass(frozen=True, slots=True)
class IndexProgress:
    """How much of the record can be found. `unread`: indexed with nothing in it, because it could not be read."""

    indexed: int
    total: int
    unread: int = 0
    cut: int = 0

    @property
    def is_complete(self) -> bool:
        return self.indexed >= self.total


def progress() -> IndexProgress:
    """Count the progress; it is not stored."""
    total = sum(kind.all().count() for kind in KINDS)
    waiting = next(kind for kind in KINDS if kind.name == "episode").waiting().exclude(search_source=None).count()
    sources = SearchSource.objects.all()  # as many rows as trajectories and verdicts, so each count has its index
    unread, cut = sources.exclude(problem="").count(), sources.filter(cut__gt=0).count()
    return IndexProgress(min(sources.count() - waiting, total), total, unread, cut)


def has_waiting() -> bool:
    return any(kind.waiting().order_by().exists() for kind in KINDS)


def index_waiting(*, seconds: float | None = None, tell: Callable[[int], None] = lambda done: None) -> int:
    """Index what waits, for at most about `seconds`. Return how many sources. `tell` gets the number so far."""
    deadline = None if seconds is None else time.monotonic() + seconds
    search_index.clear_if_empty()
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
        SearchDocument.objects.all()._raw_delete(using="default")  # nothing points at a document
        SearchSource.objects.all()._raw_delete(using="default")
        search_index.clear()


def _batches(kind: SourceKind, deadline: float | None) -> Iterator[list[Drafts]]:
    last = 0
    while rows := list(kind.waiting().filter(pk__gt=last).order_by("pk")[:BATCH]):
        batch: list[Drafts] = []
        tokens = 0
        for row in rows:
            last = row.pk
            batch.append(_drafts(kind, row))
            tokens += sum(len(draft.tokens) for draft in batch[-1].documents)
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
                SearchSource.objects.filter(episode__in=[drafts.owner["episode"].pk for drafts in batch]).delete()
            sources = SearchSource.objects.bulk_create(_source(drafts) for drafts in batch)
            pairs = [
                (source, draft) for source, drafts in zip(sources, batch, strict=True) for draft in drafts.documents
            ]
            documents = SearchDocument.objects.bulk_create(_document(*pair) for pair in pairs)
            search_index.store_tokens(
                [(row.pk, draft.tokens) for row, (_, draft) in zip(documents, pairs, strict=True)]
            )
        return True
    except IntegrityError:
        log.info("search: a batch of %s was indexed by somebody else, or deleted", kind.name)
        return False


def _source(drafts: Drafts) -> SearchSource:
    return SearchSource(**drafts.owner, library=drafts.library, cut=drafts.cut, problem=drafts.problem)


def _document(source: SearchSource, draft: DocumentDraft) -> SearchDocument:
    return SearchDocument(source=source, **draft.columns)
