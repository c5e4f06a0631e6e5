"""The choices of a compare page, all in its address: parsed here, and written back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, date, datetime
from functools import partial
from typing import Any, Protocol
from urllib.parse import urlencode
from uuid import UUID

from django.db.models import Q
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime

from benchapp.models import Experiment, Run
from runner.base.text import parse_count, parse_id

LETTERS = ("a", "b", "c", "d")  # side A is the baseline
UUID_LENGTH = 36
VENDOR = re.compile(r"^(?:[a-z]+\.)+(?=[a-z])")  # "us.anthropic."
DATED = re.compile(r"[@-]20\d{6}(?:-v\d+:\d+)?$")


@dataclass(frozen=True, slots=True)
class Side:
    """`parts`: its contents, each the id of an experiment or a run, or `ID:condition` for one condition of an
    experiment. `name`: a condition's code or any words; empty: the condition of its runs, if they share one."""

    letter: str
    parts: tuple[str, ...]
    name: str = ""

    def matches(self) -> Q:
        """Match the same as `holds`, in SQL."""
        whole = [part for part in self.parts if len(part) == UUID_LENGTH]
        found = Q(experiment__public_id__in=whole) | Q(public_id__in=whole)
        for part in self.parts:
            if len(part) > UUID_LENGTH:
                found |= Q(experiment__public_id=part[:UUID_LENGTH], condition=part[UUID_LENGTH + 1 :])
        return found

    def holds(self, run: UUID, experiment: UUID, condition: str) -> bool:
        return not {str(run), str(experiment), f"{experiment}:{condition}"}.isdisjoint(self.parts)


def read_part(text: str) -> str | None:
    """Return the part with its id as the database writes it; None where the text is not a part."""
    name, colon, condition = text.partition(":")
    try:
        public_id = UUID(name)
    except ValueError:
        return None
    return f"{public_id}:{condition}" if colon else str(public_id)


def merge_model_name(name: str) -> str:
    """Return the model without where it was served: "bedrock/us.anthropic.claude-haiku-4-5-20251001-v1:0" and
    "claude-haiku-4-5@20251001" are both claude-haiku-4-5."""
    return DATED.sub("", VENDOR.sub("", name.rpartition("/")[2]))


def assign(runs: Iterable[Run], sides: Sequence[Side]) -> dict[str, list[Run]]:
    """Return letter -> its runs, in the order of the sides. A run that two sides name is on the first."""
    found: dict[str, list[Run]] = {side.letter: [] for side in sides}
    for run in runs:
        named = run.public_id, run.experiment.public_id, run.condition
        side = next((side for side in sides if side.holds(*named)), None)
        if side is not None:
            found[side.letter].append(run)
    return found


def name_sides(sides: Sequence[Side], runs: Mapping[str, Sequence[Run]]) -> dict[str, str]:
    """Return letter -> its side's name: the given one, else the condition that only its runs have, else the letter."""
    codes = {letter: {run.condition for run in found} for letter, found in runs.items()}
    names: dict[str, str] = {}
    for side in sides:
        own = codes[side.letter]
        shared = any(own & other for letter, other in codes.items() if letter != side.letter)
        is_clear = len(own) == 1 and not shared and own != {Run.UNKNOWN}
        name = side.name or (next(iter(own)) if is_clear else f"Side {side.letter.upper()}")
        names[side.letter] = name if name not in names.values() else f"{name} ({side.letter.upper()})"
    return names


NO_SKILL = "no-skill"
OLD_SKILL = "old-skill"  # the skill before it was worked on: the baseline where nothing ran without a skill
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
        """Return the sides that have a part; none if the record's conditions are compared."""
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
ADDRESS = tuple(name for name, _ in _DEFAULTS)  # the parts of an address that choose


def parse_choices(query: QueryValues) -> tuple[Choices, list[str]]:
    """Return the choices of an address, and one sentence per part that could not be understood and is left out."""
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


def names_known(choices: Choices) -> bool:
    """Does any experiment or run exist that the choices name, or do they name none? At most two queries."""
    ids = [*map(str, choices.experiment), *(part[:UUID_LENGTH] for side in choices.sides for part in side.parts)]
    if not ids or Experiment.objects.not_deleted().filter(public_id__in=ids).exists():
        return True
    return Run.objects.not_deleted().filter(public_id__in=ids).exists()


def _parse_values(name: str, texts: Sequence[str], problems: list[str]) -> Iterable[object]:
    if len(texts) > MAX_VALUES:
        problems.append(f"{name}: {len(texts)} values given, only the first {MAX_VALUES} are used")
    read, expected = READERS.get(name, (_word, f"at most {MAX_LENGTH} characters"))
    for text in texts[:MAX_VALUES]:
        value = read(text)
        if value is None:
            problems.append(f"{name}: {text[:80]!r} is unknown, expected {expected}")
        else:
            yield value


def _word(text: str, most: int = MAX_LENGTH) -> str | None:
    return text if len(text) <= most and "\x00" not in text else None


def _date(text: str) -> date | None:
    try:
        day = parse_date(text)
    except ValueError:
        return None
    return day if day != date.max else None  # there is no day after it, which ends "until"


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
    "experiment": (parse_id, "the id of an experiment"),
    **dict.fromkeys(LETTERS, (read_part, "the id of an experiment or run, or ID:condition")),
    **{
        f"name_{letter}": (partial(_word, most=MAX_SIDE_NAME), f"at most {MAX_SIDE_NAME} characters")
        for letter in LETTERS
    },
    "pool": (lambda text: text if text == MODEL_ROWS else None, f"{MODEL_ROWS}, or nothing"),
    "replicate": (parse_count, "a whole number"),
    "since": (_date, "a day such as 2026-03-31"),
    "until": (_date, "a day such as 2026-03-31"),
    "as_of": (_moment, "a time in the past, such as 2026-03-31T12:00:00Z"),
}


def _write_value(value: object) -> str:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return str(value)
