"""Parse the filter language: a query from text, or the problems in it with their places and what was expected.

role:adversarial failed model:~opus skill:csv-* tool:bash "KeyError" -word

A query is a list of parts that must all hold. A part is a word, a text in quotes, either with `*` behind it for "begins
with", or a filter `name:value`; `-` before a part negates it. A value is exact, `~part` (contains) or `glob*`; `a,b` is
any of several. Quotes keep spaces and remove a word's special meaning. There is no OR between parts and there are no
brackets: a filter of several values is the OR that is needed.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from benchapp.models.searching import SearchDocument
from benchapp.models.trials import Trial
from benchapp.search.tokens import split_query
from runner.base.types import ACQUISITION_ROLES, DEPLOYMENT_ROLES, Phase, Role

MANY = 12  # values of a closed list that a message names


@dataclass(frozen=True, slots=True)
class SearchField:
    """`values`: the closed list of its values, empty where any text is allowed. `how`: the comparisons it knows."""

    name: str
    means: str
    values: tuple[str, ...] = ()
    how: tuple[str, ...] = ("is", "has", "glob")
    example: str = ""
    also: Mapping[str, str] = field(default_factory=dict)  # the words of pages for a value -> the value

    def wants(self) -> str:
        """Return a hint for somebody who wrote the name and no value."""
        if self.values:
            return f"{self.name}: needs a value, one of {', '.join(self.values)}"
        return f"{self.name}: needs a value, as in {self.name}:{self.example} ({self.means})"

    def refuses(self, how: str, text: str) -> str:
        """Return why it does not take this value; empty where it does."""
        if how not in self.how:
            if self.values:
                return self._not_one(text)
            return (
                f"{self.name}: knows {self.name}:{self.example} and {self.name}:{self.example[:3]}*, no other patterns"
            )
        if how == "glob" and self.name == "tool" and (text.count("*") != 1 or not text.endswith("*") or "?" in text):
            return f"tool: takes one * and at the end, as in tool:{self.example[:3]}*"
        return self._not_one(text) if self.values and text.lower() not in self.values else ""

    def settle(self, text: str) -> str:
        """Return the value that was meant: pages have words of their own for some."""
        return self.also.get(text.lower(), text)

    def _not_one(self, text: str) -> str:
        near = difflib.get_close_matches(text.lower(), self.values, n=1)
        hint = f"did you mean {near[0]}? It" if near else "it"
        return f"{self.name}: {text!r} is unknown; {hint} takes {', '.join(self.values[:MANY])}"


_Status = Trial.Status
STATUSES = tuple(map(str, (_Status.FAILED, _Status.PASSED, _Status.UNSCORED, _Status.SKIPPED, _Status.RUNNING)))
ROLES = tuple(role.value for role in (*ACQUISITION_ROLES, *DEPLOYMENT_ROLES))
_ROLES_ON_PAGES = {
    "trap": Role.ADVERSARIAL.value,
    **dict.fromkeys(("new context", "new-context"), Role.CONTEXT_SHIFT.value),
}
_CLOSED = ("is",)

_ALL = (
    SearchField("kind", "where it was found", tuple(SearchDocument.Kind.values), _CLOSED),
    SearchField("is", "how its trial ended, or error: a tool's result that is an error", (*STATUSES, "error"), _CLOSED),
    SearchField("phase", "the phase of its trial", tuple(phase.value for phase in Phase), _CLOSED),
    SearchField("role", "the role of its task in the family", ROLES, _CLOSED, also=_ROLES_ON_PAGES),
    SearchField("condition", "the memory condition of its run", example="selfgen-*"),
    SearchField("model", "the agent's model", example="~opus"),
    SearchField("author", "the author's model", example="~opus"),
    SearchField("harness", "the agent program", example="codex"),
    SearchField("experiment", "the name or id of its experiment", example="~demo"),
    SearchField("run", "the id of its run", how=_CLOSED, example="0f3c..."),
    SearchField("task", "the key or title of its task", example="E1-F1-*"),
    SearchField("family", "the key or name of its family", example="E1-F1"),
    SearchField(
        "skill", "skill files and decisions of that skill; steps and checks of trials that read it", example="csv-*"
    ),
    SearchField("mounted", "trials that had this skill", example="csv-*"),
    SearchField("tool", "steps that call that tool", how=("is", "glob"), example="bash"),
    SearchField("path", "the path of a skill file", example="*/SKILL.md"),
    SearchField("by", "who wrote a note", example="ann"),
)
FIELDS: dict[str, SearchField] = {each.name: each for each in _ALL}

# Words that are filters on their own; in quotes they are words.
SHORT = {status: ("is", status) for status in ("passed", "failed", "unscored", "skipped")}


MAX_QUERY = 1_000  # characters
MAX_PARTS = 30
MAX_VALUES = 20
LIKE = 0.7  # how similar a name must be to be proposed
_FILTER = re.compile(r"([A-Za-z_]+):")
_GLOB = "*?"


@dataclass(frozen=True, slots=True)
class Value:
    """How a filter compares: `is` (equal, case does not count), `has` (contains) or `glob`."""

    how: str
    text: str


@dataclass(frozen=True, slots=True)
class Filter:
    name: str
    values: tuple[Value, ...]
    negated: bool = False
    start: int = field(default=0, compare=False)
    end: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Term:
    """Words to be found in a row. `quoted`: as written; else also as parts of an identifier."""

    text: str
    quoted: bool = False
    prefix: bool = False
    negated: bool = False
    start: int = field(default=0, compare=False)
    end: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class QueryProblem:
    """What is wrong from `start` to `end` of the query, and what would be right."""

    start: int
    end: int
    message: str


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """Parts of a query. With `problems` nothing should be searched for."""

    text: str
    terms: tuple[Term, ...] = ()
    filters: tuple[Filter, ...] = ()
    problems: tuple[QueryProblem, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.terms or self.filters or self.problems)


def parse(text: str) -> SearchQuery:
    """Parse the query. Never raises: everything that cannot be understood is a problem with its place."""
    if len(text) > MAX_QUERY:
        message = f"at most {MAX_QUERY:,} characters; this has {len(text):,}"
        return SearchQuery(text[:MAX_QUERY], problems=(QueryProblem(MAX_QUERY, len(text), message),))
    reader = _Reader(text)
    parts = list(reader.parts())
    if len(parts) > MAX_PARTS:
        message = f"at most {MAX_PARTS} parts; this has {len(parts)}"
        reader.problems.append(QueryProblem(parts[MAX_PARTS].start, len(text), message))
    terms = tuple(part for part in parts if isinstance(part, Term))
    filters = tuple(part for part in parts if isinstance(part, Filter))
    return SearchQuery(text, terms, filters, tuple(reader.problems))


class _Reader:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.problems: list[QueryProblem] = []

    def parts(self) -> Iterator[Term | Filter]:
        while True:
            while self.at < len(self.text) and self.text[self.at].isspace():
                self.at += 1
            if self.at >= len(self.text):
                return
            if part := self._part():
                yield part

    def _part(self) -> Term | Filter | None:
        start = self.at
        negated = self.text[start] == "-" and start + 1 < len(self.text) and not self.text[start + 1].isspace()
        self.at += negated
        if match := _FILTER.match(self.text, self.at):
            name = match.group(1)
            if known := FIELDS.get(name.lower()):
                self.at = match.end()
                return self._filter(known, negated, start)
            if problem := self._explain_misnamed(name, match.end(), start):
                self._run("")
                self.problems.append(QueryProblem(start, self.at, problem))
                return None
        return self._term(negated, start)

    def _explain_misnamed(self, name: str, end: int, start: int) -> str:
        """Return why there is no filter `name:`. Empty for plain text: a capital letter, a bare colon, an address."""
        rest = self.text[end : end + 2]
        if not name.islower() or not rest.strip() or rest[0].isspace() or rest.startswith(("/", ":")):
            return ""
        near = difflib.get_close_matches(name, FIELDS, n=1, cutoff=LIKE)
        hint = f"did you mean {near[0]}:?" if near else f"there are {', '.join(FIELDS)}."
        return f"there is no filter {name}:, {hint} For the text itself put it in quotes."

    def _filter(self, known: SearchField, negated: bool, start: int) -> Filter | None:
        values = []
        while True:
            value = self._value()
            if value is not None:
                values.append(replace(value, text=known.settle(value.text)) if value.how == "is" else value)
            if self.at >= len(self.text) or self.text[self.at] != ",":
                break
            self.at += 1
        if not values or len(values) > MAX_VALUES:
            message = f"{known.name}: takes at most {MAX_VALUES} values" if values else known.wants()
            self.problems.append(QueryProblem(start, self.at, message))
            return None
        for value in values:
            if problem := known.refuses(value.how, value.text):
                self.problems.append(QueryProblem(start, self.at, problem))
                return None
        return Filter(known.name, tuple(values), negated, start, self.at)

    def _value(self) -> Value | None:
        how = "is"
        if self.text[self.at : self.at + 1] == "~":
            how, self.at = "has", self.at + 1
        quoted = self.text[self.at : self.at + 1] == '"'
        text = self._read_quoted() if quoted else self._run(",")
        if not text:
            return None
        return Value("glob", text) if how == "is" and not quoted and set(text) & set(_GLOB) else Value(how, text)

    def _term(self, negated: bool, start: int) -> Term | Filter | None:
        quoted = self.text[self.at] == '"'
        text = self._read_quoted() if quoted else self._run("")
        prefix = False
        if quoted:
            prefix = self.text[self.at : self.at + 1] == "*"
            self.at += prefix
        elif text.endswith("*"):
            prefix, text = True, text.rstrip("*")
        if not quoted and not prefix and text.lower() in SHORT:
            name, value = SHORT[text.lower()]
            return Filter(name, (Value("is", value),), negated, start, self.at)
        if not split_query(text):
            if not (quoted and not text and self.problems and self.problems[-1].start >= start):
                message = "nothing here can be found: words are made of letters and digits"
                self.problems.append(QueryProblem(start, self.at, message))
            return None
        return Term(text, quoted, prefix, negated, start, self.at)

    def _run(self, until: str) -> str:
        start = self.at
        while self.at < len(self.text) and not self.text[self.at].isspace() and self.text[self.at] not in until:
            self.at += 1
        return self.text[start : self.at]

    def _read_quoted(self) -> str:
        """Read the text between two quotes; within, a backslash keeps a quote or a backslash."""
        start = self.at
        found: list[str] = []
        self.at += 1
        while self.at < len(self.text):
            character = self.text[self.at]
            if character == '"':
                self.at += 1
                return "".join(found)
            if character == "\\" and self.text[self.at + 1 : self.at + 2] in {'"', "\\"}:
                self.at += 1
                character = self.text[self.at]
            found.append(character)
            self.at += 1
        self.problems.append(
            QueryProblem(start, len(self.text), 'this quote is never closed: put a " where the text ends')
        )
        return ""


# --- back to text ---------------------------------------------------------------------------------------------------


def render_filter(part: Filter) -> str:
    values = []
    for value in part.values:
        is_plain = value.how == "glob" or re.fullmatch(r"[^\s\",~*?]+", value.text)
        values.append("~" * (value.how == "has") + (value.text if is_plain else quote(value.text)))
    return f"{'-' * part.negated}{part.name}:{','.join(values)}"


def quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def without(query: SearchQuery, part: Filter | Term) -> str:
    """Return the query's text without one of its parts, the rest as it was written."""
    return " ".join((query.text[: part.start] + query.text[part.end :]).split())
