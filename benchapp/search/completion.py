"""What may stand at a place of a query: filters by name, then their values as the record has them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from django.db.models import Model, QuerySet

from benchapp.models import Experiment, Run, SearchDocument, SkillUse, Task, User
from benchapp.review.blinding import Words, open_to
from benchapp.search.query import quote
from benchapp.search.search_fields import FIELDS, SHORT, SearchField
from benchapp.search.search_hits import documents_for

Row = TypeVar("Row", bound=Model)
MOST = 12
LOOKED_AT = 2_000  # values of one kind
_BARE = re.compile(r"[^\s\",~*?]+")
_AT_CURSOR = re.compile(
    r'(?P<minus>-?)(?P<name>[A-Za-z_]+):(?P<done>(?:[^\s",]+,)*)(?P<value>~?"?[^"]*)\Z|(?P<word>\S*)\Z'
)


@dataclass(frozen=True, slots=True)
class Completion:
    """`text` takes the place of the query's characters from `start` to `end`; `means` says what it is."""

    text: str
    start: int
    end: int
    means: str


def complete(text: str, at: int, user: User) -> list[Completion]:
    """For a cursor behind `at` characters. At most MOST; nothing inside a quoted text."""
    before = text[:at]
    start = _start_of_part(before)
    if start is None:
        return []
    part = before[start:]
    match = _AT_CURSOR.match(part)
    if match is None:
        return []
    if match["name"] is not None:
        known = FIELDS.get(match["name"].lower())
        return _values(known, match["value"], start + match.start("value"), at, user) if known else []
    word = (match["word"] or "").removeprefix("-")
    return _names(word.lower(), at - len(word), at)


def _start_of_part(before: str) -> int | None:
    """Where the part begins in which the text ends; None inside the quotes of a text."""
    start, is_open, quoted_at = 0, False, 0
    for place, character in enumerate(before):
        if character == '"':
            is_open, quoted_at = not is_open, place
        elif character.isspace() and not is_open:
            start = place + 1
    is_value = is_open and before[:quoted_at].endswith((":", ":~", ",", ",~"))
    return None if is_open and not is_value else start


def _names(word: str, start: int, end: int) -> list[Completion]:
    fields = [
        Completion(f"{name}:", start, end, known.means) for name, known in FIELDS.items() if name.startswith(word)
    ]
    short = [
        Completion(f"{name} ", start, end, "the trial ended so") for name in SHORT if word and name.startswith(word)
    ]
    return [*short, *fields][: len(FIELDS)]


def _values(known: SearchField, typed: str, start: int, end: int, user: User) -> list[Completion]:
    wanted = typed.lstrip("~").lstrip('"').lower()
    found = known.values or tuple(_list_recorded(known.name, user))
    begins = [value for value in found if value.lower().startswith(wanted)]
    holds = [value for value in found if wanted in value.lower() and value not in begins]
    return [Completion(f"{_write_value(value)} ", start, end, known.means) for value in [*begins, *holds][:MOST]]


def _write_value(value: str) -> str:
    return value if _BARE.fullmatch(value) else quote(value)


def _list_recorded(name: str, user: User) -> Iterable[str]:
    """The values that the record has, in order; nothing that only pages closed to this person tell."""
    runs = Run.objects.standing()
    columns = {"condition": "condition", "model": "agent_model", "author": "author_model", "harness": "harness"}
    if name in columns:
        return _distinct(runs, columns[name])
    if name == "experiment":
        return _distinct(Experiment.objects.standing(), "name")
    if name in {"task", "family"}:
        return _distinct(Task.objects.all(), "key" if name == "task" else "family__key")
    if name in {"skill", "mounted"}:
        return _skills(user)
    if name == "path":
        return _distinct(documents_for(user), "path")
    if name == "by":
        return _distinct(documents_for(user), "source__comment__author__username")
    return _tools() if name == "tool" else ()


def _distinct(rows: QuerySet[Row], column: str) -> list[str]:
    values = rows.order_by(column).values_list(column, flat=True).distinct()
    return [value for value in values[:LOOKED_AT] if value]


def _skills(user: User) -> list[str]:
    uses = SkillUse.objects.all()
    if open_to(user).exists():
        uses = uses.exclude(attempt__trial__in=Words(user).closed_trials())
    files = documents_for(user).filter(kind=SearchDocument.Kind.FILE)
    return sorted({*_distinct(uses, "skill"), *_distinct(files, "skill")})


def _tools() -> list[str]:
    """Those that agents of all harnesses call most; which ones a record has stands in blobs only."""
    return [
        "bash",
        "shell",
        "Read",
        "Write",
        "Edit",
        "Skill",
        "run_shell_command",
        "read_file",
        "write_file",
        "execute",
    ]
