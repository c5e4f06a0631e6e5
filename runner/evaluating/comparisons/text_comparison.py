"""Text by lines, or by similarity; and files byte for byte.

Broken bytes are not text. A byte order mark is removed. A carriage return at the end of a line is trailing white
space."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, islice, takewhile, zip_longest

from runner.evaluating.comparisons.comparison import (
    MAX_DIFFERENCES,
    SAME,
    OutputComparison,
    decode_text,
    differs,
    shorten_value,
)

CONTEXT = 24  # bytes shown from the first difference on


@dataclass(frozen=True, slots=True)
class Exact:
    """Passes only equal bytes."""

    kind = "exact"

    def compare(self, found: bytes, expected: bytes) -> OutputComparison:
        if found == expected:
            return SAME
        place = _common(found, expected)
        line = expected.count(b"\n", 0, place) + 1
        ends = [
            shorten_value(content[place : place + CONTEXT]) if content[place:] else "the end"
            for content in (found, expected)
        ]
        sizes = "" if len(found) == len(expected) else f" ({len(found):,} bytes, expected {len(expected):,})"
        return differs(0.0, [f"byte {place:,}, line {line:,}: found {ends[0]}, expected {ends[1]}{sizes}"], 1)


def _common(first: bytes, second: bytes) -> int:
    """Count the bytes at the start that both share. Halved down to one block first, so that megabytes cost nothing."""
    low, high = 0, min(len(first), len(second))
    while high - low > 4_096:
        middle = (low + high) // 2
        low, high = (middle, high) if first[low:middle] == second[low:middle] else (low, middle)
    pairs = zip(first[low:high], second[low:high], strict=True)
    return low + sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


MAX_WORDS = 20_000  # of each side that are compared for similarity


@dataclass(frozen=True, slots=True)
class TextComparator:
    """Without `similarity` all lines must be alike. With it a share of equal words is enough.

    Similarity is taken over words: twice the length of the longest common subsequence over the words of both. Words
    after the first MAX_WORDS count as different, so the similarity of a long text is never overestimated.
    """

    trailing_space: bool = True  # ignore white space at the ends of lines, and empty lines at the end?
    ignore_case: bool = False
    any_order: bool = False  # of lines
    similarity: float | None = None

    kind = "text"

    def compare(self, found: bytes, expected: bytes) -> OutputComparison:
        ours, theirs = self._lines(found), self._lines(expected)
        if ours == theirs:
            return SAME
        if self.similarity is not None:
            ratio = likeness(" ".join(ours).split(), " ".join(theirs).split())
            message = f"similarity {ratio:.3f}, at least {self.similarity:g} is wanted"
            return OutputComparison(True, ratio, message) if ratio >= self.similarity else differs(ratio, [message], 1)
        if self.any_order:
            return _by_bags(Counter(ours), Counter(theirs))
        pairs = list(zip_longest(ours, theirs))
        wrong = [place for place, (first, second) in enumerate(pairs) if first != second]
        named = (_line(place, *pairs[place]) for place in wrong)
        return differs(1 - len(wrong) / len(pairs), named, len(wrong))

    def _lines(self, content: bytes) -> list[str]:
        text = decode_text(content)
        lines = (text.casefold() if self.ignore_case else text).split("\n")
        if self.trailing_space:
            lines = [line.rstrip() for line in lines]
            while lines and not lines[-1]:
                lines.pop()
        return sorted(lines) if self.any_order else lines


def likeness(ours: Sequence[str], theirs: Sequence[str]) -> float:
    """0..1; 1 for two empty sides."""
    total = len(ours) + len(theirs)
    if not total:
        return 1.0
    return 2 * _common_words(ours[:MAX_WORDS], theirs[:MAX_WORDS]) / total


def _common_words(ours: Sequence[str], theirs: Sequence[str]) -> int:
    """Length of the longest common subsequence, one bit per word of `ours` (Hyyro 2004).

    difflib needs minutes for two thousand repeated words; the time of this depends only on their number.
    """
    places: dict[str, int] = {}
    for place, word in enumerate(ours):
        places[word] = places.get(word, 0) | 1 << place
    every = (1 << len(ours)) - 1
    unmatched = every
    for word in theirs:
        both = unmatched & places.get(word, 0)
        unmatched = ((unmatched + both) | (unmatched - both)) & every
    return len(ours) - unmatched.bit_count()


def _by_bags(ours: Counter[str], theirs: Counter[str]) -> OutputComparison:
    """Compare each line's count, in any place: a missing line does not shift the others."""
    missing, extra = theirs - ours, ours - theirs
    longer = max(ours.total(), theirs.total())
    lines = chain(
        (f"missing {_often(*each)}" for each in sorted(missing.items())),
        (f"expected no {_often(*each)}" for each in sorted(extra.items())),
    )
    return differs((ours & theirs).total() / longer, islice(lines, MAX_DIFFERENCES), len(missing) + len(extra))


def _often(line: str, count: int) -> str:
    return f"line {shorten_value(line)}{f', {count:,} times' if count > 1 else ''}"


def _line(place: int, found: str | None, expected: str | None) -> str:
    where = f"line {place + 1:,}"
    if found is None:
        return f"{where}: missing, expected {shorten_value(expected)}"
    if expected is None:
        return f"{where}: found {shorten_value(found)}, expected no more"
    return f"{where}: found {shorten_value(found)}, expected {shorten_value(expected)}"
