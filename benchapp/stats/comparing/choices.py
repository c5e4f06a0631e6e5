"""The choices of a compare page, all in its address: parsed here, and written back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, date, datetime
from typing import Any, Protocol
from urllib.parse import urlencode
from uuid import UUID

from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime

from benchapp.stats.comparing.side import LETTERS, Side, read_part

NO_SKILL = "no-skill"
MODEL_ROWS = "model"  # of `pool`
NOT_NUMBERS = frozenset({"table", "metric", "option", "published", "q", "seen"})  # they choose among numbers
MAX_VALUES = 200  # of one filter; an address is a few thousand characters at most
MAX_LENGTH = 300
MAX_SIDE_NAME = 60


class QueryValues(Protocol):
    """The values of an address by name, as in Django's QueryDict."""

    def getlist(self, key: str) -> list[str]: ...


@dataclass(frozen=True, slots=True)
class Choices:
    """A reader's choices. Every field is a part of the address of the same name; empty means "all" or the default.

    `baseline` names the condition that the others are compared with, all else equal. `model:NAME` compares agent models
    with one model, with equal conditions. `a` to `d` are the parts of sides (see `Side`), which replace conditions,
    each with its name; side A is the baseline then. `pool` is "model" where each agent model of a side has a row of its
    own. `as_of` pins a page: what the record learned later is announced and left out. `seen` is the fingerprint of the
    numbers a link was made with.
    """

    experiment: tuple[UUID, ...] = ()
    suite: tuple[str, ...] = ()
    condition: tuple[str, ...] = ()
    agent_model: tuple[str, ...] = ()
    author_model: tuple[str, ...] = ()
    author_agent: tuple[str, ...] = ()
    harness: tuple[str, ...] = ()
    replicate: tuple[int, ...] = ()
    since: date | None = None  # of the day the record received the run, UTC
    until: date | None = None
    a: tuple[str, ...] = ()
    b: tuple[str, ...] = ()
    c: tuple[str, ...] = ()
    d: tuple[str, ...] = ()
    name_a: str = ""
    name_b: str = ""
    name_c: str = ""
    name_d: str = ""
    pool: str = ""
    baseline: str = NO_SKILL
    table: str = ""  # which set of metrics the table shows; empty: the one that fits the runs
    metric: str = ""  # for charts with one metric; empty: the table's first that counts deployment
    published: tuple[str, ...] = ()  # papers shown as an overlay
    q: str = ""  # whose charts the page shows; empty: the first question's
    option: tuple[str, ...] = ()  # a chart's own choices, each as "name:value"
    as_of: datetime | None = None
    seen: str = ""

    @property
    def pins(self) -> bool:
        return self.as_of is not None

    @property
    def sides(self) -> tuple[Side, ...]:
        """The sides with a part; empty where the record's conditions are compared."""
        given = (Side(letter, getattr(self, letter), getattr(self, f"name_{letter}")) for letter in LETTERS)
        return tuple(side for side in given if side.parts)

    def but(self, **changes: Any) -> Choices:
        return replace(self, **changes)

    def query(self, **changes: object) -> str:
        """Return the query string with some choices changed, always in the same order; defaults are left out."""
        return urlencode([(name, text) for name, text in self.but(**changes).pairs()])

    def pairs(self) -> list[tuple[str, str]]:
        return [
            (name, _write_value(value))
            for name, default in _DEFAULTS
            if (given := getattr(self, name)) != default
            for value in (given if isinstance(given, tuple) else (given,))
        ]

    def key(self) -> tuple[object, ...]:
        """Return a key that is equal for choices with the same numbers."""
        return tuple(getattr(self, name) for name, _ in _DEFAULTS if name not in NOT_NUMBERS)


_DEFAULTS = tuple((field.name, field.default) for field in fields(Choices))  # a page writes hundreds of addresses


def parse_choices(query: QueryValues) -> tuple[Choices, list[str]]:
    """Return the choices of an address, and one sentence per part that could not be understood and is ignored."""
    given: dict[str, object] = {}
    problems: list[str] = []
    for field in fields(Choices):
        texts = [text.strip() for text in query.getlist(field.name)]
        texts = [text for text in dict.fromkeys(texts) if text or field.name in ("author_model", "author_agent")]
        if not texts:
            continue
        values = list(_parse_values(field.name, texts, problems))
        if values:
            given[field.name] = tuple(values) if field.default == () else values[-1]
    return Choices().but(**given), problems


def _parse_values(name: str, texts: Sequence[str], problems: list[str]) -> Iterable[object]:
    if len(texts) > MAX_VALUES:
        problems.append(f"{name}: {len(texts)} values given, only the first {MAX_VALUES} are used")
    read, expected = READERS.get(name, (_word, f"at most {MAX_LENGTH} characters"))
    for text in texts[:MAX_VALUES]:
        value = read(text)
        if value is None:
            problems.append(f"{name}: {text[:80]!r} ignored, expected {expected}")
        else:
            yield value


def _word(text: str) -> str | None:
    return text if len(text) <= MAX_LENGTH and "\x00" not in text else None


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _replicate(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else None


def _date(text: str) -> date | None:
    try:
        day = parse_date(text)
    except ValueError:
        return None
    return day if day != date.max else None  # there is no day after it, which ends "until"


def _side_name(text: str) -> str | None:
    return text if len(text) <= MAX_SIDE_NAME and "\x00" not in text else None


def _moment(text: str) -> datetime | None:
    try:
        moment = parse_datetime(text.replace(" ", "+"))  # "+00:00" arrives with its plus sign read as a space
        moment = moment and moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):  # at the ends of the calendar another zone may have no such moment
        return None
    if moment is None:
        return None
    return moment if moment <= timezone.now() else None  # a pin in the future would include everything still to come


READERS: dict[str, tuple[Callable[[str], object], str]] = {
    "experiment": (_uuid, "the id of an experiment"),
    **dict.fromkeys(LETTERS, (read_part, "the id of an experiment or run, or ID:condition")),
    **{f"name_{letter}": (_side_name, f"at most {MAX_SIDE_NAME} characters") for letter in LETTERS},
    "pool": (lambda text: text if text == MODEL_ROWS else None, f"{MODEL_ROWS}, or nothing"),
    "replicate": (_replicate, "a whole number"),
    "since": (_date, "a day such as 2026-03-31"),
    "until": (_date, "a day such as 2026-03-31"),
    "as_of": (_moment, "a time in the past, such as 2026-03-31T12:00:00Z"),
}


def _write_value(value: object) -> str:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return str(value)
