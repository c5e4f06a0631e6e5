"""Which class a refusal is of, from what the verifier said, the exception, and what was missing at the end. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from benchapp.analysis.failures.failure_classes import FailureClass, get_order
from benchapp.analysis.failures.failure_signs import STAGES, Sign, find_signs, find_signs_of_check, read_stage

STUBBORN = 2  # times that something was missing, the last time in the last third of the steps


@dataclass(frozen=True, slots=True)
class CheckMessage:
    """A failed check: its name and its message, a test runner's own code left out."""

    check: str
    message: str


@dataclass(frozen=True, slots=True)
class Missing:
    """A module or program that a command of the trial did not find, and where that was said last."""

    name: str
    times: int
    step: int
    quote: str


@dataclass(frozen=True, slots=True)
class VerifierRefusal:
    """A trial that a verifier refused. source: kind of its corpus, "" where there is none. output: the verifier's, for where
    no check has a message."""

    source: str = ""
    checks: tuple[CheckMessage, ...] = ()
    output: str = ""
    exception: str = ""
    missing: tuple[Missing, ...] = ()
    steps_total: int = 0


@dataclass(frozen=True, slots=True)
class Classified:
    """`primary` None: unclassified, nothing spoke. `signs`: the first one of each class that spoke, the primary's first."""

    primary: FailureClass | None
    signs: tuple[Sign, ...]

    @property
    def others(self) -> tuple[FailureClass, ...]:
        return tuple(sign.failure for sign in self.signs[1:])

    def sign_of(self, failure: FailureClass) -> Sign | None:
        return next((sign for sign in self.signs if sign.failure is failure), None)


def classify(refusal: VerifierRefusal) -> Classified:
    """Each failed check votes for one class; those of the earliest stage that failed decide, because later ones follow
    from it. Equal votes, and several signs of one check, are settled by the order of the source. What checks leave open
    the verifier's output, then the exception, then what was missing at the end decides."""
    order = get_order(refusal.source)
    by_check = [(said, find_signs_of_check(said.check, said.message)) for said in refusal.checks]
    votes = _count_votes([each for each in by_check if each[1]], order)
    further = (list(find_signs(refusal.output)), _find_in_exception(refusal.exception), _find_stubborn(refusal))
    signs = [sign for _, found in by_check for sign in found] + [sign for group in further for sign in group]
    primary: FailureClass | None
    if votes:
        primary = max(order, key=lambda failure: (votes[failure], -order.index(failure)))
    else:
        speaking = next((group for group in further if group), [])
        primary = min((sign.failure for sign in speaking), key=order.index, default=None)
    return Classified(primary, _pick_firsts(signs, primary, order))


def _count_votes(
    by_check: list[tuple[CheckMessage, tuple[Sign, ...]]], order: tuple[FailureClass, ...]
) -> Counter[FailureClass]:
    stages = {read_stage(said.check) for said, _ in by_check}
    first = next((stage for stage in STAGES if stage in stages), "")
    return Counter(_choose_class(found, order) for said, found in by_check if read_stage(said.check) == first)


def _choose_class(found: tuple[Sign, ...], order: tuple[FailureClass, ...]) -> FailureClass:
    """Of the words of one check; of its stage where no word speaks."""
    words = [sign for sign in found if sign.end] or list(found)
    return min((sign.failure for sign in words), key=order.index)


def _find_in_exception(exception: str) -> list[Sign]:
    return [replace(sign, why=f"{sign.why} (exception)") for sign in find_signs(exception)]


def _find_stubborn(refusal: VerifierRefusal) -> list[Sign]:
    """What was missing several times and still was near the end: one miss that was overcome explains nothing."""
    found = [each for each in refusal.missing if each.times >= STUBBORN and each.step * 3 >= refusal.steps_total * 2]
    return [
        Sign(
            FailureClass.RUNTIME,
            f"{each.name} was missing {each.times} times and still was near the end",
            quote=each.quote,
            step=each.step,
        )
        for each in found
    ]


def _pick_firsts(signs: list[Sign], primary: FailureClass | None, order: tuple[FailureClass, ...]) -> tuple[Sign, ...]:
    """One per class: words before a mere marker, else the first."""
    best: dict[FailureClass, Sign] = {}
    for sign in sorted(signs, key=lambda sign: not (sign.end or sign.step)):
        best.setdefault(sign.failure, sign)
    return tuple(sorted(best.values(), key=lambda sign: (sign.failure is not primary, order.index(sign.failure))))
