"""What verifiers and programs print when work is refused, and how their words are quoted. Pure.

Patterns are bounded: the texts are hostile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

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
