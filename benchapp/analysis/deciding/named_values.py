"""Which values and files a check names: what it expected, what it found instead, and others in its text. Pure."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field

from benchapp.analysis.failures.classification import NUMBERS, WORDS, find_answers, keep_answers

MESSAGE_CHARS = 8_000  # of a check's message
MOST = 12  # values or files of one check
LABEL_CHARS = 60
LEAST_DIGITS, LEAST_LETTERS = 3, 4  # of a value worth a search: "1" and "ok" occur everywhere

_FILE = re.compile(r"(?<![\w/.:-])/?(?:[\w.-]{1,80}/){0,8}[\w-][\w.-]{0,80}\.[A-Za-z]\w{0,5}\b(?!\()")
_NUMBER = re.compile(r"(?<![\w.,:/-])-?\d[\d_]{0,20}(?:\.\d{1,20})?(?![\w:/]|[.,-]\d)")
_QUOTED = re.compile(r"'([^'\n]{1,80})'|\"([^\"\n]{1,80})\"|`([^`\n]{1,80})`")
_EXPECTED = re.compile(r"\A\W*(?:[Ee]xpected|[Ff]ound|assert)\b:?|\A\W*AssertionError:?")
_EMPTY_WORDS = frozenset("True False None null true false none nothing".split())
_AROUND = " \t:;,.-=(\u2019'\""


@dataclass(frozen=True, slots=True)
class Expectation:
    """One comparison of a check: what it is about, in the check's words, what was expected and what was found.

    rest: the text after the comparison.
    """

    label: str
    expected: str
    found: str
    rest: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class NamedValues:
    """`found`: values the check met in place of others. `named`: other values in its words, the expected ones not among
    them. `files`: names without folders; `folders`: those of their paths."""

    expectations: tuple[Expectation, ...]
    found: tuple[str, ...]
    named: tuple[str, ...]
    files: tuple[str, ...]
    folders: tuple[str, ...] = ()


def read_named_values(name: str, message: str) -> NamedValues:
    kept_text = keep_answers(message[-MESSAGE_CHARS:])
    expectations = tuple(_read_expectations(kept_text))[:MOST]
    found = tuple(dict.fromkeys(value for one in expectations if (value := _tell(one, kept_text))))[:MOST]
    known = {text for one in expectations for text in (one.expected, one.found)}
    words = f"{name}\n{kept_text}"
    named = [value for value in _list_values(words) if is_telling(value) and not any(each in value for each in known)]
    paths = [str(match.group()) for match in _FILE.finditer(words)]
    folders = [part for path in paths for part in posixpath.dirname(path).split("/") if part.strip(".")]
    return NamedValues(
        expectations,
        found,
        tuple(dict.fromkeys(named))[:MOST],
        tuple(dict.fromkeys(map(posixpath.basename, paths)))[:MOST],
        tuple(dict.fromkeys(folders))[:MOST],
    )


def _tell(one: Expectation, text: str) -> str:
    """Return a searchable value for what was found. A short one takes the quoted words around the expected one: "94" of
    "expected 'values used: 86', found 94" becomes "values used: 94". Empty if it stays ambiguous."""
    if is_telling(one.found):
        return one.found
    quotes = (next(group for group in match.groups() if group) for match in _QUOTED.finditer(text))
    ends = (quote for quote in quotes if quote.endswith(one.expected) and len(quote) > len(one.expected) + 2)
    return next((quote.removesuffix(one.expected) + one.found for quote in ends), "")


def is_telling(value: str) -> bool:
    """Is the value distinctive? Short numbers and words also occur for other reasons."""
    digits = sum(letter.isdigit() for letter in value)
    if digits and not any(letter.isalpha() for letter in value):
        return digits >= LEAST_DIGITS
    return len(value) >= LEAST_LETTERS and value not in _EMPTY_WORDS


def _read_expectations(text: str) -> list[Expectation]:
    found: dict[int, Expectation] = {}
    for pattern in (*NUMBERS, *WORDS):
        for match in find_answers(pattern, text):
            groups = match.groupdict()
            expected, got = groups.get("expected"), groups.get("got") or groups.get("none")
            if expected and got and match.start() not in found:
                ends = (match.end(name) for name in ("expected", "got", "none") if groups.get(name))
                found[match.start()] = Expectation(_label(match), _bare(expected), _bare(got), text[max(ends) :])
    return [found[start] for start in sorted(found)]


def _label(match: re.Match[str]) -> str:
    """Return the words before the value: on its line, and between "expected" and it. None if they are a program's."""
    text, start = match.string, match.start()
    line = text[max(text.rfind("\n", 0, start), text.rfind(";", 0, start), start - 200) + 1 : start].strip(_AROUND)
    between = _EXPECTED.sub("", text[start : match.start("expected")]).strip(_AROUND)
    words = " ".join(", ".join(filter(None, (line, between))).split())
    plain = "Error" not in words and not words.startswith(("assert", "E "))
    return words[-LABEL_CHARS:] if plain else ""


def _bare(value: str) -> str:
    value = value.strip().rstrip(".,")
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"" else value


def _list_values(text: str) -> list[str]:
    quoted = [next(group for group in match.groups() if group) for match in _QUOTED.finditer(text)]
    return [*(match.group() for match in _NUMBER.finditer(text)), *quoted]
