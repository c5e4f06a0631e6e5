"""Was the review blind? Could reviewers guess the condition that was hidden from them? Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from scipy.special import bdtrc


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
    p = float(bdtrc(right - 1, len(named), chance)) if len(truths) > 1 else None
    return Guesses(right, len(named), len(answers) - len(named), chance, p)
