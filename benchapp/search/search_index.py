"""The words of documents in the database: FTS5 on SQLite, a tsvector with GIN on PostgreSQL, both with our tokens.

Both get the same tokens at the same places, so both find the same. Two limits of PostgreSQL remain: it keeps at most
255 places of a token in a document (a phrase may be missed after them), and a document has at most 16,383 places, which
the length of passages respects.

Hits are ordered by the *weight* of the query's words: a class from 0 to 3, BM25's measure in steps. A word of a class
above 0 is stored a second time in a document as `2=word`. So a class is matched like any other word, and the first page
needs no look at the hits after it. To rank a word of 200,000 documents one by one takes seconds.
"""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from django.db import connection, transaction
from django.db.models import QuerySet
from django.db.models.expressions import RawSQL

from benchapp.models import SearchDocument
from benchapp.search.tokens import BARRIER, FACT

TABLE = "benchapp_searchindex"
MAX_PLACES = 255  # of one token
LAST_PLACE = 16_383
CLASSES = (0.4, 0.55, 0.7)  # a word has class 1, 2 and 3 in a document from these weights
HEAVIEST = len(CLASSES)
USUAL_LENGTH = 400  # tokens of a document
FIRST_SLICE = 100  # documents of the words that are checked first on PostgreSQL, at least
GROWTH = 8  # each slice is at most this many times as large as those before
NEWEST = 2**62  # above every number


@dataclass(frozen=True, slots=True)
class Phrase:
    """Tokens in a row; with `prefix` the last is only a beginning."""

    tokens: tuple[str, ...]
    prefix: bool = False


@dataclass(frozen=True, slots=True)
class TokenCondition:
    """At least one phrase of each group of `all_of`, and none of `none_of`.

    `weight`: only where the lightest of `words` has this class; None where no class is asked for.
    """

    all_of: tuple[tuple[Phrase, ...], ...] = ()
    none_of: tuple[Phrase, ...] = ()
    words: tuple[Phrase, ...] = ()  # each of one token
    weight: int | None = None

    def weighing(self, weight: int) -> tuple[tuple[Phrase, ...], ...]:
        """Return groups as `all_of`: every word has this class or a higher one."""
        classes = range(weight, HEAVIEST + 1)
        return tuple(
            tuple(Phrase((f"{each}{FACT}{word.tokens[0]}",), word.prefix) for each in classes) for word in self.words
        )


def store_tokens(rows: Sequence[tuple[int, list[str]]]) -> None:
    """Store the tokens of new documents, by their numbers. Call inside the transaction that makes them."""
    if not rows:
        return
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            words = [(number, " ".join([*tokens, *_weigh(tokens)])) for number, tokens in rows]
            cursor.executemany("INSERT INTO benchapp_searchindex(rowid, words) VALUES (%s, %s)", words)
        else:
            words = [(number, _tsvector([*tokens, *_weigh(tokens)])) for number, tokens in rows]
            cursor.executemany("INSERT INTO benchapp_searchindex(rowid, words) VALUES (%s, %s::tsvector)", words)


def _weigh(tokens: Sequence[str]) -> Iterator[str]:
    """Weigh each word by its count, relative to the document's length. Most words of a long document occur once, have
    class 0 and add nothing. The constants are those usual for BM25."""
    length = 1.2 * (0.25 + 0.75 * len(tokens) / USUAL_LENGTH)
    for token, times in Counter(tokens).items():
        weight = bisect(CLASSES, times / (times + length))
        if weight and token != BARRIER and FACT not in token:
            yield f"{weight}{FACT}{token}"


def clear() -> None:
    """Remove all words. The caller removes the documents."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("INSERT INTO benchapp_searchindex(benchapp_searchindex) VALUES ('delete-all')")
        else:
            cursor.execute("TRUNCATE benchapp_searchindex")


def select_matching(match: TokenCondition) -> RawSQL:
    """Select the numbers of documents with all of `all_of` and none of `none_of`; `all_of` is not empty."""
    condition, asked = _condition(match)
    return RawSQL(f"SELECT rowid FROM {TABLE} WHERE {condition}", [asked])


def list_holding(
    documents: QuerySet[SearchDocument], match: TokenCondition, before: int | None, limit: int
) -> list[int]:
    """List the numbers of the newest `limit` documents that match, newest first. `before`: only older ones than this
    number."""
    if connection.vendor == "sqlite":
        # List by a join, ordered by the index's own numbers: SQLite walks the word's documents from the newest until it
        # has enough. From a subquery it would collect all first (9 ms against 82 for a word in 200,000 documents).
        condition, asked = _condition(match)
        where = [f"{TABLE}.rowid = {SearchDocument._meta.db_table}.id", condition]
        params: list[object] = [asked]
        if before is not None:
            where.append(f"{TABLE}.rowid < %s")
            params.append(before)
        joined = documents.extra(tables=[TABLE], where=where, params=params, order_by=[f"-{TABLE}.rowid"])
        return list(joined.values_list("pk", flat=True)[:limit])
    size = max(FIRST_SLICE, 2 * limit)
    numbers = _list_matching(match, before, GROWTH * size)
    is_whole = len(numbers) < GROWTH * size
    found: list[int] = []
    seen = 0
    while numbers and len(found) < limit:
        slice_, numbers = numbers[:size], numbers[size:]
        kept = documents.filter(pk__in=select_numbers(slice_)).order_by("-pk")
        found += kept.values_list("pk", flat=True)[: limit - len(found)]
        seen += len(slice_)
        # Next, twice as many documents as should hold what is missing.
        size = max(FIRST_SLICE, min(GROWTH * seen, 2 * (limit - len(found)) * seen // max(len(found), 1)))
        if not numbers and not is_whole:
            numbers, is_whole = _list_matching(match, slice_[-1], None), True
    return found


def select_numbers(numbers: Sequence[int]) -> Sequence[int] | RawSQL:
    """Wrap for `pk__in`. On PostgreSQL one array: the driver needs 5 ms to write a thousand numbers one by one."""
    if connection.vendor == "sqlite":
        return numbers
    return RawSQL("SELECT unnest(%s::bigint[])", [f"{{{','.join(map(str, numbers))}}}"])


def _list_matching(match: TokenCondition, before: int | None, limit: int | None) -> list[int]:
    """List the numbers, and keep PostgreSQL from reading the words of one document after the other. It takes that for
    cheap, but they are stored outside the row (970 ms against 21 among 68,000 documents)."""
    condition, asked = _condition(match)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_indexscan = off")
        newest = f"SELECT rowid FROM {TABLE} WHERE {condition} AND rowid < %s ORDER BY rowid DESC LIMIT %s"
        cursor.execute(f"SELECT array_agg(rowid) FROM ({newest}) AS found", [asked, before or NEWEST, limit])
        (numbers,) = cursor.fetchone() or (None,)
    return list(numbers or ())


def _condition(match: TokenCondition) -> tuple[str, str]:
    """Return (SQL with one placeholder, its value)."""
    on_sqlite = connection.vendor == "sqlite"
    either, both, but_not, write = (" OR ", " AND ", " NOT ", _fts5) if on_sqlite else (" | ", " & ", " & !", _tsquery)

    def join(groups: Iterable[Sequence[Phrase]]) -> str:
        return both.join(f"({either.join(map(write, group))})" for group in groups)

    wanted = join([*match.all_of, *(match.weighing(match.weight) if match.weight else ())])
    unwanted = list(map(write, match.none_of))
    if match.weight is not None and match.weight < HEAVIEST:
        unwanted.append(f"({join(match.weighing(match.weight + 1))})")
    value = wanted + "".join(f"{but_not}{each}" for each in unwanted)
    return (f"{TABLE} MATCH %s" if on_sqlite else f"{TABLE}.words @@ %s::tsquery"), value


def _fts5(phrase: Phrase) -> str:
    return f'"{" ".join(phrase.tokens)}"{" *" * phrase.prefix}'


def _tsquery(phrase: Phrase) -> str:
    last = len(phrase.tokens) - 1
    words = [f"'{token}'{':*' * (phrase.prefix and place == last)}" for place, token in enumerate(phrase.tokens)]
    return f"({' <-> '.join(words)})"


def _tsvector(tokens: Iterable[str]) -> str:
    """Format the tokens for PostgreSQL; they contain nothing that needs escaping."""
    places: dict[str, list[int]] = {}
    for place, token in enumerate(tokens, start=1):
        found = places.setdefault(token, [])
        if len(found) < MAX_PLACES:
            found.append(min(place, LAST_PLACE))
    return " ".join(f"'{token}':{','.join(map(str, found))}" for token, found in places.items())
