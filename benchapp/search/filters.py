"""Filters as conditions on documents. Values of a filter are alternatives; several filters must all hold."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from django.db import connection
from django.db.models import Exists, Model, OuterRef, Q, QuerySet

from benchapp.models import Experiment, Family, Run, SearchDocument, SearchSource, SkillUse, Task, Trial, User
from benchapp.search.query import Filter, SearchQuery, Term, Value
from benchapp.search.search_index import Phrase, TokenCondition
from benchapp.search.tokens import fact, fact_value, is_lone_character, split_query, split_query_parts
from runner.base.types import UseKind

Kind = SearchDocument.Kind
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
            elif not _column_values(part):  # failed,error: either the trial failed or the step shows an error
                wanted.append(facts)
    if wanted:
        wanted += [facts for part in query.filters if (facts := place_phrases(part))]
    return TokenCondition(tuple(wanted), tuple(unwanted), tuple(_words_of(query))[:WEIGHED])


def _words_of(query: SearchQuery) -> Iterator[Phrase]:
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
        return tuple(_tool(value) for value in part.values)
    if part.name == "is" and any(value.text.lower() == "error" for value in part.values):
        return (Phrase((fact("is", "error"),)),)
    return ()


def place_phrases(part: Filter) -> tuple[Phrase, ...]:
    """Return what the words have where this filter holds; whether it holds is up to the filter's condition. With it the
    index returns the few documents of a phase that have a common word, and not all that have the word."""
    if part.negated or part.name not in PLACE_FACTS or any(value.how != "is" for value in part.values):
        return ()
    return tuple(Phrase((fact(part.name, value.text),)) for value in part.values)


def _tool(value: Value) -> Phrase:
    if value.how == "glob":
        return Phrase((f"tool={fact_value(value.text.rstrip('*'))}",), prefix=True)
    return Phrase((fact("tool", value.text),))


def _column_values(part: Filter) -> list[str]:
    """Return the values of `is:` that are a trial's status."""
    return [value.text.lower() for value in part.values if part.name == "is" and value.text.lower() != "error"]


def condition_of(part: Filter) -> Q | None:
    """Return the filter's condition on documents, before negation. None where the words alone decide."""
    make = CONDITIONS.get(part.name)
    return make(part.values) if make else None


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
    first, *rest = (_glob_part(part) for part in re.split(r"\*+", text))
    if not rest:
        return f"^{first}$"
    *middle, last = rest
    between = "".join(f"(?>.*?{part})" if atomic else f".*{part}" for part in middle)
    return f"^{first}{between}.*{last}$"


def _glob_part(text: str) -> str:
    return "".join("." if each == "?" else re.escape(each) for each in text)


def _trials(found: Q) -> Q:
    """Match documents of these trials. Few trials are collected. With many, each document is checked for its own, from
    the newest until there are enough (0.2 s against 2.5 s for `failed` among 300,000 documents)."""
    trials = Trial.objects.filter(found).order_by()
    if trials[MANY:].exists():
        return Q(Exists(trials.filter(pk=OuterRef("trial"))))
    return Q(trial__in=trials.values("pk"))


def _tasks(found: Q) -> Q:
    return _trials(Q(task__in=_numbers(Task.objects.filter(found))))


def _runs(found: Q) -> Q:
    return Q(run__in=_numbers(Run.objects.filter(found)))


def _numbers(rows: QuerySet[Model]) -> list[int] | QuerySet[Model]:
    """Collect the ids of runs, tasks and the like, which are few compared with the documents: knowing them, the
    database can estimate how many documents are theirs, and chooses the better plan."""
    found = list(rows.order_by().values_list("pk", flat=True)[: MANY + 1])
    return found if len(found) <= MANY else rows.order_by()


def _is(values: Iterable[Value]) -> Q | None:
    statuses = [value.text.lower() for value in values if value.text.lower() != "error"]
    return _trials(Q(status__in=statuses)) if statuses else None


def _experiment(values: Iterable[Value]) -> Q:
    like = _any(values, "name", "public_id") if _ids(values) else _any(values, "name")
    return _runs(Q(experiment__in=_numbers(Experiment.objects.filter(like))))


def _ids(values: Iterable[Value]) -> bool:
    return all(value.how == "is" and _uuid(value.text) for value in values)


def _uuid(text: str) -> bool:
    return bool(re.fullmatch(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", text))


def _run(values: Iterable[Value]) -> Q:
    return _runs(Q(public_id__in=[value.text for value in values if _uuid(value.text)]))


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
    with_skill = SearchDocument.objects.exclude(skill="")  # only files have one, and their index has no others
    named = ~Q(skill="") if _is_any(values) else Q(skill__in=_names(values, with_skill))
    decided = Q(kind=Kind.DECISION, source__in=with_skill.filter(named).order_by().values("source"))
    return Q(kind=Kind.FILE) & named | decided | _using(values, ~Q(kind=UseKind.MOUNTED))


def _filter_mounted(values: tuple[Value, ...]) -> Q:
    return _using(values, Q(kind=UseKind.MOUNTED))


def _using(values: tuple[Value, ...], how: Q) -> Q:
    """Match documents of trials that used a skill in this way. Few trials are collected; with many, each is checked."""
    uses = SkillUse.objects.filter(how).order_by()
    if not _is_any(values):
        uses = uses.filter(skill__in=_names(values, SkillUse.objects.all()))
    if uses[MANY:].exists():
        return Q(Exists(uses.filter(attempt__trial=OuterRef("trial"))))
    return Q(trial__in=uses.values("attempt__trial"))


def _is_any(values: Iterable[Value]) -> bool:
    """Does any name match, so that none needs to be looked up?"""
    return any(value.how == "glob" and set(value.text) == {"*"} for value in values)


def _family(values: tuple[Value, ...]) -> Q:
    families = _numbers(Family.objects.filter(_any(values, "key", "name")))
    decided = SearchSource.objects.filter(decision__family__in=families)
    return _tasks(Q(family__in=families)) | Q(kind=Kind.DECISION, source__in=decided.values("pk"))


def _by(values: tuple[Value, ...]) -> Q:
    written = SearchSource.objects.filter(comment__author__in=_numbers(User.objects.filter(_any(values, "username"))))
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
    "run": _run,
    "task": lambda values: _tasks(_any(values, "key", "title")),
    "family": _family,
    "skill": _skill,
    "mounted": _filter_mounted,
    "path": lambda values: Q(kind=Kind.FILE) & _any(values, "path"),
    "by": _by,
}
