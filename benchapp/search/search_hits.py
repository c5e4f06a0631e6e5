"""From a query to hits: which documents, how many by facet, and their texts, each in a bounded number of queries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from django.db.models import Exists, OuterRef, Q, QuerySet

from benchapp.models import Attempt, Blob, Comment, Experiment, Run, SearchDocument, SearchSource, User
from benchapp.record.trajectory_store import read_windows
from benchapp.review.blinding import closed_runs, closed_trials, open_to
from benchapp.review.remarks import comments_for
from benchapp.search import search_index
from benchapp.search.filters import condition_of, fact_phrases, match_of
from benchapp.search.query import SearchQuery
from benchapp.search.sections import Section, sections_of
from runner.protocols.conditions import unpooled_conditions

Kind = SearchDocument.Kind
MOST = 1_000  # hits counted and listed; of more only the newest
# facet -> the column of a document it counts; the names are filters of the language
FACETS = {
    "kind": "kind",
    "is": "trial__status",
    "phase": "trial__phase",
    "role": "trial__task__role",
    "condition": "run__condition",
    "model": "run__agent_model",
    "experiment": "run__experiment__name",
}


@dataclass(frozen=True, slots=True)
class Found:
    """`numbers` of the documents, newest first and those of probes and qualifications after all others, at most MOST; `is_capped` where there
    are more. `facets` count them."""

    numbers: list[int] = field(default_factory=list)
    facets: Mapping[str, Counter[str]] = field(default_factory=dict)
    is_capped: bool = False


def find(query: SearchQuery, user: User) -> Found:
    """Three queries, or five for somebody who reviews blind."""
    if query.is_empty or query.problems:
        return Found()
    numbers = list(_select_documents(query, user).values_list("pk", flat=True)[: MOST + 1])
    rows = _read_columns(numbers[:MOST])
    columns = list(zip(*rows.values(), strict=True)) or [()] * len(FACETS)
    facets = {name: Counter(value for value in column if value) for name, column in zip(FACETS, columns, strict=True)}
    condition = list(FACETS).index("condition")
    extra = unpooled_conditions()
    ordered = sorted(rows, key=lambda number: rows[number][condition] in extra)
    return Found(ordered, facets, len(numbers) > MOST)


def has_hits(query: SearchQuery, user: User) -> bool:
    return _select_documents(query, user).exists()


def _read_columns(numbers: Sequence[int]) -> dict[int, tuple[str, ...]]:
    """Number -> what facets count, in this order. Of these documents alone: the filters' query needs none of these
    columns, and is planned better without."""
    documents = (
        SearchDocument.objects.filter(pk__in=numbers).order_by("-pk") if numbers else SearchDocument.objects.none()
    )
    return {number: tuple(values) for number, *values in documents.values_list("pk", *FACETS.values())}


def _select_documents(query: SearchQuery, user: User) -> QuerySet[SearchDocument]:
    """Newest first."""
    documents = documents_for(user).order_by("-pk")
    match = match_of(query)
    if match.all_of:
        documents = search_index.filter_holding(documents, match)
    elif match.none_of:
        unwanted = search_index.TokenCondition(all_of=(match.none_of,))
        documents = documents.exclude(pk__in=search_index.select_matching(unwanted))
    for part in query.filters:
        condition = condition_of(part)
        if condition is None:
            continue
        if not part.negated and (facts := fact_phrases(part)):  # is:failed,error
            condition |= Q(pk__in=search_index.select_matching(search_index.TokenCondition((facts,))))
        documents = documents.exclude(condition) if part.negated else documents.filter(condition)
    return documents


def documents_for(user: User) -> QuerySet[SearchDocument]:
    """What this person may find: nothing of deleted experiments or of sources that were superseded, nothing that a
    page closed to a blind reviewer shows, no retracted note."""
    gone = list(
        Run.objects.filter(experiment__in=Experiment.objects.exclude(deleted_at=None)).values_list("pk", flat=True)
    )
    documents = SearchDocument.objects.exclude(_filter_superseded()).exclude(run__in=gone)
    blind = open_to(user).exists()
    notes = comments_for(user) if blind else Comment.objects.all()  # what else it keeps back is gone already
    readable = SearchSource.objects.filter(comment__in=notes.filter(retracted_at=None).order_by().values("pk"))
    documents = documents.filter(~Q(kind=Kind.NOTE) | Q(source__in=readable.values("pk")))
    if not blind:
        return documents
    documents = documents.exclude(trial__in=closed_trials(user))
    return documents.exclude(kind__in=[Kind.FILE, Kind.DECISION], run__in=closed_runs(user))


def _filter_superseded() -> Q:
    replaced = Attempt.objects.filter(status=Attempt.Status.SUPERSEDED).order_by().values("pk")
    found = Q()
    for way in (
        Q(trajectory__is_superseded=True),
        Q(trajectory__attempt__in=replaced),
        Q(verdict__attempt__in=replaced),
    ):
        found |= Q(Exists(SearchSource.objects.filter(way, pk=OuterRef("source"))))
    return found


# --- what hits show -------------------------------------------------------------------------------------------------

RELATED = (
    *("trial__task__family", "trial__episode__run__experiment", "run__experiment", "episode", "chunk__blob"),
    *("source__trajectory__attempt", "source__verdict__attempt", "source__decision__family"),
    *("source__decision__episode", "source__comment__author", "source__seeding"),
)


def read_hits(numbers: Sequence[int]) -> list[tuple[SearchDocument, list[Section]]]:
    """The documents with their texts, in this order. Five queries for any number of them, none for none."""
    if not numbers:
        return []
    documents = SearchDocument.objects.filter(pk__in=numbers).select_related(*RELATED)
    found = {
        each.pk: each for each in documents.prefetch_related("source__verdict__checks", "source__verdict__dimensions")
    }
    hits = [found[number] for number in numbers if number in found]
    passages = [hit for hit in hits if hit.chunk and hit.first_step is not None and hit.last_step is not None]
    windows = [(hit.chunk, hit.first_step, hit.last_step - hit.first_step + 1) for hit in passages]  # type: ignore[operator]
    steps = dict(zip([hit.pk for hit in passages], read_windows(windows), strict=True))  # type: ignore[arg-type]
    contents = Blob.objects.read_many([*(hit.digest for hit in hits if hit.digest), ""])
    return [(hit, sections_of(hit, steps.get(hit.pk, []), contents)) for hit in hits]
