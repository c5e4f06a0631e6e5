"""From a query to hits: documents, counts by facet, and texts, each in a bounded number of queries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_

from django.db.models import Prefetch, Q, QuerySet

from benchapp.models import (
    Attempt,
    Blob,
    Chunk,
    Comment,
    Decision,
    Experiment,
    Run,
    SearchDocument,
    SearchSource,
    Trajectory,
    Trial,
    User,
    Verdict,
)
from benchapp.record.trajectory_store import read_windows
from benchapp.review.blinding import Words, open_to
from benchapp.review.comments import comments_for
from benchapp.search import search_index
from benchapp.search.filters import MANY, condition_of, fact_phrases, match_of
from benchapp.search.query import SearchQuery
from benchapp.search.search_index import TokenCondition
from benchapp.search.sections import Section, sections_of
from runner.protocols.conditions import unpooled_conditions

Kind = SearchDocument.Kind
MOST = 1_000  # hits listed and counted at once
MAX_PLACE = 20  # characters of a place in an address
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
class HitPlace:
    """The place of a hit among all of a query: by the class of its words, then by the number of its document."""

    weight: int
    number: int

    def __str__(self) -> str:
        return f"{self.weight}-{self.number}"

    @classmethod
    def read(cls, text: str) -> HitPlace | None:
        """Parse the place. None for any other text."""
        weight, _, number = text.partition("-")
        if not (text.isascii() and weight.isdigit() and number.isdigit() and len(text) <= MAX_PLACE):
            return None
        return cls(min(int(weight), search_index.HEAVIEST), int(number))


@dataclass(frozen=True, slots=True)
class Found:
    """`numbers` of at most MOST documents, in order, those of probes and qualifications after all others. `facets`
    count them. `last`: where the next hits continue; None where there are no more."""

    numbers: list[int] = field(default_factory=list)
    facets: Mapping[str, Counter[str]] = field(default_factory=dict)
    last: HitPlace | None = None


def find(query: SearchQuery, user: User, after: HitPlace | None = None) -> Found:
    """Return hits after a place. Three queries, one more per class of words, two more for a blind reviewer."""
    if query.is_empty or query.problems:
        return Found()
    places = _list_places(query, user, after)
    rows = _read_columns([place.number for place in places[:MOST]])
    columns = list(zip(*rows.values(), strict=True)) or [()] * len(FACETS)
    facets = {name: Counter(value for value in column if value) for name, column in zip(FACETS, columns, strict=True)}
    condition = list(FACETS).index("condition")
    extra = unpooled_conditions()
    ordered = sorted(rows, key=lambda number: rows[number][condition] in extra)
    return Found(ordered, facets, places[MOST - 1] if len(places) > MOST else None)


def _list_places(query: SearchQuery, user: User, after: HitPlace | None) -> list[HitPlace]:
    """List one more than are shown, if there are more: class by class, the newest of each first."""
    match, documents = match_of(query), _filter_documents(query, documents_for(user))
    heaviest = search_index.HEAVIEST if match.words else 0
    found: list[HitPlace] = []
    for weight in range(min(after.weight, heaviest) if after else heaviest, -1, -1):
        before = after.number if after and after.weight == weight else None
        weighed = replace(match, weight=weight if heaviest else None)
        numbers = _list_numbers(documents, weighed, before, MOST + 1 - len(found))
        found += [HitPlace(weight, number) for number in numbers]
        if len(found) > MOST:
            break
    return found


def has_hits(query: SearchQuery, visible: QuerySet[SearchDocument]) -> bool:
    """Does the query have hits among `documents_for` a person? Callers with several queries compute those once."""
    return bool(_list_numbers(_filter_documents(query, visible), match_of(query), None, 1))


def _read_columns(numbers: Sequence[int]) -> dict[int, tuple[str, ...]]:
    """Return number -> what facets count, in the order of the numbers. Queried separately: the query of the filters
    needs none of these columns, and is planned better without."""
    if not numbers:
        return {}
    documents = SearchDocument.objects.filter(pk__in=search_index.select_numbers(numbers))
    found = {number: tuple(values) for number, *values in documents.values_list("pk", *FACETS.values())}
    return {number: found[number] for number in numbers if number in found}


def _list_numbers(
    documents: QuerySet[SearchDocument], match: TokenCondition, before: int | None, limit: int
) -> list[int]:
    """List the newest documents with the match in their words. `before`: only older ones than this number."""
    if match.all_of:
        return search_index.list_holding(documents, match, before, limit)
    if before is not None:
        documents = documents.filter(pk__lt=before)
    if match.none_of:
        documents = documents.exclude(pk__in=search_index.select_matching(TokenCondition((match.none_of,))))
    return list(documents.order_by("-pk").values_list("pk", flat=True)[:limit])


def _filter_documents(query: SearchQuery, visible: QuerySet[SearchDocument]) -> QuerySet[SearchDocument]:
    """Apply the filters, without the words."""
    documents = visible
    for part in query.filters:
        condition = condition_of(part)
        if condition is None:
            continue
        if not part.negated and (facts := fact_phrases(part)):  # is:failed,error
            condition |= Q(pk__in=search_index.select_matching(TokenCondition((facts,))))
        documents = documents.exclude(condition) if part.negated else documents.filter(condition)
    return documents


def documents_for(user: User) -> QuerySet[SearchDocument]:
    """Documents this person may find: nothing from deleted experiments, superseded sources or retracted notes, and
    nothing from a page closed to a blind reviewer."""
    gone = list(
        Run.objects.filter(experiment__in=Experiment.objects.exclude(deleted_at=None)).values_list("pk", flat=True)
    )
    blind = open_to(user).exists()
    notes = comments_for(user) if blind else Comment.objects.all()  # what else it withholds is gone already
    documents = _exclude_hidden(SearchDocument.objects.exclude(run__in=gone), notes)
    if not blind:
        return documents
    words = Words(user)
    documents = documents.exclude(trial__in=words.closed_trials())
    return documents.exclude(kind__in=[Kind.FILE, Kind.DECISION], run__in=words.closed_runs())


def _exclude_hidden(documents: QuerySet[SearchDocument], notes: QuerySet[Comment]) -> QuerySet[SearchDocument]:
    """Exclude superseded sources and comments that were retracted or are not in `notes`. These are usually few, and so
    read beforehand: joined to every document they cost more to plan than to run."""
    replaced = Attempt.objects.filter(status=Attempt.Status.SUPERSEDED).order_by().values("pk")
    readable = notes.filter(retracted_at=None).order_by().values("pk")
    hidden = [
        SearchSource.objects.filter(way).order_by().values_list("pk", flat=True)
        for way in (
            Q(trajectory__is_superseded=True),
            Q(trajectory__attempt__in=replaced),
            Q(verdict__attempt__in=replaced),
            Q(comment__in=Comment.objects.exclude(pk__in=readable).order_by().values("pk")),
        )
    ]
    sources = list(hidden[0].union(*hidden[1:])[: MANY + 1])
    if len(sources) <= MANY:
        return documents.exclude(source__in=sources) if sources else documents
    return documents.exclude(reduce(or_, (Q(source__in=some) for some in hidden)))


# --- what hits show -------------------------------------------------------------------------------------------------

# Each kind of row by itself: PostgreSQL takes longer to plan one query of all 23 tables than to run these.
RELATED = (
    Prefetch("trial", Trial.objects.select_related("task__family", "episode__run__experiment")),
    Prefetch("run", Run.objects.select_related("experiment")),
    *("episode", "source__seeding"),
    Prefetch("chunk", Chunk.objects.select_related("blob")),
    Prefetch("source__trajectory", Trajectory.objects.select_related("attempt")),
    Prefetch("source__verdict", Verdict.objects.select_related("attempt").prefetch_related("checks", "dimensions")),
    Prefetch("source__decision", Decision.objects.select_related("family", "episode")),
    Prefetch("source__comment", Comment.objects.select_related("author")),
)


def read_hits(numbers: Sequence[int]) -> list[tuple[SearchDocument, list[Section]]]:
    """Return the documents with their texts, in this order. At most one query for each kind, none for no documents."""
    if not numbers:
        return []
    documents = SearchDocument.objects.filter(pk__in=numbers).select_related("source").prefetch_related(*RELATED)
    found = {each.pk: each for each in documents}
    hits = [found[number] for number in numbers if number in found]
    passages = [hit for hit in hits if hit.chunk and hit.first_step is not None and hit.last_step is not None]
    windows = [(hit.chunk, hit.first_step, hit.last_step - hit.first_step + 1) for hit in passages]  # type: ignore[operator]
    steps = dict(zip([hit.pk for hit in passages], read_windows(windows), strict=True))  # type: ignore[arg-type]
    contents = Blob.objects.read_many([*(hit.digest for hit in hits if hit.digest), ""])
    return [(hit, sections_of(hit, steps.get(hit.pk, []), contents)) for hit in hits]
