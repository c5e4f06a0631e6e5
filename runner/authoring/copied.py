"""Runs of words that two texts share: shingles of words, extended to full length, with their place in the first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

_WORD = re.compile(r"[A-Za-z0-9_]+|[^\W_]", re.UNICODE)
MAX_WORDS = 60_000  # of one text


class Word(NamedTuple):
    """A word in lower case and its place in the text, in characters."""

    text: str
    start: int
    end: int


class CopiedRun(NamedTuple):
    """Shared words [start, end) in characters of the text asked about. `source` is the place of the other text."""

    start: int
    end: int
    words: int
    source: int


@lru_cache(maxsize=4)  # several rules in turn read the texts of one library; a long one takes 10 MB
def words_of(text: str) -> tuple[Word, ...]:
    return tuple(
        Word(match.group().lower(), match.start(), match.end())
        for _, match in zip(range(MAX_WORDS), _WORD.finditer(text), strict=False)
    )


@dataclass(frozen=True, slots=True)
class CopySource:
    """Shingles of `size` words -> the first text, by number, that has them."""

    size: int
    shingles: dict[tuple[str, ...], int]

    @classmethod
    def of(cls, texts: Iterable[str], size: int) -> CopySource:
        return _index(tuple(texts), size)

    def without(self, texts: Iterable[str]) -> CopySource:
        """The same, minus every shingle that one of these texts has too."""
        left = dict(self.shingles)
        for text in texts:
            for shingle in shingles_of([word.text for word in words_of(text)], self.size):
                left.pop(shingle, None)
        return CopySource(self.size, left)

    def runs_in(self, text: str, *, distinct: int = 5) -> Iterator[CopiedRun]:
        """Find the longest runs of words that the corpus has too, left to right, none inside another. A run needs
        `distinct` different words, so that a ruler or a row of numbers does not count."""
        return self.runs_of(words_of(text), distinct=distinct)

    def runs_of(self, words: Sequence[Word], *, distinct: int = 5) -> Iterator[CopiedRun]:
        """Do the same for words in a row."""
        shared = [self.shingles.get(shingle) for shingle in shingles_of([word.text for word in words], self.size)]
        place = 0
        while place < len(shared):
            source = shared[place]
            if source is None:
                place += 1
                continue
            last = place
            while last + 1 < len(shared) and shared[last + 1] is not None:
                last += 1
            run = words[place : last + self.size]
            if len({word.text for word in run if not word.text.isdigit()}) >= distinct:
                yield CopiedRun(run[0].start, run[-1].end, len(run), source)
            place = last + self.size


@lru_cache(maxsize=4)  # the skills of one task are compared with the same texts one after the other
def _index(texts: tuple[str, ...], size: int) -> CopySource:
    found: dict[tuple[str, ...], int] = {}
    for number, text in enumerate(texts):
        for shingle in shingles_of([word.text for word in words_of(text)], size):
            found.setdefault(shingle, number)
    return CopySource(size, found)


def shingles_of(words: list[str], size: int) -> list[tuple[str, ...]]:
    return list(zip(*(words[offset:] for offset in range(size)), strict=False))
