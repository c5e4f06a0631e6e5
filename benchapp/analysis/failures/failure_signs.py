"""Signs: places in what was said that speak for a class."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from benchapp.analysis.failures import failure_patterns
from benchapp.analysis.failures.failure_classes import FailureClass
from benchapp.analysis.failures.quotes import QUOTE_CHARS, find_answers, words_around

# What the checks of a declared evaluation begin with (runner/evaluating): stage, first word of the message -> class.
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
DEFAULTS = {"run": FailureClass.RUNTIME, "precheck": FailureClass.ASSET}  # where the message has no marker


@dataclass(frozen=True, slots=True)
class Sign:
    """`check`: the name of the check that said it, "" for the exception, the verifier's output or a step. start, end: the
    characters of its message that matched; both 0 where the check's name or marker alone tells."""

    failure: FailureClass
    why: str
    check: str = ""
    start: int = 0
    end: int = 0
    quote: str = ""
    step: int | None = None


def find_signs(text: str) -> Iterator[Sign]:
    """At most one sign per way of speaking, in no order of belief."""
    for failure, why, pattern in _PLAIN:
        if match := next(find_answers(pattern, text), None):
            yield _make_sign(failure, why, match)
    yield from _find_numbers(text)
    yield from _find_words(text)


_PLAIN = (
    (FailureClass.RUNTIME, "a module or program is missing", failure_patterns.DEPENDENCY),
    (FailureClass.RUNTIME, "the program broke down", failure_patterns.CRASH),
    (FailureClass.ASSET, "a file is not there", failure_patterns.MISSING_FILE),
    (FailureClass.INTERFACE, "another form than the one that is read", failure_patterns.SCHEMA),
    (FailureClass.STATE, "a rule of the procedure is not kept", failure_patterns.RULE),
    (FailureClass.NUMERIC, "numbers are off", failure_patterns.NUMERIC),
)


def _find_numbers(text: str) -> Iterator[Sign]:
    for pattern in failure_patterns.NUMBERS:
        for match in find_answers(pattern, text):
            expected, got = failure_patterns.number(match["expected"]), failure_patterns.number(match["got"] or "")
            if expected is not None and got is not None and expected != got:
                yield _make_sign(FailureClass.NUMERIC, "another number than the expected one", match)
                return


def _find_words(text: str) -> Iterator[Sign]:
    """Two words that differ are a rule that went the other way; the same word written differently is a form."""
    for pattern in failure_patterns.WORDS:
        for match in find_answers(pattern, text):
            if match["expected"] != match["got"]:
                yield _make_sign(*_compare_words(match["expected"].strip("'\""), match["got"].strip("'\"")), match)
                return


def _compare_words(expected: str, got: str) -> tuple[FailureClass, str]:
    numbers = failure_patterns.number(expected), failure_patterns.number(got)
    if None not in numbers and numbers[0] != numbers[1]:
        return FailureClass.NUMERIC, "another number than the expected one"
    letters = [re.findall(r"\w", text.casefold()) for text in (expected, got)]
    if letters[0] and letters[0] == letters[1]:
        return FailureClass.INTERFACE, "the expected words, written differently"
    return FailureClass.STATE, "another answer than the expected one"


def read_stage(check: str) -> str:
    """ "run", "precheck", "compare" or "judge" for a check of a declared evaluation, else ""."""
    stage, colon, _ = check.partition(": ")
    return stage if colon and stage in STAGES else ""


def read_marker(check: str, message: str) -> Sign | None:
    """What the stage and the first word of the message say, where a declared evaluation wrote them."""
    stage = read_stage(check)
    word = message.partition(":")[0].strip()
    failure = MARKERS.get((stage, word)) or DEFAULTS.get(stage)
    if failure is None:
        return None
    shown = word if (stage, word) in MARKERS else "no marker"
    return Sign(failure, f"{stage} failed ({shown})", check, quote=message.split("\n", 1)[0][:QUOTE_CHARS].strip())


def find_signs_of_check(check: str, message: str) -> tuple[Sign, ...]:
    """Words first, since they know more than a marker."""
    found = tuple(replace(sign, check=check) for sign in find_signs(message))
    by_stage = read_marker(check, message)
    return found if by_stage is None else (*found, by_stage)


def _make_sign(failure: FailureClass, why: str, match: re.Match[str]) -> Sign:
    return Sign(failure, why, start=match.start(), end=match.end(), quote=words_around(match))
