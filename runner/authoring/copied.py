"""Runs of words that two texts share: shingles of words, extended to full length, with their place in the first.

Overlap of a text with what it must not reveal: a teacher's advice with the reference skill shown to the teacher.

SkillLearnBench's teacher reads the human skill and must give suggestions only (arXiv 2604.20087, section 3.3). The
words it shares with the skill show whether it did. Words that the student knows anyway, from the task's instruction or
its own skill, prove nothing. They are taken out first, and nothing is counted across the gap.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
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
def split_words(text: str) -> tuple[Word, ...]:
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
        """Return a source without the shingles that one of these texts has too."""
        left = dict(self.shingles)
        for text in texts:
            for shingle in shingles_of([word.text for word in split_words(text)], self.size):
                left.pop(shingle, None)
        return CopySource(self.size, left)

    def runs_in(self, text: str, *, distinct: int = 5) -> Iterator[CopiedRun]:
        """Find the longest runs of words that the corpus has too, left to right, none inside another. A run needs
        `distinct` different words, so that a ruler or a row of numbers does not count."""
        return self.runs_of(split_words(text), distinct=distinct)

    def runs_of(self, words: Sequence[Word], *, distinct: int = 5) -> Iterator[CopiedRun]:
        """Return the shared runs for words in a row."""
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
        for shingle in shingles_of([word.text for word in split_words(text)], size):
            found.setdefault(shingle, number)
    return CopySource(size, found)


def shingles_of(words: list[str], size: int) -> list[tuple[str, ...]]:
    return list(zip(*(words[offset:] for offset in range(size)), strict=False))


SIZE = 8  # words; an independently written sentence rarely has 8 in the same order
LEAKED = 2  # runs or lines; one may be a name, a heading or an idiom, two are nine words in a row or two places
LEAKED_RUN = 12  # words; also the limit of the rule reference-text, and what decides for sizes above 8
DISTINCT = 5  # different words that are not numbers, so that a ruler or a row of digits does not count as copied
CODE_LINE = 5  # words of a whole line, mostly of code: dense, and too short for a run; `import numpy as np` has four
SHORT_LINE = 3  # words of a line of a short text; fewer do not show their origin
MAX_PASSAGES = 20
MAX_PASSAGE_CHARS = 400


@dataclass(frozen=True, slots=True)
class CopiedPassage:
    """Characters [start, end) of the text that a source has too: `source` is its number. `text` is cut at
    MAX_PASSAGE_CHARS; `words` counts the whole."""

    start: int
    end: int
    words: int
    source: int
    text: str


@dataclass(frozen=True, slots=True)
class CopiedShare:
    """`shared` of `total` runs of `size` words occur in a source; of a text too short for one, lines (`by_lines`).

    What the ignored texts account for is left out. longest: words of the longest passage made of such runs; 0 for none.
    lines: whole lines of a source, of CODE_LINE words and more, that no run covers.
    passages: the first MAX_PASSAGES runs and lines in the text's order.
    """

    size: int
    shared: int
    total: int
    longest: int
    passages: tuple[CopiedPassage, ...]
    lines: int = 0
    by_lines: bool = False

    @property
    def share(self) -> float | None:
        """Return the share from 0 to 1; None if the text has nothing to compare: missing is not zero."""
        return self.shared / self.total if self.total else None


def overlap(text: str, sources: Iterable[str], *, n: int = SIZE, ignoring: Iterable[str] = ()) -> CopiedShare:
    """Compare `text` with `sources` by words. Case, punctuation and white space do not count, in code neither.

    Only the first MAX_WORDS words of each text are read (runner.authoring.copied).
    """
    words, sources, ignoring = split_words(text), list(sources), list(ignoring)
    if len(words) < n:
        return _of_short(text, sources, n, ignoring)
    corpus, known = CopySource.of(sources, n), CopySource.of(ignoring, n)
    runs: list[CopiedRun] = []
    total = 0
    for part in _unknown(words, known):
        total += max(0, len(part) - n + 1)
        runs += corpus.runs_of(part, distinct=min(DISTINCT, n))
    shared = sum(run.words - n + 1 for run in runs)
    lines = [line for line in _whole_lines(text, sources, n, ignoring) if not _is_in(line, runs)]
    return CopiedShare(n, shared, total, _longest(runs + lines), _passages(text, runs + lines), lines=len(lines))


def leaks(share: CopiedShare) -> bool:
    """Is it too much for chance? Strict, because a leak that passes spoils a run and an alarm costs one more request.

    Measured on SkillLearnBench's release: of 490 pairs of a generated skill and the human skills of another task, 4
    share a run of 8 words (lines of imports), 1 shares two, none a whole line of 5 to 7 words or 12 words in a row. A
    short text leaks with a single line that a source has word by word.
    """
    if share.by_lines:
        return share.shared > 0
    return share.shared + share.lines >= LEAKED or share.longest >= LEAKED_RUN


def _unknown(words: Sequence[Word], known: CopySource) -> Iterator[list[Word]]:
    """Yield the parts between words that the known texts have."""
    is_known = [False] * len(words)
    for place, shingle in enumerate(shingles_of([word.text for word in words], known.size)):
        if shingle in known.shingles:
            is_known[place : place + known.size] = [True] * known.size
    for skip, part in groupby(zip(is_known, words, strict=True), key=lambda pair: pair[0]):
        if not skip:
            yield [word for _, word in part]


def _whole_lines(text: str, sources: list[str], n: int, ignoring: list[str]) -> Iterator[CopiedRun]:
    """Yield lines of a source that are too short for a run."""
    indexed = _index_lines(tuple(sources))
    known = [_join(split_words(each)) for each in ignoring]
    for words in _lines(text):
        joined = _join(words)
        if CODE_LINE <= len(words) < n and joined in indexed and not any(joined in each for each in known):
            yield _run(words, indexed[joined])


@lru_cache(maxsize=2)
def _index_lines(sources: tuple[str, ...]) -> dict[str, int]:
    """Return each line's words -> the last source that has it."""
    return {_join(words): number for number, source in enumerate(sources) for words in _lines(source)}


def _of_short(text: str, sources: list[str], n: int, ignoring: list[str]) -> CopiedShare:
    """Measure lines of at least SHORT_LINE words that a source has in one piece."""
    originals = [_join(split_words(source)) for source in sources]
    known = [_join(split_words(each)) for each in ignoring]
    runs: list[CopiedRun] = []
    total = 0
    for words in _lines(text):
        joined = _join(words)
        if len(words) < SHORT_LINE or any(joined in each for each in known):
            continue
        total += 1
        source = next((number for number, each in enumerate(originals) if joined in each), None)
        if source is not None:
            runs.append(_run(words, source))
    return CopiedShare(n, len(runs), total, _longest(runs), _passages(text, runs), by_lines=True)


def _lines(text: str) -> Iterator[Sequence[Word]]:
    """Yield the words of each line that has any."""
    words, place, end = split_words(text), 0, 0
    for line in text.splitlines(keepends=True):
        first, end = place, end + len(line)
        while place < len(words) and words[place].start < end:
            place += 1
        if place > first:
            yield words[first:place]


def _join(words: Iterable[Word]) -> str:
    """Join with spaces, also at both ends, so that one text is found in another only at word boundaries."""
    return f" {' '.join(word.text for word in words)} "


def _run(words: Sequence[Word], source: int) -> CopiedRun:
    return CopiedRun(words[0].start, words[-1].end, len(words), source)


def _is_in(line: CopiedRun, runs: list[CopiedRun]) -> bool:
    return any(run.start <= line.start and line.end <= run.end for run in runs)


def _longest(runs: list[CopiedRun]) -> int:
    return max((run.words for run in runs), default=0)


def _passages(text: str, runs: list[CopiedRun]) -> tuple[CopiedPassage, ...]:
    return tuple(
        CopiedPassage(*run, text[run.start : run.end][:MAX_PASSAGE_CHARS]) for run in sorted(runs)[:MAX_PASSAGES]
    )
