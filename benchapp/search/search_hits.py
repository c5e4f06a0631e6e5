"""From a query to hits: documents, counts by facet, and texts, each in a bounded number of queries.

Filters are conditions on documents. Values of a filter are alternatives; several filters must all hold.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_

from django.db import connection
from django.db.models import Exists, Model, OuterRef, Prefetch, Q, QuerySet

from benchapp import models
from benchapp.record.trajectory_store import read_windows
from benchapp.review.blinding import ReviewAccess, open_to
from benchapp.review.comments import comments_for
from benchapp.search import search_index
from benchapp.search.query import Filter, SearchQuery, Term, Value
from benchapp.search.search_index import Phrase, TokenCondition
from benchapp.search.sections import Section, sections_of
from benchapp.search.tokens import fact, fact_value, is_lone_character, split_query, split_query_parts
from runner.base.types import UseKind
from runner.protocols.conditions import unpooled_conditions

Kind = models.SearchDocument.Kind
MANY = 5_000  # rows of one kind
PLACE_FACTS = ("phase", "role", "condition")  # filters with their value in every document's words
WEIGHED = 8  # words of a query whose weight orders its hits


def match_of(query: SearchQuery) -> TokenCondition:
    """Return what the words must and must not have: terms, and those filters that are facts in the words."""
    wanted = [phrases_of(term) for term in query.terms if not term.negated]
    unwanted = [phrase for term in query.terms if term.negated for phrase in phrases_of(term)]
    for part in query.filters:
        if facts := fact_phrases(part):
            if part.negated:
                unwanted += facts
            elif part.name != "is" or all(value.text.lower() == "error" for value in part.values):
                # Not failed,error: either the trial failed or the step shows an error.
                wanted.append(facts)
    if wanted:
        wanted += [facts for part in query.filters if (facts := place_phrases(part))]
    return TokenCondition(tuple(wanted), tuple(unwanted), tuple(_list_words(query))[:WEIGHED])


def _list_words(query: SearchQuery) -> Iterator[Phrase]:
    """Yield the words as they are written: the mere parts of an identifier have no weight."""
    for term in query.terms:
        if not term.negated:
            written = phrases_of(term)[0]
            yield from (Phrase((token,)) for token in written.tokens[:-1])
            yield Phrase(written.tokens[-1:], written.prefix)


def phrases_of(term: Term) -> tuple[Phrase, ...]:
    """Return the phrases that count as the term: its words in a row or, unless quoted, the parts of an identifier."""
    prefix = term.prefix or is_lone_character(term.text)
    found = [Phrase(tuple(split_query(term.text)), prefix)]
    if not term.quoted and (parts := tuple(split_query_parts(term.text))) and parts != found[0].tokens:
        found.append(Phrase(parts, prefix))
    return tuple(found)


def fact_phrases(part: Filter) -> tuple[Phrase, ...]:
    if part.name == "tool":
        return tuple(
            Phrase((f"tool={fact_value(value.text.rstrip('*'))}",), prefix=True)
            if value.how == "glob"
            else Phrase((fact("tool", value.text),))
            for value in part.values
        )
    if part.name == "is" and any(value.text.lower() == "error" for value in part.values):
        return (Phrase((fact("is", "error"),)),)
    return ()


def place_phrases(part: Filter) -> tuple[Phrase, ...]:
    """Return what the words have where this filter holds; whether it holds is up to the filter's condition. With it the
    index returns the few documents of a phase that have a common word, and not all that have the word."""
    if part.negated or part.name not in PLACE_FACTS or any(value.how != "is" for value in part.values):
        return ()
    return tuple(Phrase((fact(part.name, value.text),)) for value in part.values)


# --- values -----------------------------------------------------------------------------------------------------


def _any(values: Iterable[Value], *columns: str) -> Q:
    """Match rows where any of the columns is like any of the values."""
    found = Q(pk__in=[])
    for value in values:
        for column in columns:
            found |= _like(value, column)
    return found


def _like(value: Value, column: str) -> Q:
    if value.how == "is":
        return Q(**{f"{column}__iexact": value.text})
    if value.how == "has":
        return Q(**{f"{column}__icontains": value.text})
    return Q(**{f"{column}__iregex": glob_pattern(value.text, atomic=connection.vendor == "sqlite")})


def glob_pattern(text: str, *, atomic: bool = True) -> str:
    """Translate a glob: `*` is any text, `?` one character, everything else itself.

    `atomic`: as in Python, each part at its first place and never tried at another, so that no pattern takes longer
    than its length times the text's. PostgreSQL has no atomic groups and needs none: it does not backtrack.
    """
    parts = re.split(r"\*+", text)
    first, *rest = ("".join("." if each == "?" else re.escape(each) for each in part) for part in parts)
    if not rest:
        return f"^{first}$"
    *middle, last = rest
    between = "".join(f"(?>.*?{part})" if atomic else f".*{part}" for part in middle)
    return f"^{first}{between}.*{last}$"


def _trials(found: Q) -> Q:
    """Match documents of these trials. Few trials are collected. With many, each document is checked for its own, from
    the newest until there are enough (0.2 s against 2.5 s for `failed` among 300,000 documents)."""
    trials = models.Trial.objects.filter(found).order_by()
    if trials[MANY:].exists():
        return Q(Exists(trials.filter(pk=OuterRef("trial"))))
    return Q(trial__in=trials.values("pk"))


def _tasks(found: Q) -> Q:
    return _trials(Q(task__in=_numbers(models.Task.objects.filter(found))))


def _runs(found: Q) -> Q:
    return Q(run__in=_numbers(models.Run.objects.filter(found)))


def _numbers(rows: QuerySet[Model]) -> list[int] | QuerySet[Model]:
    """Collect the ids of runs, tasks and the like, which are few compared with the documents: knowing them, the
    database can estimate how many documents are theirs, and chooses the better plan."""
    found = list(rows.order_by().values_list("pk", flat=True)[: MANY + 1])
    return found if len(found) <= MANY else rows.order_by()


def _is(values: Iterable[Value]) -> Q | None:
    statuses = [value.text.lower() for value in values if value.text.lower() != "error"]
    return _trials(Q(status__in=statuses)) if statuses else None


def _experiment(values: Iterable[Value]) -> Q:
    are_ids = all(value.how == "is" and _uuid(value.text) for value in values)
    like = _any(values, "name", "public_id") if are_ids else _any(values, "name")
    return _runs(Q(experiment__in=_numbers(models.Experiment.objects.filter(like))))


def _uuid(text: str) -> bool:
    return bool(re.fullmatch(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", text))


def _names(values: Iterable[Value], rows: QuerySet[Model]) -> list[str]:
    """List the skills with such names. Few names occur in many rows, so the names are compared and not the rows."""
    names = rows.order_by().values_list("skill", flat=True).distinct()
    return [name for name in names if any(_is_like(value, name) for value in values)]


def _is_like(value: Value, name: str) -> bool:
    if value.how == "is":
        return value.text.lower() == name.lower()
    if value.how == "has":
        return value.text.lower() in name.lower()
    return bool(re.search(glob_pattern(value.text), name, re.IGNORECASE))


def _skill(values: tuple[Value, ...]) -> Q:
    with_skill = models.SearchDocument.objects.exclude(skill="")  # only files have one, and their index has no others
    named = ~Q(skill="") if _is_any(values) else Q(skill__in=_names(values, with_skill))
    decided = Q(kind=Kind.DECISION, source__in=with_skill.filter(named).order_by().values("source"))
    return Q(kind=Kind.FILE) & named | decided | _using(values, ~Q(kind=UseKind.MOUNTED))


def _using(values: tuple[Value, ...], how: Q) -> Q:
    """Match documents of trials that used a skill in this way. Few trials are collected; with many, each is checked."""
    uses = models.SkillUse.objects.filter(how).order_by()
    if not _is_any(values):
        uses = uses.filter(skill__in=_names(values, models.SkillUse.objects.all()))
    if uses[MANY:].exists():
        return Q(Exists(uses.filter(attempt__trial=OuterRef("trial"))))
    return Q(trial__in=uses.values("attempt__trial"))


def _is_any(values: Iterable[Value]) -> bool:
    """Does any name match, so that none needs to be looked up?"""
    return any(value.how == "glob" and set(value.text) == {"*"} for value in values)


def _family(values: tuple[Value, ...]) -> Q:
    families = _numbers(models.Family.objects.filter(_any(values, "key", "name")))
    decided = models.SearchSource.objects.filter(decision__family__in=families)
    return _tasks(Q(family__in=families)) | Q(kind=Kind.DECISION, source__in=decided.values("pk"))


def _by(values: tuple[Value, ...]) -> Q:
    written = models.SearchSource.objects.filter(
        comment__author__in=_numbers(models.User.objects.filter(_any(values, "username")))
    )
    return Q(kind=Kind.NOTE, source__in=written.values("pk"))


CONDITIONS: dict[str, Callable[[tuple[Value, ...]], Q | None]] = {
    "kind": lambda values: Q(kind__in=[value.text.lower() for value in values]),
    "is": _is,
    "phase": lambda values: _trials(Q(phase__in=[value.text.lower() for value in values])),
    "role": lambda values: _tasks(_any(values, "role")),
    "condition": lambda values: _runs(_any(values, "condition")),
    "model": lambda values: _runs(_any(values, "agent_model")),
    "author": lambda values: _runs(_any(values, "author_model")),
    "harness": lambda values: _runs(_any(values, "harness")),
    "experiment": _experiment,
    "run": lambda values: _runs(Q(public_id__in=[value.text for value in values if _uuid(value.text)])),
    "task": lambda values: _tasks(_any(values, "key", "title")),
    "family": _family,
    "skill": _skill,
    "mounted": lambda values: _using(values, Q(kind=UseKind.MOUNTED)),
    "path": lambda values: Q(kind=Kind.FILE) & _any(values, "path"),
    "by": _by,
}


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


def find(query: SearchQuery, user: models.User, after: HitPlace | None = None) -> Found:
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


def _list_places(query: SearchQuery, user: models.User, after: HitPlace | None) -> list[HitPlace]:
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


def has_hits(query: SearchQuery, visible: QuerySet[models.SearchDocument]) -> bool:
    """Does the query have hits among `documents_for` a person? Callers with several queries compute those once."""
    return bool(_list_numbers(_filter_documents(query, visible), match_of(query), None, 1))


def _read_columns(numbers: Sequence[int]) -> dict[int, tuple[str, ...]]:
    """Return number -> what facets count, in the order of the numbers. Queried separately: the query of the filters
    needs none of these columns, and is planned better without."""
    if not numbers:
        return {}
    documents = models.SearchDocument.objects.filter(pk__in=search_index.select_numbers(numbers))
    found = {number: tuple(values) for number, *values in documents.values_list("pk", *FACETS.values())}
    return {number: found[number] for number in numbers if number in found}


def _list_numbers(
    documents: QuerySet[models.SearchDocument], match: TokenCondition, before: int | None, limit: int
) -> list[int]:
    """List the newest documents with the match in their words. `before`: only older ones than this number."""
    if match.all_of:
        return search_index.list_holding(documents, match, before, limit)
    if before is not None:
        documents = documents.filter(pk__lt=before)
    if match.none_of:
        documents = documents.exclude(pk__in=search_index.select_matching(TokenCondition((match.none_of,))))
    return list(documents.order_by("-pk").values_list("pk", flat=True)[:limit])


def _filter_documents(query: SearchQuery, visible: QuerySet[models.SearchDocument]) -> QuerySet[models.SearchDocument]:
    """Apply the filters, without the words."""
    documents = visible
    for part in query.filters:
        make = CONDITIONS.get(part.name)
        condition = make(part.values) if make else None
        if condition is None:
            continue
        if not part.negated and (facts := fact_phrases(part)):  # is:failed,error
            condition |= Q(pk__in=search_index.select_matching(TokenCondition((facts,))))
        documents = documents.exclude(condition) if part.negated else documents.filter(condition)
    return documents


def documents_for(user: models.User) -> QuerySet[models.SearchDocument]:
    """Documents this person may find: nothing from deleted experiments, superseded sources or retracted notes, and
    nothing from a page closed to a blind reviewer."""
    gone = list(
        models.Run.objects.filter(experiment__in=models.Experiment.objects.exclude(deleted_at=None)).values_list(
            "pk", flat=True
        )
    )
    blind = open_to(user).exists()
    notes = comments_for(user) if blind else models.Comment.objects.all()  # what else it withholds is gone already
    documents = _exclude_hidden(models.SearchDocument.objects.exclude(run__in=gone), notes)
    if not blind:
        return documents
    access = ReviewAccess(user)
    documents = documents.exclude(trial__in=access.closed_trials())
    return documents.exclude(kind__in=[Kind.FILE, Kind.DECISION], run__in=access.closed_runs())


def _exclude_hidden(
    documents: QuerySet[models.SearchDocument], notes: QuerySet[models.Comment]
) -> QuerySet[models.SearchDocument]:
    """Exclude superseded sources and comments that were retracted or are not in `notes`. These are usually few, and so
    read beforehand: joined to every document they cost more to plan than to run."""
    replaced = models.Attempt.objects.filter(status=models.Attempt.Status.SUPERSEDED).order_by().values("pk")
    readable = notes.filter(retracted_at=None).order_by().values("pk")
    hidden = [
        models.SearchSource.objects.filter(way).order_by().values_list("pk", flat=True)
        for way in (
            Q(trajectory__is_superseded=True),
            Q(trajectory__attempt__in=replaced),
            Q(verdict__attempt__in=replaced),
            Q(comment__in=models.Comment.objects.exclude(pk__in=readable).order_by().values("pk")),
        )
    ]
    sources = list(hidden[0].union(*hidden[1:])[: MANY + 1])
    if len(sources) <= MANY:
        return documents.exclude(source__in=sources) if sources else documents
    return documents.exclude(reduce(or_, (Q(source__in=some) for some in hidden)))


# --- what hits show -------------------------------------------------------------------------------------------------

# Each kind of row by itself: PostgreSQL takes longer to plan one query of all 23 tables than to run these.
RELATED = (
    Prefetch("trial", models.Trial.objects.select_related("task__family", "episode__run__experiment")),
    Prefetch("run", models.Run.objects.select_related("experiment")),
    *("episode", "source__seeding"),
    Prefetch("chunk", models.Chunk.objects.select_related("blob")),
    Prefetch("source__trajectory", models.Trajectory.objects.select_related("attempt")),
    Prefetch(
        "source__verdict", models.Verdict.objects.select_related("attempt").prefetch_related("checks", "dimensions")
    ),
    Prefetch("source__decision", models.Decision.objects.select_related("family", "episode")),
    Prefetch("source__comment", models.Comment.objects.select_related("author")),
)


def read_hits(numbers: Sequence[int]) -> list[tuple[models.SearchDocument, list[Section]]]:
    """Return the documents with their texts, in this order. At most one query for each kind, none for no documents."""
    if not numbers:
        return []
    documents = models.SearchDocument.objects.filter(pk__in=numbers).select_related("source").prefetch_related(*RELATED)
    found = {each.pk: each for each in documents}
    hits = [found[number] for number in numbers if number in found]
    passages = [hit for hit in hits if hit.chunk and hit.first_step is not None and hit.last_step is not None]
    windows = [(hit.chunk, hit.first_step, hit.last_step - hit.first_step + 1) for hit in passages]  # type: ignore[operator]
    steps = dict(zip([hit.pk for hit in passages], read_windows(windows), strict=True))  # type: ignore[arg-type]
    contents = models.Blob.objects.read_many([*(hit.digest for hit in hits if hit.digest), ""])
    return [(hit, sections_of(hit, steps.get(hit.pk, []), contents)) for hit in hits]
