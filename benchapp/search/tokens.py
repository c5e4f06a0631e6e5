"""The one tokeniser for indexing and queries, on SQLite and PostgreSQL alike.

An *atom* is a run of letters, digits and underscores (`KeyError`, `tidy_tables`, `notes`), a number with its points
(`27.5`, `1.2.3`), or, of Chinese, Japanese and Korean, two neighbouring characters. Case does not count, and texts are
compared in Unicode's NFKC form. Paths and dashed names are their atoms in a row (`data/notes.txt` is `data notes txt`),
so any piece of a path is found as a row of its pieces.

An identifier is kept whole and also split at underscores and, where it is plain ASCII, at case: `tidy_tables` is found
by `tables`, `KeyError` by `error`. The split parts follow all atoms of a text, each identifier's between barriers. So
they neither come between two words of a phrase nor form phrases with one another.

A token holds nothing but letters, digits, underscores and points, so both databases take it as one word.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

BARRIER = "|"  # never a token of a text
FACT = "="  # in tokens for facts about a passage: tool=bash
MAX_TOKEN = 64  # characters; longer words are found by their beginning
MAX_PARTS = 8  # an identifier of more parts is noise rather than a name

_CJK = "\u2e80-\u303f\u3040-\u30ff\u3130-\u318f\u31a0-\u31ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"  # noqa: E501
_ATOM = re.compile(rf"(?P<cjk>[{_CJK}]+)|[0-9]+(?:\.[0-9]+)+|(?:[^\W{_CJK}]|[\u0300-\u036f])+")
# the same, three times as fast, where no other character is
_ASCII_ATOM = re.compile(r"[0-9]+(?:\.[0-9]+)+|\w+", re.ASCII)
_PART = re.compile(r"[A-Z]+(?![a-z])[0-9]*|[A-Z]?[a-z]+[0-9]*|[0-9]+")
_NOT_IN_TOKENS = re.compile(r"[^\w.]")


class Atom(NamedTuple):
    """A token with its place in the text. `parts` are those of an identifier that has several."""

    token: str
    start: int
    end: int
    parts: tuple[str, ...] = ()


def atoms(text: str) -> Iterator[Atom]:
    """Yield every atom in order. A run of CJK characters gives each pair, and its last character alone."""
    for match in (_ASCII_ATOM if text.isascii() else _ATOM).finditer(text):
        start, end = match.span()
        if match.lastgroup == "cjk":
            yield from _pairs(match.group(), start)
        elif found := _take_word(match.group()):
            yield Atom(found[0], start, end, found[1])


def _pairs(run: str, start: int) -> Iterator[Atom]:
    for place in range(len(run)):
        if token := normal(run[place : place + 2]):
            yield Atom(token, start + place, start + min(place + 2, len(run)))


@lru_cache(maxsize=50_000)
def _take_word(word: str) -> tuple[str, tuple[str, ...]] | None:
    token = normal(word)
    return (token, _parts(word)) if token else None


def normal(word: str) -> str:
    """Return the word as a token, empty if no part of it can be one."""
    if word.isascii():
        return word[:MAX_TOKEN].lower()
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", word).casefold())
    # Without the marks that do not combine with the letter before them.
    letters = "".join(character for character in folded if not unicodedata.combining(character))
    return _NOT_IN_TOKENS.sub("", letters)[:MAX_TOKEN]


def _parts(word: str) -> tuple[str, ...]:
    if len(word) > MAX_TOKEN or (word.islower() and "_" not in word) or word.isdigit() or "." in word:
        return ()
    pieces = _PART.findall(word) if word.isascii() else word.split("_")
    parts = tuple(token for piece in pieces if (token := normal(piece)))
    return parts if 1 < len(parts) <= MAX_PARTS or (len(parts) == 1 and "_" in word) else ()


def stream(texts: Iterable[str], facts: Iterable[str] = ()) -> list[str]:
    """Return the tokens to index, in order: atoms, then the parts of identifiers (each identifier once), then facts. No
    phrase may cross the end of a text."""
    tokens: list[str] = []
    parts: set[tuple[str, ...]] = set()
    for text in texts:
        pairs = (
            map(_take_word, _ASCII_ATOM.findall(text)) if text.isascii() else ((a.token, a.parts) for a in atoms(text))
        )
        for pair in pairs:
            if pair is None:
                continue
            tokens.append(pair[0])
            if pair[1]:
                parts.add(pair[1])
        tokens.append(BARRIER)
    for identifier in sorted(parts):
        tokens += [*identifier, BARRIER]
    return [*tokens, *facts]


def split_query(text: str) -> list[str]:
    """Return the tokens to search for in a row. Of CJK only the pairs, unless there is just one character."""
    found = []
    for match in _ATOM.finditer(text):
        if match.lastgroup == "cjk":
            pairs = [atom.token for atom in _pairs(match.group(), 0)]
            found += pairs[:-1] or pairs
        elif taken := _take_word(match.group()):
            found.append(taken[0])
    return found


def split_query_parts(text: str) -> list[str]:
    """Return the same for the parts of identifiers: `key error` and `key_error` find `KeyError`."""
    found: list[str] = []
    for match in _ATOM.finditer(text):
        if match.lastgroup == "cjk":
            return []
        if taken := _take_word(match.group()):
            found += taken[1] or (taken[0],)
    return found


def is_lone_character(text: str) -> bool:
    """Is it a single CJK character? It is found at the beginning of every pair, so it is a prefix."""
    match = _ATOM.fullmatch(text.strip())
    return bool(match and match.lastgroup == "cjk" and len(match.group()) == 1)


def fact(name: str, value: str) -> str:
    """Return a token that no text gives: `tool=read_file`."""
    return f"{name}{FACT}{fact_value(value)}"


def fact_value(value: str) -> str:
    return _NOT_IN_TOKENS.sub("_", unicodedata.normalize("NFKC", value).casefold())[:MAX_TOKEN]
