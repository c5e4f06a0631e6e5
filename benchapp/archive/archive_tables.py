"""The rows that make up an experiment's record, ordered so that every reference points back.

Columns are those of the models: one that is added later is included automatically. Columns left out are named here.
Lines are read as checked values, because a file from elsewhere may hold anything.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, NoReturn, TypeAlias, TypeVar
from uuid import UUID

from django.db.models import NOT_PROVIDED, Field, ForeignKey, JSONField, Model, fields

from benchapp import models
from benchapp.archive import ArchiveError
from runner.base.types import JsonValue

Column: TypeAlias = "Field[Any, Any]"  # what it takes and gives differs by column: `decode_value` checks it


@dataclass(frozen=True)
class ArchiveTable:
    """`within`: the lookup from its rows to the run they belong to; empty for what runs share.

    `known_by`: the columns that identify the same thing anywhere; an existing row is not written again.
    """

    name: str
    model: type[Model]
    within: str = ""
    at_home: tuple[str, ...] = ()
    known_by: tuple[str, ...] = ()
    order: tuple[str, ...] = ("pk",)  # of its lines; keys of rows follow the order of recording
    among: tuple[
        tuple[str, str], ...
    ] = ()  # column -> table, if the rows it points at belong to another table of their model

    @cached_property
    def columns(self) -> dict[str, Column]:
        """Return every column that is exported, by name. Users are not."""
        return {
            field.name: field
            for field in self.model._meta.concrete_fields
            if not field.primary_key and field.name not in self.at_home and field.related_model is not models.User
        }

    @cached_property
    def references(self) -> dict[str, str]:
        """Return column -> table of the rows it points at. Contents have digests instead of rows."""
        return {
            name: dict(self.among).get(name) or NAMES[field.related_model]
            for name, field in self.columns.items()
            if isinstance(field, ForeignKey) and field.related_model is not models.Blob
        }

    @cached_property
    def contents(self) -> tuple[str, ...]:
        """Return the columns that hold the digest of a content."""
        return tuple(name for name, field in self.columns.items() if field.related_model is models.Blob)


TIMES = ("created_at", "deleted_at")
ATTEMPT_OF = "attempt__trial__episode__run"

SHARED_TABLES = (
    # Its files (`SuiteFile`) stay at home, as its folder does.
    ArchiveTable(
        "suite",
        models.Suite,
        at_home=("path", "account", "families_by", "files_digest"),
        known_by=("key",),
        order=("key",),
    ),
    ArchiveTable("environment", models.Environment, known_by=("suite", "key"), order=("suite__key", "key")),
    ArchiveTable("family", models.Family, known_by=("suite", "key"), order=("suite__key", "key")),
    ArchiveTable("task", models.Task, at_home=("same_as",), known_by=("suite", "key"), order=("suite__key", "key")),
    ArchiveTable(
        "revision",
        models.TaskRevision,
        at_home=("foreign_digests",),
        known_by=("task", "digest"),
        order=("task__suite__key", "task__key", "digest"),
    ),
    ArchiveTable(
        "key point",
        models.KeyPoint,
        known_by=("task", "kind", "ordinal"),
        order=("task__suite__key", "task__key", "kind", "ordinal"),
    ),
    ArchiveTable(
        "task group",
        models.TaskGroup,
        known_by=("task", "attribute"),  # a task with values here gets none from elsewhere
        order=("task__suite__key", "task__key", "attribute", "value"),
    ),
    ArchiveTable("snapshot", models.Snapshot, known_by=("digest",), order=("digest",)),
    ArchiveTable("file", models.SnapshotFile, known_by=("snapshot", "path"), order=("snapshot__digest", "path")),
    ArchiveTable("experiment", models.Experiment, at_home=("source", *TIMES)),
)

RUN_TABLES = (
    ArchiveTable("run", models.Run, "pk", at_home=("forked_from", "joined_from", "revision", *TIMES)),
    ArchiveTable(
        "episode",
        models.Episode,
        "run",
        at_home=("lease_owner", "lease_until", "lease_epoch", "wish", "failures", "last_failure"),
    ),
    ArchiveTable("probe", models.Probe, "run", at_home=("origin", "decision", "reason", "actor_name", "created_at")),
    ArchiveTable("trial", models.Trial, "episode__run", at_home=("settled_at",)),
    ArchiveTable("retrieved", models.Trial.retrieved.through, "from_trial__episode__run"),
    ArchiveTable("attempt", models.Attempt, "trial__episode__run", at_home=("worker", "sandbox", "lease_epoch")),
    ArchiveTable("verdict", models.Verdict, ATTEMPT_OF),
    ArchiveTable("check", models.Check, f"verdict__{ATTEMPT_OF}"),
    ArchiveTable("dimension", models.Dimension, f"verdict__{ATTEMPT_OF}"),
    ArchiveTable("trajectory", models.Trajectory, ATTEMPT_OF, at_home=("call",)),
    ArchiveTable("chunk", models.Chunk, f"trajectory__{ATTEMPT_OF}"),
    ArchiveTable("piece", models.Chunk.pieces.through, f"chunk__trajectory__{ATTEMPT_OF}"),
    ArchiveTable("compaction", models.Compaction, f"trajectory__{ATTEMPT_OF}"),
    ArchiveTable("use", models.SkillUse, ATTEMPT_OF),
    ArchiveTable("call", models.ModelCall, "episode__run"),
    # Trajectories of authors have their own tables: older archives have calls after trajectories.
    ArchiveTable(
        "session", models.Trajectory, "call__episode__run", at_home=("attempt",), among=(("parent", "session"),)
    ),
    ArchiveTable("session chunk", models.Chunk, "trajectory__call__episode__run", among=(("trajectory", "session"),)),
    ArchiveTable(
        "session piece",
        models.Chunk.pieces.through,
        "chunk__trajectory__call__episode__run",
        among=(("chunk", "session chunk"),),
    ),
    ArchiveTable("decision", models.Decision, "episode__run"),
    ArchiveTable("evidence", models.DecisionEvidence, "decision__episode__run"),
    ArchiveTable("seeding", models.Seeding, "entry__episode__run"),
    ArchiveTable("seal", models.Seal, "entry__episode__run"),
    ArchiveTable("refusal", models.Refusal, "entry__episode__run"),
    ArchiveTable("skip", models.Skip, "entry__episode__run"),
    ArchiveTable("entry", models.Entry, "episode__run"),
    ArchiveTable("judging", models.Judging, "run"),
    ArchiveTable("judged unit", models.JudgedUnit, "judging__run", at_home=("source",)),  # may be another experiment's
    ArchiveTable("judging try", models.JudgingTry, "unit__judging__run"),
    ArchiveTable("judgement", models.Judgement, "unit__judging__run"),
)

TABLES = {table.name: table for table in (*SHARED_TABLES, *RUN_TABLES)}
NAMES: dict[object, str] = {table.model: table.name for table in reversed(TABLES.values())}  # the first of its model
PUBLIC = tuple(table for table in TABLES.values() if "public_id" in table.columns and not table.known_by)


Scalar = TypeVar("Scalar", bool, int, str)
Stored: TypeAlias = "JsonValue | UUID | datetime"  # what a column holds
MAX_TEXT = 16 * 1024 * 1024  # characters of a text column without a limit of its own
MAX_SMALL, MAX_BIG = 2**31 - 1, 2**63 - 1
DIGEST = re.compile(r"[0-9a-f]{64}")
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def encode_value(value: Stored) -> JsonValue:
    """Return a value of a row as JSON."""
    return value.isoformat() if isinstance(value, datetime) else str(value) if isinstance(value, UUID) else value


def decode_value(field: Column, value: JsonValue) -> Stored:
    """Return the value for this column. Raise ValueError, with what was expected, if it cannot be stored."""
    if value is None:
        raise ValueError("a value")
    match field:
        case fields.BooleanField():
            return _check_type(bool, value, "true or false")
        case fields.UUIDField():
            return UUID(_check_type(str, value, "a UUID"))
        case fields.DateTimeField():
            return _read_moment(value)
        case JSONField():
            return _check_json(field, value)
        case fields.FloatField():
            return _read_number(value)
        case fields.IntegerField():
            return _check_whole(field, value)
        case fields.CharField() | fields.TextField():
            return _check_text(field, value)
    raise TypeError(f"{field}: no such column can be in an archive")  # a model got a kind of field that is unknown here


def _check_type(kind: type[Scalar], value: JsonValue, expected: str) -> Scalar:
    if type(value) is kind:
        return value
    raise ValueError(expected)


def _read_moment(value: JsonValue) -> datetime:
    moment = datetime.fromisoformat(_check_type(str, value, "a time"))
    if moment.tzinfo is None:
        raise ValueError("a time with its zone")
    try:
        moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("a time of the years 1 to 9999, also in UTC") from None
    return moment


def _check_json(field: Column, value: JsonValue) -> JsonValue:
    default = field.get_default()
    if default is not None and type(default) is not type(value):
        raise ValueError(f"a JSON {type(default).__name__}")
    if _UNSTORABLE.search(json.dumps(value, ensure_ascii=False)) or "\\u0000" in json.dumps(value):
        raise ValueError("texts without NUL and lone surrogates")
    return value


def _read_number(value: JsonValue) -> float:
    try:
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(number := float(value)):
            return number
    except OverflowError:  # an integer of more than 308 digits
        pass
    raise ValueError("a finite number")


def _check_whole(field: Column, value: JsonValue) -> int:
    number = _check_type(int, value, "a whole number")
    most = MAX_BIG if isinstance(field, fields.BigIntegerField) else MAX_SMALL
    positive = isinstance(field, fields.PositiveIntegerField | fields.PositiveBigIntegerField)
    if not (0 if positive else -most) <= number <= most:
        raise ValueError(f"a whole number of at most {most:,}{' and at least 0' if positive else ''}")
    return number


def _check_text(field: Column, value: JsonValue) -> str:
    text = _check_type(str, value, "a text")
    most = field.max_length or MAX_TEXT
    if len(text) > most:
        raise ValueError(f"a text of at most {most:,} characters")
    if _UNSTORABLE.search(text):
        raise ValueError("a text without NUL and lone surrogates")
    if field.choices and text not in dict(field.flatchoices) and not (field.blank and not text):
        raise ValueError(f"one of {', '.join(map(str, dict(field.flatchoices)))}")
    return text


Counts = dict[str, int]  # table -> lines so far
Value = TypeVar("Value", str, int, UUID)


@dataclass(frozen=True, slots=True)
class ArchiveRow:
    """One line: references as places among the lines of their table, contents as digests, the rest as in the column."""

    table: ArchiveTable
    number: int  # its place among the lines of its table, from 0
    values: dict[str, Stored]
    place: str  # for a message

    def value_of(self, column: str, kind: type[Value]) -> Value:
        """Return the value of a column that the reader needs; a reference is the place of a line."""
        value = self.values.get(column)
        if not isinstance(value, kind):
            raise ArchiveError(self.place, f"a {self.table.name} with its {column}", "there is none")
        return value


def read_rows(lines: Iterable[bytes], name: str, shared: Counts, *, of_run: bool) -> Iterator[ArchiveRow]:
    """Read rows. `shared` is filled from the lines that runs share; the runs' lines may refer to it."""
    counts, allowed = (dict(shared), RUN_TABLES) if of_run else (shared, SHARED_TABLES)
    order = {table.name: place for place, table in enumerate(allowed)}
    counts.update(dict.fromkeys(order, 0))
    latest = 0
    for number, line in enumerate(lines, start=1):
        place = f"{name}, line {number}"
        table, values = _parse_line(line, place)
        if table not in order or order[table] < latest:
            raise ArchiveError(place, "the tables in their order", f"a line of {table!r:.60}")
        latest = order[table]
        yield ArchiveRow(TABLES[table], counts[table], _values(TABLES[table], values, counts, place), place)
        counts[table] += 1


def _parse_line(line: bytes, place: str) -> tuple[str, dict[str, JsonValue]]:
    try:
        found: JsonValue = json.loads(line.decode(), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise ArchiveError(place, "a line of JSON", str(error)[:200]) from error
    match found:
        case [str(table), dict(values)]:
            return table, values
    raise ArchiveError(place, "[table, {column: value}]", "something else")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def _values(table: ArchiveTable, stored: dict[str, JsonValue], counts: Counts, place: str) -> dict[str, Stored]:
    if unknown := sorted(set(stored) - set(table.columns)):
        message = f"{', '.join(unknown)[:200]!r}: made by a newer version?"
        raise ArchiveError(place, f"columns that a {table.name} has", message)
    values: dict[str, Stored] = {}
    for name, field in table.columns.items():
        if name not in stored:
            if field.default is NOT_PROVIDED and not field.null and not field.blank:
                raise ArchiveError(place, f"a {table.name} with its {name}", "there is none")
            continue
        try:
            if stored[name] is None and field.null:
                values[name] = None
            elif name in table.references:
                values[name] = _reference(stored[name], counts[table.references[name]])
            elif name in table.contents:
                values[name] = _content(stored[name])
            else:
                values[name] = decode_value(field, stored[name])
        except ValueError as error:
            found = json.dumps(stored[name])[:80]
            raise ArchiveError(f"{place}, {table.name}.{name}", str(error)[:300], f"found {found}") from error
    return values


def _reference(value: JsonValue, known: int) -> int:
    if type(value) is not int or not 0 <= value < known:
        raise ValueError("the place of an earlier line")
    return value


def _content(value: JsonValue) -> str:
    if not isinstance(value, str) or not DIGEST.fullmatch(value):
        raise ValueError("a SHA-256 of 64 hex characters")
    return value
