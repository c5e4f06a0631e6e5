"""Reading a judge's answer: every way of being unusable has its own name, and nothing is repaired.

The only tolerated deviation is a JSON object inside a code fence with nothing around it. Words around the object, a
missing field, a score off the scale, a number written as text: each is reported, asked again, and counted.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from runner.base.text import storable
from runner.base.types import FILTERED, JsonValue, ModelReply, ModelRequest
from runner.judging.metrics import HIGHEST, LOWEST, MAX_POINTS, POINT_FIELDS, Form
from runner.models.json_reply import PLAIN, STRICT, ask_until_usable, decode_alone, objects_among, refuses

MAX_REPLY_CHARS = 200_000
MAX_TEXT_CHARS = 4_000
PRINTED_FIELDS = {"key_point": "text", "skill_reference": "reference"}


class Fault(StrEnum):
    """Why a judge's reply cannot be used."""

    EMPTY = "empty"
    REFUSED = "refused"
    MALFORMED = "malformed"  # no JSON, cut off, or an object with none of the fields asked for
    PROSE = "prose"  # words around the JSON
    WRONG_TYPE = "wrong-type"
    OUT_OF_RANGE = "out-of-range"
    PARTIAL = "partial"  # a field is missing; the others are kept, and one of them holds an answer


@dataclass(frozen=True, slots=True)
class JudgedItem:
    """One scored thing. `score` is a whole number from 1 to 5, None for a label."""

    reason: str
    score: int | None = None
    label: str = ""


@dataclass(frozen=True, slots=True)
class Point:
    """One key point that a judge drew from a text."""

    text: str
    reason: str = ""
    reference: str = ""


@dataclass(frozen=True, slots=True)
class ReplyReading:
    """The content of a reply. With a fault other than PARTIAL it is empty. `problem` says what was expected."""

    items: dict[str, JudgedItem] = field(default_factory=dict)
    points: tuple[Point, ...] = ()
    fault: Fault | None = None
    problem: str = ""


class Faulty(ValueError):
    """Ends the reading of a reply."""

    def __init__(self, fault: Fault, problem: str) -> None:
        super().__init__(problem)
        self.fault = fault


def read_reply(reply: ModelReply, form: Form) -> ReplyReading:
    """Read a reply. Never raises: an unusable answer is a result."""
    try:
        value = _object_in(reply, form)
        if form.points:
            return _points(value)
        return _label(value, form) if form.labels else _scores(value, form.items)
    except Faulty as fault:
        return ReplyReading(fault=fault.fault, problem=str(fault)[:MAX_TEXT_CHARS])


# --- the one object ---------------------------------------------------------------------------------------------


def _object_in(reply: ModelReply, form: Form) -> dict[str, JsonValue]:
    text = reply.text.strip()
    if reply.finish_reason == FILTERED:
        raise Faulty(Fault.REFUSED, text[:MAX_TEXT_CHARS] or "the reply was withheld")
    if not text:
        raise Faulty(Fault.EMPTY, "the reply is empty")
    if len(text) > MAX_REPLY_CHARS:
        raise Faulty(Fault.MALFORMED, f"{len(text):,} characters, expected at most {MAX_REPLY_CHARS:,}")
    try:
        value = decode_alone(text, STRICT)
    except (ValueError, RecursionError) as error:
        raise _no_json(text, error, reply.finish_reason == "length") from error
    if form.points and isinstance(value, list):
        return {"points": [_rename_printed(each) for each in value]}
    if not isinstance(value, dict):
        raise Faulty(Fault.WRONG_TYPE, f"expected one JSON object, found {_kind(value)}")
    return value


def _rename_printed(point: JsonValue) -> JsonValue:
    """SkillLearnBench's printed judge gives a list of points, with its own names for two of their fields."""
    return {PRINTED_FIELDS.get(name, name): item for name, item in point.items()} if isinstance(point, dict) else point


def _no_json(text: str, error: Exception, is_cut: bool) -> Faulty:
    # The first thing in braces decides: an object inside an incomplete one does not count.
    if isinstance(error, json.JSONDecodeError) and any(True for _ in objects_among(text, PLAIN, limit=1)):
        return Faulty(Fault.PROSE, "expected the JSON object alone, found words around it")
    if refuses(text):
        return Faulty(Fault.REFUSED, text[:MAX_TEXT_CHARS])
    cut = ": the reply was cut off at the limit of tokens" if is_cut else ""
    return Faulty(Fault.MALFORMED, f"no JSON object ({str(error)[:200]}){cut}")


# --- its fields -------------------------------------------------------------------------------------------------


def _scores(value: dict[str, JsonValue], names: tuple[str, ...]) -> ReplyReading:
    items: dict[str, JudgedItem] = {}
    missing: list[str] = []
    for name in names:
        scores = value.get(name)
        if scores is None:
            missing.append(name)
            continue
        if not isinstance(scores, dict):
            raise Faulty(Fault.WRONG_TYPE, f"{name}: expected an object with score and reason, found {_kind(scores)}")
        if scores.get("score") is None:
            missing.append(f"{name}.score")
            continue
        items[name] = JudgedItem(_text(scores, "reason", name, missing), score=_score(scores["score"], name))
    return _partly(items, missing)


def _score(value: JsonValue, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        expected = f"a whole number from {LOWEST} to {HIGHEST}"
        raise Faulty(Fault.WRONG_TYPE, f"{name}.score: expected {expected}, found {_kind(value)} {str(value)[:40]!r}")
    if not LOWEST <= value <= HIGHEST:
        raise Faulty(Fault.OUT_OF_RANGE, f"{name}.score: expected {LOWEST} to {HIGHEST}, found {str(value)[:40]}")
    return value


def _label(value: dict[str, JsonValue], form: Form) -> ReplyReading:
    label = value.get("label")
    if label is None:
        return _partly({}, ["label"])
    if not isinstance(label, str):
        raise Faulty(Fault.WRONG_TYPE, f"label: expected text, found {_kind(label)}")
    if label not in form.labels:
        raise Faulty(Fault.OUT_OF_RANGE, f"label: expected one of {', '.join(form.labels)}, found {label[:80]!r}")
    missing: list[str] = []
    return _partly({"label": JudgedItem(_text(value, "reason", "", missing), label=label)}, missing)


def _points(value: dict[str, JsonValue]) -> ReplyReading:
    points = value.get("points")
    if points is None:
        raise _no_answer(["points"])
    if not isinstance(points, list):
        raise Faulty(Fault.WRONG_TYPE, f"points: expected a list, found {_kind(points)}")
    if len(points) > MAX_POINTS:
        raise Faulty(Fault.OUT_OF_RANGE, f"points: expected at most {MAX_POINTS}, found {len(points)}")
    found: list[Point] = []
    missing: list[str] = []
    for place, each in enumerate(points):
        if not isinstance(each, dict):
            raise Faulty(Fault.WRONG_TYPE, f"points[{place}]: expected an object, found {_kind(each)}")
        texts = [_text(each, name, f"points[{place}]", missing) for name in POINT_FIELDS]
        found += [Point(*texts)] * bool(texts[0])
    if points and not found:
        raise _no_answer([f"points[{place}].{POINT_FIELDS[0]}" for place in range(len(points))])
    problem = f"missing: {', '.join(missing)}" if missing else ""
    return ReplyReading(points=tuple(found), fault=Fault.PARTIAL if missing else None, problem=problem)


def _partly(items: dict[str, JudgedItem], missing: list[str]) -> ReplyReading:
    if not items:
        raise _no_answer(missing)
    if missing:
        return ReplyReading(items, fault=Fault.PARTIAL, problem=f"missing: {', '.join(missing)}")
    return ReplyReading(items)


def _no_answer(missing: list[str]) -> Faulty:
    """An object without a score, label or point answers nothing: no part of it is kept."""
    return Faulty(Fault.MALFORMED, f"none of the fields asked for: {', '.join(missing)}")


def _text(value: dict[str, JsonValue], name: str, place: str, missing: list[str]) -> str:
    text = value.get(name)
    where = f"{place}.{name}" if place else name
    if text is None or text == "":
        missing.append(where)
        return ""
    if not isinstance(text, str):
        raise Faulty(Fault.WRONG_TYPE, f"{where}: expected text, found {_kind(text)}")
    return storable(text).strip()[:MAX_TEXT_CHARS]  # JSON can contain characters that a text of the record cannot


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "a truth value", int: "a number", float: "a number"}
    return names.get(type(value), "null")


TRIES = 3
MAX_ECHO_CHARS = 8_000  # of an unusable reply that is quoted back to the judge


@dataclass(frozen=True, slots=True)
class Settled:
    """The last reading. `faults` has one entry for each try before it."""

    reading: ReplyReading
    faults: tuple[Fault, ...] = ()

    @property
    def tries(self) -> int:
        return len(self.faults) + 1


def settle(request: ModelRequest, form: Form, ask: Callable[[ModelRequest, int], ModelReply]) -> Settled:
    """`ask` gets the request and the try's number, from 1; its exceptions pass through.

    A refusal is an answer: it is not asked again.
    """

    def read(reply: ModelReply) -> tuple[ReplyReading, str]:
        reading = read_reply(reply, form)
        if reading.fault in (None, Fault.REFUSED):
            return reading, ""
        problem = f"That answer cannot be used ({reading.fault}): {reading.problem}."
        return reading, f"{problem} Answer with the JSON object alone."

    *before, last = ask_until_usable(request, ask, read, tries=TRIES, echo=lambda text: text[:MAX_ECHO_CHARS])
    return Settled(last, tuple(reading.fault for reading in before if reading.fault))
