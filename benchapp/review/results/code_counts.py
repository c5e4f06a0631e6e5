"""Which codes occur together, whether more items would bring new ones, and how well reviewers guess. Pure.

The chance that the next item has a new code is Good's and Turing's (Good 1953), item by item: the share of coded items
with a code that no other item has. Each of them would have been a surprise as the last one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchapp.review.results.queue_results import Coded
from benchapp.stats.inference.shares import half_up, wilson
from benchapp.stats.numerics import binomial_share
from runner.base.text import plural


@dataclass(frozen=True, slots=True)
class Together:
    """Items that carry both of two codes, and that carry at least one;
    fractions where reviewers of an item disagree."""

    both: float
    either: float

    @property
    def share(self) -> float | None:
        """Return Jaccard's index: of the items with either, the share with both."""
        return self.both / self.either if self.either else None


def count_together(items: Iterable[Coded], codes: Sequence[frozenset[int]]) -> dict[tuple[int, int], Together]:
    """Return (place of one, place of the other) -> items; places in `codes`, each a code with all beneath it. The
    diagonal is the number of items with the code. Unweighted: these are counts of items coded, not of a population."""
    both = {(row, column): 0.0 for row in range(len(codes)) for column in range(row + 1)}
    either = dict(both)
    for item in items:
        for voice in item.voices:
            part = 1 / len(item.voices)
            has = [bool(voice.codes & each) for each in codes]
            for row, column in both:
                both[row, column] += part * (has[row] and has[column])
                either[row, column] += part * (has[row] or has[column])
    found = {pair: Together(both[pair], either[pair]) for pair in both}
    return found | {(column, row): value for (row, column), value in found.items()}


# --- saturation ------------------------------------------------------------------------------------------------------

FEW = 30  # reviewed items; with fewer, shares and forecasts mean nothing


@dataclass(frozen=True, slots=True)
class Saturation:
    """found: number of different codes after each item, in the order of coding, [items]. last_new: the item (from 1)
    with the last new code; 0 without any. lone: items with a code that no other item has."""

    found: tuple[int, ...]
    last_new: int
    lone: int

    @property
    def items(self) -> int:
        return len(self.found)

    @property
    def still(self) -> int:
        """Return the number of items since the last new code."""
        return self.items - self.last_new

    @property
    def chance(self) -> float | None:
        """Return the chance that the next item has a new code."""
        return self.lone / self.items if self.items else None

    @property
    def at_most(self) -> float | None:
        """Return the upper end of its 95 % interval (Wilson); the estimate itself is 0 if every code occurred
        twice."""
        return wilson(self.lone, self.items)[1] if self.items else None

    @property
    def in_short(self) -> str:
        """Say what to expect from the next hundred items."""
        if self.chance is None or self.at_most is None:
            return "unknown yet"
        if self.items < FEW:
            return f"appear once {FEW} are reviewed"
        high = half_up(100 * self.at_most)
        return (
            f"about {half_up(100 * self.chance)} in 100 more, {high} at most"
            if self.lone
            else f"{high} at most in 100 more"
        )

    def sentence(self) -> str:
        if self.chance is None or self.at_most is None:
            return "Nothing is coded yet."
        codes, items = plural(self.found[-1], "cause"), plural(self.items, "item")
        if not self.found[-1]:
            return f"No cause was used in {items}."
        high = half_up(100 * self.at_most)
        if not self.lone:
            return f"{codes} in {items}, each more than once. Of 100 more, {high} at most bring a new one."
        return f"{codes} in {items}. Of 100 more, about {half_up(100 * self.chance)} bring a new one, {high} at most."


def saturation_of(items: Sequence[frozenset[int]]) -> Saturation:
    """Measure saturation. `items`: the codes of each item, in the order of coding."""
    seen: set[int] = set()
    found, last = [], 0
    for place, codes in enumerate(items, start=1):
        if codes - seen:
            seen |= codes
            last = place
        found.append(len(seen))
    times = Counter(code for codes in items for code in codes)
    return Saturation(tuple(found), last, sum(any(times[code] == 1 for code in codes) for codes in items))


# --- guesses of the hidden condition ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Guesses:
    """right of `named`; unsure: people who were asked and did not know. chance: hit rate of always naming the most
    frequent condition; p: probability of at least as many hits by that, None without a choice."""

    right: int
    named: int
    unsure: int
    chance: float | None
    p: float | None


def guesses_of(answers: Iterable[tuple[str, str]]) -> Guesses:
    """Count guesses. `answers`: (guess, truth); an empty guess is "I do not know". Exact binomial, guesses as if
    independent."""
    answers = list(answers)
    named = [(guess, truth) for guess, truth in answers if guess]
    right = sum(guess == truth for guess, truth in named)
    truths = Counter(truth for _, truth in named)
    if not named:
        return Guesses(0, 0, len(answers), None, None)
    chance = max(truths.values()) / len(named)
    p = binomial_share(right - 1, len(named), chance) if len(truths) > 1 else None
    return Guesses(right, len(named), len(answers) - len(named), chance, p)
