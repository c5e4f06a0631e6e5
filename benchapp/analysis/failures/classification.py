"""Classify refusals: the classes, the signs for each, and which sign decides. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from benchapp.analysis.failures import failure_patterns
from benchapp.analysis.failures.failure_patterns import QUOTE_CHARS, find_answers, parse_number, quote_around
from runner.base.types import CorpusKind

CLASSES_VERSION = "failures/3"  # raise it when the same facts may be classed differently


class FailureClass(StrEnum):
    """Named after the codes in the starter codebook "SkillGenBench failure classes"."""

    RUNTIME = "runtime/dependency"
    INTERFACE = "interface/schema"
    ASSET = "asset/artifact"
    STATE = "state/rule"
    NUMERIC = "numeric/formula"


_R, _I, _A, _S, _N = FailureClass
# In the order of frequency in SkillGenBench's figure 6, by source; then the classes that it does not print for a
# source.
ORDERS: Mapping[str, tuple[FailureClass, ...]] = {
    CorpusKind.REPOSITORY.value: (_R, _I, _A, _S, _N),
    CorpusKind.CODE_DOCUMENT.value: (_I, _R, _A, _S, _N),
    CorpusKind.DOMAIN_DOCUMENT.value: (_S, _N, _I, _A, _R),
    "": (_R, _A, _I, _N, _S),
}


# How the checks of a declared evaluation begin (runner/evaluating): stage, first word of the message -> class.
STAGES = ("run", "precheck", "compare", "judge")
MARKERS: dict[tuple[str, str], FailureClass] = {
    **{("run", word): FailureClass.RUNTIME for word in ("exit", "time", "ended", "ruined")},
    **{("precheck", word): FailureClass.ASSET for word in ("missing", "outside", "link", "special", "unreadable")},
    **{("precheck", word): FailureClass.ASSET for word in ("size", "format", "resolution", "duration")},
    **{("precheck", word): FailureClass.INTERFACE for word in ("columns", "rows", "schema")},
    **{("compare", word): FailureClass.NUMERIC for word in ("numeric", "table, numbers", "json, numbers")},
    **{("compare", word): FailureClass.STATE for word in ("exact", "text", "table", "json", "pixels")},
    ("judge", "score"): FailureClass.STATE,
}
DEFAULTS = {"run": FailureClass.RUNTIME, "precheck": FailureClass.ASSET}  # if the message has no marker


@dataclass(frozen=True, slots=True)
class Sign:
    """`check`: the name of the check with the sign, "" for the exception, the verifier's output or a step. start, end:
    the matching characters of its message; both 0 if only the check's name or marker matched."""

    failure: FailureClass
    why: str
    check: str = ""
    start: int = 0
    end: int = 0
    quote: str = ""
    step: int | None = None


def find_signs(text: str) -> Iterator[Sign]:
    """Yield at most one sign per kind of wording, in no order of priority."""
    for failure, why, pattern in _PLAIN:
        if match := next(find_answers(pattern, text), None):
            yield _make_sign(failure, why, match)
    yield from _find_numbers(text)
    yield from _find_words(text)


_PLAIN = (
    (FailureClass.RUNTIME, "a module or program is missing", failure_patterns.DEPENDENCY),
    (FailureClass.RUNTIME, "the program crashed", failure_patterns.CRASH),
    (FailureClass.ASSET, "a file is missing", failure_patterns.MISSING_FILE),
    (FailureClass.INTERFACE, "another format than expected", failure_patterns.SCHEMA),
    (FailureClass.STATE, "the procedure was not followed", failure_patterns.RULE),
    (FailureClass.NUMERIC, "wrong numbers", failure_patterns.NUMERIC),
)


def _find_numbers(text: str) -> Iterator[Sign]:
    for pattern in failure_patterns.NUMBERS:
        for match in find_answers(pattern, text):
            expected, got = parse_number(match["expected"]), parse_number(match["got"] or "")
            if expected is not None and got is not None and expected != got:
                yield _make_sign(FailureClass.NUMERIC, "not the expected number", match)
                return


def _find_words(text: str) -> Iterator[Sign]:
    """Yield signs in words. Two different words mean a rule; the same word written differently means a form."""
    for pattern in failure_patterns.WORDS:
        for match in find_answers(pattern, text):
            if match["expected"] != match["got"]:
                yield _make_sign(*_compare_words(match["expected"].strip("'\""), match["got"].strip("'\"")), match)
                return


def _compare_words(expected: str, got: str) -> tuple[FailureClass, str]:
    numbers = parse_number(expected), parse_number(got)
    if None not in numbers and numbers[0] != numbers[1]:
        return FailureClass.NUMERIC, "not the expected number"
    letters = [re.findall(r"\w", text.casefold()) for text in (expected, got)]
    if letters[0] and letters[0] == letters[1]:
        return FailureClass.INTERFACE, "the expected words, written differently"
    return FailureClass.STATE, "not the expected answer"


def read_stage(check: str) -> str:
    """Return "run", "precheck", "compare" or "judge" for a check of a declared evaluation, else ""."""
    stage, colon, _ = check.partition(": ")
    return stage if colon and stage in STAGES else ""


def read_marker(check: str, message: str) -> Sign | None:
    """Return the sign in the stage and the first word of the message, if a declared evaluation wrote them."""
    stage = read_stage(check)
    word = message.partition(":")[0].strip()
    failure = MARKERS.get((stage, word)) or DEFAULTS.get(stage)
    if failure is None:
        return None
    shown = word if (stage, word) in MARKERS else "no marker"
    return Sign(failure, f"{stage} failed ({shown})", check, quote=message.split("\n", 1)[0][:QUOTE_CHARS].strip())


def find_signs_of_check(check: str, message: str) -> tuple[Sign, ...]:
    """Return the signs, words first: they are more specific than a marker."""
    found = tuple(replace(sign, check=check) for sign in find_signs(message))
    by_stage = read_marker(check, message)
    return found if by_stage is None else (*found, by_stage)


def _make_sign(failure: FailureClass, why: str, match: re.Match[str]) -> Sign:
    return Sign(failure, why, start=match.start(), end=match.end(), quote=quote_around(match))


STUBBORN = 2  # times that something was missing; the last must be in the last third of the steps


@dataclass(frozen=True, slots=True)
class CheckMessage:
    """A failed check: its name and its message. `status` where a rule asks whether it ended in an error."""

    check: str
    message: str
    status: str = ""


@dataclass(frozen=True, slots=True)
class Missing:
    """A module or program that a command of the trial did not find, and where that was last reported."""

    name: str
    times: int
    step: int
    quote: str


@dataclass(frozen=True, slots=True)
class VerifierRefusal:
    """A trial that a verifier refused. source: kind of its corpus, "" if none. output: the verifier's, used if no check
    has a message."""

    source: str = ""
    checks: tuple[CheckMessage, ...] = ()
    output: str = ""
    exception: str = ""
    missing: tuple[Missing, ...] = ()
    steps_total: int = 0


@dataclass(frozen=True, slots=True)
class Classified:
    """`primary` None: unclassified, no sign. `signs`: the first one of each class, the primary's first."""

    primary: FailureClass | None
    signs: tuple[Sign, ...]

    @property
    def others(self) -> tuple[FailureClass, ...]:
        return tuple(sign.failure for sign in self.signs[1:])

    def sign_of(self, failure: FailureClass) -> Sign | None:
        return next((sign for sign in self.signs if sign.failure is failure), None)


def classify(refusal: VerifierRefusal) -> Classified:
    """Classify a refusal. Each failed check votes for one class. Only the earliest failed stage decides, because later
    failures follow from it. Ties, and several signs of one check, are settled by the order of the source. Without a
    class from checks, the verifier's output decides, then the exception, then what was missing at the end."""
    order = ORDERS.get(refusal.source, ORDERS[""])
    by_check = [(refused, find_signs_of_check(refused.check, refused.message)) for refused in refusal.checks]
    stages = {read_stage(refused.check) for refused, found in by_check if found}
    first = next((stage for stage in STAGES if stage in stages), "")
    votes = Counter(
        _choose_class(found, order) for refused, found in by_check if found and read_stage(refused.check) == first
    )
    in_exception = [replace(sign, why=f"{sign.why} (exception)") for sign in find_signs(refusal.exception)]
    further = (list(find_signs(refusal.output)), in_exception, _find_stubborn(refusal))
    signs = [sign for _, found in by_check for sign in found] + [sign for group in further for sign in group]
    primary: FailureClass | None
    if votes:
        primary = max(order, key=lambda failure: (votes[failure], -order.index(failure)))
    else:
        speaking = next((group for group in further if group), [])
        primary = min((sign.failure for sign in speaking), key=order.index, default=None)
    return Classified(primary, _pick_firsts(signs, primary, order))


def _choose_class(found: tuple[Sign, ...], order: tuple[FailureClass, ...]) -> FailureClass:
    """Choose by the words of one check, else by its stage."""
    words = [sign for sign in found if sign.end] or list(found)
    return min((sign.failure for sign in words), key=order.index)


def _find_stubborn(refusal: VerifierRefusal) -> list[Sign]:
    """Return what was missing several times and still near the end: a miss that was overcome explains nothing."""
    found = []
    for each in refusal.missing:
        if each.times >= STUBBORN and each.step * 3 >= refusal.steps_total * 2:
            why = f"{each.name} was missing {each.times} times, also near the end"
            found.append(Sign(FailureClass.RUNTIME, why, quote=each.quote, step=each.step))
    return found


def _pick_firsts(signs: list[Sign], primary: FailureClass | None, order: tuple[FailureClass, ...]) -> tuple[Sign, ...]:
    """Return one per class: words before a mere marker, else the first."""
    best: dict[FailureClass, Sign] = {}
    for sign in sorted(signs, key=lambda sign: not (sign.end or sign.step)):
        best.setdefault(sign.failure, sign)
    return tuple(sorted(best.values(), key=lambda sign: (sign.failure is not primary, order.index(sign.failure))))
