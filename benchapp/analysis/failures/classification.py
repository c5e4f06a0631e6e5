"""Classify refusals: the classes, the signs for each, and which sign decides. Pure.

The patterns match what verifiers and programs print when work is refused. Patterns are bounded: the texts are hostile.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from runner.base.types import CorpusKind

NUMBER = r"[-+]?(?:\d[\d,_]{0,30}(?:\.\d{0,30})?|\.\d{1,30})(?:[eE][-+]?\d{1,3})?"
# A number on its own, not part of a date, a telephone number, a version or a word.
ALONE = r"(?![\w:]|[-/ .]\d)"
_QUOTED = r"(?:'[^'\n]{0,200}'|\"[^\"\n]{0,200}\"|True\b|False\b)"

EXPECTED_GOT = re.compile(
    rf"\b[Ee]xpected:?\s*(?:[A-Za-z_'\":=]{{1,40}}\s{{1,3}}){{0,3}}(?:[~≈]\s?)?(?<![\w+])(?P<expected>{NUMBER}){ALONE}"
    rf"[^\n]{{0,60}}?\b(?:[Gg]ot|but was|[Aa]ctual|found|received):?\s*(?:(?P<got>{NUMBER}){ALONE}|(?P<none>None|nan)\b)"  # noqa: E501
)
ASSERTED = re.compile(rf"\bassert (?P<got>{NUMBER}) == (?:approx\()?(?P<expected>{NUMBER}){ALONE}")
FOUND_EXPECTED = re.compile(
    rf"\b[Ff]ound:? (?P<got>{NUMBER}){ALONE}[^\n]{{0,20}}?\bexpected:? (?P<expected>{NUMBER}){ALONE}"
)
UNEQUAL = re.compile(rf"\bAssertionError: (?P<got>{NUMBER}) != (?P<expected>{NUMBER}){ALONE}")
NUMBERS = (EXPECTED_GOT, ASSERTED, FOUND_EXPECTED, UNEQUAL)

NUMERIC = re.compile(
    r"(?:[Nn]ot (?:almost equal|equal to tolerance|within (?:the )?tolerance|close to)\b|[Mm]ax absolute difference"
    r"|[Mm]ismatched elements:|(?:[Oo]utside|[Ee]xceeds) (?:the )?tolerance\b)"
)
MISSING_FILE = re.compile(
    r"(?:FileNotFoundError\b|No such file or directory|[Ff]ile (?:does not|doesn't) exist"
    r"|(?:[Oo]utput|[Rr]esult|[Ff]ile|[Aa]rtifact)s? [^\n]{0,80}(?:not found|(?:is|are) missing|does not exist|was not created)"  # noqa: E501
    r"|[Mm]issing (?:output|file|artifact)s?\b"
    r"|[Ee]xpected (?:an? |the )?files? [^\n]{1,120}, found (?:none|nothing)\b|assert False[^\n]{0,40}exists\()"
)
SCHEMA = re.compile(
    r"(?:KeyError: [^\n]{1,80}|JSONDecodeError|[Mm]issing (?:required )?(?:key|column|field|header|sheet)s?\b"
    r"|[Uu]nexpected (?:key|column|field|keyword)s?\b|not valid JSON|[Ii]nvalid (?:JSON|format|schema)"
    r"|ValidationError\b|[Cc]olumns? [^\n]{0,60}(?:do(?:es)? not match|not found|missing)"
    r"|TypeError: [^\n]{0,100}(?:argument|subscriptable|indices)|AttributeError: [^\n]{1,120}has no attribute)"
)
DEPENDENCY = re.compile(
    r"(?:ModuleNotFoundError\b|ImportError\b|cannot import name|undefined symbol"
    r"|error while loading shared libraries|(?<!file )(?:command )not found\b)"
)
CRASH = re.compile(
    r"(?:[Ss]egmentation fault|MemoryError\b|RecursionError\b|SyntaxError: |IndentationError: "
    r"|TimeoutExpired\b|ConnectionRefusedError\b|PermissionError\b|exit (?:code|status) (?:137|139)\b)"
)
RULE = re.compile(
    r"(?:DID NOT RAISE|\b(?:was|were)? ?not raised\b|[Ii]nvalid (?:state|transition)\b|[Ww]rong order\b|[Oo]ut of order\b"  # noqa: E501
    r"|\bviolat(?:es|ed|ion)\b|[Ss]hould (?:not )?(?:be|have been) (?:accepted|rejected|allowed|refused|denied|skipped))"  # noqa: E501
)
WORDS_EXPECTED_GOT = re.compile(
    rf"\b[Ee]xpected:? (?P<expected>{_QUOTED})[^\n]{{0,60}}?\b(?:[Gg]ot|but was|[Aa]ctual|found|received):? (?P<got>{_QUOTED})"  # noqa: E501
)
WORDS_FOUND_EXPECTED = re.compile(rf"\b[Ff]ound:? (?P<got>{_QUOTED})[^\n]{{0,20}}?\bexpected:? (?P<expected>{_QUOTED})")
WORDS_ASSERTED = re.compile(rf"\bassert (?P<got>{_QUOTED}) (?:==|is) (?P<expected>{_QUOTED})")
WORDS_UNEQUAL = re.compile(
    rf"\bAssertionError: (?P<got>{_QUOTED}) (?:!=|is not) (?P<expected>{_QUOTED}|true\b|false\b)"
)
# "expected name Rosa Jensen, found Leila Okafor": a word for the kind, then both values up to the next comparison.
WORDS_PLAIN = re.compile(
    r"\b[Ee]xpected:? (?:(?!one\b|no\b|none\b|an?\b|the\b)[a-z_]{2,30} )?(?P<expected>[^;\n]{1,120}?), (?:found|got)"
    r" (?P<got>[^;\n]{1,120}?)(?=;|\n|\Z|\. )"
)
WORDS = (WORDS_PLAIN, WORDS_EXPECTED_GOT, WORDS_FOUND_EXPECTED, WORDS_ASSERTED, WORDS_UNEQUAL)
CLASSES_VERSION = "failures/3"  # raise it when the same facts may be classed differently


def parse_number(text: str) -> float | None:
    try:
        return float(text.replace(",", "").replace("_", "").rstrip("."))
    except ValueError:
        return None


QUOTE_CHARS, AROUND_CHARS = 300, 160
_ANSWERS = re.compile(r"^E {2,}(.*)$|^\S*:\d+: (\w*(?:Error|Exception).*)$", re.MULTILINE)


def quote_around(match: re.Match[str]) -> str:
    """Return the match with the text around it on its line, bounded. A pattern that included its own beginning would
    try every beginning at every place."""
    text, start, end = match.string, match.start(), match.end()
    start = max(text.rfind("\n", 0, start) + 1, start - AROUND_CHARS)
    stop = text.find("\n", end, end + AROUND_CHARS)
    return cut_quote(text[start : stop if stop >= 0 else end + AROUND_CHARS])


def cut_quote(text: str) -> str:
    """Return a text short enough to quote: its beginning, unchanged, so that it can be found again."""
    return text.strip()[:QUOTE_CHARS].rstrip()


def find_answers(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """Yield matches that answer something. Braces around one mean a test's own code, such as an f-string."""
    return (match for match in pattern.finditer(text) if "{" not in quote_around(match))


def keep_answers(text: str) -> str:
    """Keep the answers. pytest prints the test's own code around its answers, which begin with E."""
    if "\nE  " not in f"\n{text}":
        return text
    return "\n".join(match.group(1) or match.group(2) for match in _ANSWERS.finditer(text))


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
    (FailureClass.RUNTIME, "a module or program is missing", DEPENDENCY),
    (FailureClass.RUNTIME, "the program crashed", CRASH),
    (FailureClass.ASSET, "a file is missing", MISSING_FILE),
    (FailureClass.INTERFACE, "another format than expected", SCHEMA),
    (FailureClass.STATE, "the procedure was not followed", RULE),
    (FailureClass.NUMERIC, "wrong numbers", NUMERIC),
)


def _find_numbers(text: str) -> Iterator[Sign]:
    for pattern in NUMBERS:
        for match in find_answers(pattern, text):
            expected, got = parse_number(match["expected"]), parse_number(match["got"] or "")
            if expected is not None and got is not None and expected != got:
                yield _make_sign(FailureClass.NUMERIC, "not the expected number", match)
                return


def _find_words(text: str) -> Iterator[Sign]:
    """Yield signs in words. Two different words mean a rule; the same word written differently means a form."""
    for pattern in WORDS:
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
