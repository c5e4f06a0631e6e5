"""Rules about what the verifier said of a failed trial."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from benchapp.reviewing.rules.facts import TrialFacts
from benchapp.reviewing.rules.finding import Place, Reason, words_around

_NUMBER = r"[-+]?(?:\d[\d,_]{0,30}(?:\.\d{0,30})?|\.\d{1,30})(?:[eE][-+]?\d{1,3})?"
# A number by itself: no part of a date, a telephone number, a version or a word.
_ALONE = r"(?![\w:]|[-/ .]\d)"
_EXPECTED_GOT = re.compile(
    rf"\b[Ee]xpected:?\s*(?:[A-Za-z_'\":=]{{1,40}}\s{{1,3}}){{0,3}}(?:[~≈]\s?)?(?<![\w+])(?P<expected>{_NUMBER}){_ALONE}"
    rf"[^\n]{{0,60}}?\b(?:[Gg]ot|but was|[Aa]ctual|found|received):?\s*(?:(?P<got>{_NUMBER}){_ALONE}|(?P<none>None|nan)\b)"
)
_ASSERTED = re.compile(rf"\bassert (?P<got>{_NUMBER}) == (?:approx\()?(?P<expected>{_NUMBER}){_ALONE}")
_UNCALCULATED = re.compile(r"(?:cached value|not (?:been )?recalculated|formula (?:has|with) no value|data_only)", re.I)
_CELL = re.compile(r"\b(?:[A-Z]{1,3}\d{1,5}\b|[Cc]ell\b|xlsx|[Ss]heet)")
_MISSING_FILE = re.compile(
    r"(?:FileNotFoundError\b|No such file or directory|[Ff]ile (?:does not|doesn't) exist"
    r"|(?:[Oo]utput|[Rr]esult|[Ff]ile|[Aa]rtifact)s? [^\n]{0,80}(?:not found|(?:is|are) missing|does not exist|was not created)"
    r"|[Mm]issing (?:output|file|artifact)s?\b|assert False[^\n]{0,40}exists\()"
)
_SCHEMA = re.compile(
    r"(?:KeyError: [^\n]{1,80}|JSONDecodeError|[Mm]issing (?:required )?(?:key|column|field|header|sheet)s?\b"
    r"|[Uu]nexpected (?:key|column|field|keyword)s?\b|not valid JSON|[Ii]nvalid (?:JSON|format|schema)"
    r"|ValidationError\b|[Cc]olumns? [^\n]{0,60}(?:do(?:es)? not match|not found|missing)"
    r"|TypeError: [^\n]{0,100}(?:argument|subscriptable|indices)|AttributeError: [^\n]{1,120}has no attribute)"
)
_DEPENDENCY = re.compile(
    r"(?:ModuleNotFoundError\b|ImportError\b|cannot import name|undefined symbol"
    r"|error while loading shared libraries|(?<!file )(?:command )not found\b)"
)


def numeric_mismatch(facts: TrialFacts) -> Reason | None:
    """Failed, and a check expected one number and got another. A factor that is a power of ten, or a wrong sign, is said.

    Cannot see: numbers compared without being printed; whether the formula, its input or the rounding is wrong; a count
    that is off because rows are missing.
    """
    if not facts.failed:
        return None
    for match in _matches(facts, _EXPECTED_GOT, _ASSERTED):
        expected, got = _number(match["expected"]), _number(match["got"] or "")
        if expected is None or got is None or expected == got:
            continue
        return Reason(f"Expected {expected:g}, got {got:g}{_relation(expected, got)}.", "", _place(match))
    return None


def missing_recalculation(facts: TrialFacts) -> Reason | None:
    """Failed, and a check of a spreadsheet met None or nan where it expected a number, or speaks of cached values.

    Cannot see: a cell that was never filled at all, which looks the same to a reader of cached values.
    """
    if not facts.failed:
        return None
    for match in _matches(facts, _UNCALCULATED, _EXPECTED_GOT):
        empty = match.re is _UNCALCULATED or match["none"] is not None
        if empty and _CELL.search(match.string):
            return Reason(
                "A cell that needs a value has none where formulas are not calculated.", "agent", _place(match)
            )
    return None


def missing_artifact(facts: TrialFacts) -> Reason | None:
    """Failed, and a check did not find a file or another thing that was to be handed in.

    Cannot see: whether it was never made, made elsewhere, or made under another name.
    """
    return _first(facts, _MISSING_FILE, "Something that was to be handed in is not there.")


def interface_schema(facts: TrialFacts) -> Reason | None:
    """Failed, and a check broke on the form of what was handed in: a missing key or column, text that is no JSON,
    a function with other arguments.

    Cannot see: forms that the verifier reads without complaint and then finds wrong values in.
    """
    return _first(facts, _SCHEMA, "What was handed in has another form than the check reads.")


def runtime_dependency(facts: TrialFacts) -> Reason | None:
    """Failed, and either a check names a module or program that is missing, or the trial met the same missing one at
    least twice, the last time in the last third of its steps.

    Cannot see: a missing package that was worked around badly; whether the missing thing explains the failure.
    """
    if not facts.failed:
        return None
    if reason := _first(facts, _DEPENDENCY, "A check met a module or program that is missing."):
        return reason
    course = facts.course
    for name, times in course.missing.most_common(5) if course else ():
        place = course.missing_places[name] if course else None
        if course and times >= 2 and place and (place.step or 0) * 3 >= course.steps_total * 2:
            return Reason(f"{name} was missing {times} times and still was near the end.", "", place)
    return None


def _first(facts: TrialFacts, pattern: re.Pattern[str], says: str) -> Reason | None:
    if not facts.failed:
        return None
    match = next(_matches(facts, pattern), None)
    return Reason(says, "", _place(match)) if match else None


def _matches(facts: TrialFacts, *patterns: re.Pattern[str]) -> Iterator[re.Match[str]]:
    for text in facts.told:
        for pattern in patterns:
            # What a test's own code says, such as an f-string that is printed with its braces, is no answer.
            yield from (match for match in pattern.finditer(text) if "{" not in words_around(match))


def _place(match: re.Match[str]) -> Place:
    return Place(None, words_around(match))


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", "").replace("_", "").rstrip("."))
    except ValueError:
        return None


def _relation(expected: float, got: float) -> str:
    if not expected or not got:
        return ""
    if math.isclose(expected, -got, rel_tol=1e-3):
        return ": the sign is wrong"
    power = math.log10(abs(expected / got))
    if abs(power) >= 0.9 and abs(power - round(power)) < 0.002:
        return f": off by a factor of 10^{round(abs(power))}, perhaps a unit"
    return ""
