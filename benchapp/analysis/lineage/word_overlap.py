"""Find the steps of the evidence that use the words of a line. A guess, and pages call it one. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

MIN_SHARED = 2  # words
MIN_SHARE = 0.3  # of the line's words
MAX_CHARS = 100_000  # that are searched in one step
SHOWN = 3  # steps of one line
_WORD = re.compile(r"[^\W\d_][\w.\-]{2,60}|\d[\d.,:]{2,30}")
_COMMON = frozenset(
    "the and for with this that from when then than not are was were has have had you your its into only each every "
    "all any use using used must should shall will can may never always before after also other one two but how what "
    "which who where while does done instead make sure file files step steps skill task name description".split()
)


@dataclass(frozen=True, slots=True)
class WordOverlap:
    """`shared`: words of the line that the step also has, out of `words` in the line."""

    step: int
    shared: tuple[str, ...]
    words: int


def find_overlaps(line: str, steps: Sequence[tuple[int, str]]) -> list[WordOverlap]:
    """Return the steps that share most with the line, best first. `steps`: (number, text). Common words are ignored."""
    by_step = [(number, find_words(text)) for number, text in steps]
    spread = Counter(word for _, words in by_step for word in words)
    often = {word for word, count in spread.items() if len(by_step) > 3 and count > len(by_step) / 2}
    wanted = find_words(line) - often
    found = [WordOverlap(number, tuple(sorted(wanted & words)), len(wanted)) for number, words in by_step]
    good = [one for one in found if len(one.shared) >= max(MIN_SHARED, MIN_SHARE * one.words)]
    return sorted(good, key=lambda one: (-len(one.shared), one.step))[:SHOWN]


def find_words(text: str) -> set[str]:
    """Return the meaningful words, folded; also numbers of two digits and more."""
    return {word.strip(".-,:").casefold() for word in _WORD.findall(text[:MAX_CHARS])} - _COMMON
