"""Read a judging model's answer. It is a text from outside: every part of it is checked, none is trusted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchapp.models import Attribution, Code
from benchapp.review.suggestions.judge_evidence import JudgeEvidence
from runner.base.text import storable
from runner.base.types import FILTERED, JsonValue, ModelReply
from runner.models.json_reply import PLAIN, objects_among, refuses

MAX_REPLY_CHARS = 200_000
MAX_LABELS = 12
MAX_TEXT_CHARS = 1_000
MAX_BRACES = 50  # checked as the beginning of the answer
CONFIDENCES = ("low", "medium", "high")


class Unreadable(ValueError):
    """Nothing in the reply could be used; the message says why."""


class JudgeRefused(ValueError):
    """The model, or its provider, refused to answer."""


@dataclass(frozen=True, slots=True)
class Judged:
    """One label of the judge that passed every check."""

    code: Code
    attribution: str
    step: int | None
    quote: str
    reason: str
    confidence: str


@dataclass(frozen=True, slots=True)
class ReadSuggestions:
    """`problems`: one sentence for each label that was left out."""

    labels: tuple[Judged, ...]
    problems: tuple[str, ...] = ()


def read_reply(reply: ModelReply, evidence: JudgeEvidence, find: Callable[[str], Code | None]) -> ReadSuggestions:
    """Return the valid labels. JudgeRefused, or Unreadable where no object, or none of its labels, can be used."""
    if reply.finish_reason == FILTERED:
        raise JudgeRefused(reply.text[:MAX_TEXT_CHARS] or "the reply was withheld")
    entries = _entries(reply)
    labels: dict[int, Judged] = {}
    problems: list[str] = []
    for place, entry in enumerate(entries[:MAX_LABELS], start=1):
        try:
            label = _label(entry, evidence, find)
        except Unreadable as problem:
            problems.append(f"label {place}: {problem}")
        else:
            labels.setdefault(label.code.pk, label)
    if len(entries) > MAX_LABELS:
        problems.append(f"{len(entries) - MAX_LABELS} labels beyond the first {MAX_LABELS}")
    if entries and not labels:
        raise Unreadable("; ".join(problems))
    return ReadSuggestions(tuple(labels.values()), tuple(problems))


def _entries(reply: ModelReply) -> list[JsonValue]:
    text = reply.text
    if len(text) > MAX_REPLY_CHARS:
        raise Unreadable(f"{len(text):,} characters, expected at most {MAX_REPLY_CHARS:,}")
    # Models put words or a fence around it, or into another object.
    objects = objects_among(text, PLAIN, limit=MAX_BRACES, inner=True)
    lists = (value.get("labels") for value in objects)
    entries = next((found for found in lists if isinstance(found, list)), None)
    if entries is None and refuses(text):
        raise JudgeRefused(text[:MAX_TEXT_CHARS])
    if entries is None:
        cut_off = " (it was cut off at the limit of tokens)" if reply.finish_reason == "length" else ""
        raise Unreadable(f"no JSON object with a list named labels{cut_off}")
    return entries


def _label(entry: JsonValue, evidence: JudgeEvidence, find: Callable[[str], Code | None]) -> Judged:
    if not isinstance(entry, dict):
        raise Unreadable("expected an object")
    name = _text(entry, "code")
    code = find(name)
    if code is None:
        raise Unreadable(f"the codebook has no code {name!r}")
    step = _step(entry.get("step"), evidence)
    quote = _text(entry, "quote")
    if not quote:
        raise Unreadable(f"{name}: no quote")
    if not evidence.shows(quote, step):
        raise Unreadable(f"{name}: the quote does not stand in {'the evidence' if step is None else f'step {step}'}")
    attribution = _text(entry, "attribution").lower()
    if attribution not in ("", *Attribution.values):
        raise Unreadable(f"{name}: attribution {attribution!r} is not known")
    confidence = _text(entry, "confidence").lower()
    if confidence not in ("", *CONFIDENCES):
        raise Unreadable(f"{name}: confidence {confidence!r} is not known")
    return Judged(code, attribution, step, quote, _text(entry, "reason"), confidence)


def _step(value: JsonValue, evidence: JudgeEvidence) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= evidence.steps_total:
        raise Unreadable(f"step {str(value)[:40]!r}, expected null or 1 to {evidence.steps_total}")
    return value


def _text(entry: dict[str, JsonValue], key: str) -> str:
    value = entry.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise Unreadable(f"{key} is {type(value).__name__}, expected text")
    return storable(value).strip()[:MAX_TEXT_CHARS]  # JSON can encode what the reply's own text cannot hold
