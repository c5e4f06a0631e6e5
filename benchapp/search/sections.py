"""The texts of a document in reading order. Indexing and hits both use this, so a hit shows what was indexed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchapp.models import Decision, SearchDocument, Verdict
from benchapp.record.trajectory_store import StoredStep
from benchapp.search.tokens import fact
from runner.trajectories.fields import fields

PASSAGE_CHARS = 8_000  # of neighbouring steps in one passage; a longer step is several passages
STEP_CHARS = 256 * 1024  # of one step that are indexed
FILE_CHARS = 64 * 1024
MAX_FACTS = 200  # different ones of a passage
BETWEEN = "\x1f"  # joins the texts of a step for counting its characters


@dataclass(frozen=True, slots=True)
class Section:
    """One text. `step`: if it is part of one; `name`: the field, the check or the file; `fact`: what else the index has
    about it: the tool that is called, or that it is an error."""

    name: str
    text: str
    step: int | None = None
    fact: str = ""


@dataclass(frozen=True, slots=True)
class Passage:
    """Neighbouring steps, or characters `start` to `end` of one long step's joined texts."""

    first: int
    last: int
    sections: tuple[Section, ...]
    start: int | None = None
    end: int | None = None
    facts: tuple[str, ...] = ()  # of its steps, each once


def passages(steps: Iterable[StoredStep]) -> Iterator[Passage]:
    """Cut the steps into passages, none longer than PASSAGE_CHARS."""
    waiting: list[StoredStep] = []
    room = PASSAGE_CHARS
    for stored in steps:
        length = sum(len(text) for _, text in fields(stored.step))
        if length > room and waiting:
            yield _passage(waiting)
            waiting, room = [], PASSAGE_CHARS
        if length > PASSAGE_CHARS:
            yield from _pieces(stored)
            continue
        waiting.append(stored)
        room -= length
    if waiting:
        yield _passage(waiting)


def is_cut(stored: StoredStep) -> bool:
    """Does the step have more text than is indexed?"""
    return bool(stored.long) or sum(len(text) for _, text in fields(stored.step)) > STEP_CHARS


def _passage(steps: Sequence[StoredStep]) -> Passage:
    numbers = [stored.step.number for stored in steps]
    sections = tuple(section for stored in steps for section in step_sections(stored))
    return Passage(min(numbers), max(numbers), sections, facts=_facts(sections))


def _facts(sections: Iterable[Section]) -> tuple[str, ...]:
    return tuple(sorted({section.fact for section in sections if section.fact})[:MAX_FACTS])


def _pieces(stored: StoredStep) -> Iterator[Passage]:
    joined = BETWEEN.join(section.text for section in step_sections(stored))[:STEP_CHARS]
    facts = _facts(step_sections(stored))  # a piece of a result is still a step that calls the tool
    start = 0
    while start < len(joined):
        end = _end_of_piece(joined, start)
        sections = tuple(step_piece(stored, start, end))
        yield Passage(stored.step.number, stored.step.number, sections, start, end, facts)
        start = end


def _end_of_piece(text: str, start: int) -> int:
    """Return where a piece ends: after a line or a space, if there is one in its last fifth."""
    end = start + PASSAGE_CHARS
    if end >= len(text):
        return len(text)
    least = start + PASSAGE_CHARS * 4 // 5
    for sign in ("\n", " "):
        if (found := text.rfind(sign, least, end)) >= 0:
            return found + 1
    return end


def step_sections(stored: StoredStep) -> list[Section]:
    found, step = [], stored.step
    for name, text in fields(step):
        fact_text, (group, _, place) = "", name.partition("/")
        if group == "tool_calls":
            fact_text = fact("tool", step.tool_calls[int(place)].name)
        elif group == "observations" and step.observations[int(place)].is_error:
            fact_text = fact("is", "error")
        found.append(Section(name, text, step.number, fact_text))
    return found


def step_piece(stored: StoredStep, start: int, end: int) -> Iterator[Section]:
    """Yield the sections of one step between two places of its joined texts."""
    at = 0
    for section in step_sections(stored):
        piece = section.text[max(0, start - at) : max(0, end - at)]
        if piece:
            yield Section(section.name, piece, section.step, section.fact)
        at += len(section.text) + len(BETWEEN)


def decision_sections(decision: Decision) -> list[Section]:
    sections = [Section("summary", decision.summary), Section("error", decision.error)]
    for finding in decision.findings:
        words = [str(finding.get(name) or "") for name in ("rule", "path", "message")]
        sections.append(Section("finding", " · ".join(word for word in words if word)))
    return [section for section in sections if section.text]


def verdict_sections(verdict: Verdict) -> list[Section]:
    """Return each check with its message, each rubric dimension with its reason."""
    checks = [Section(f"{each.group} · {each.status}", _line(each.name, each.message)) for each in verdict.checks.all()]
    return [*checks, *(Section("rubric", _line(each.name, each.reason)) for each in verdict.dimensions.all())]


def _line(name: str, text: str) -> str:
    return f"{name}: {text}" if text else name


def file_sections(path: str, content: bytes) -> list[Section]:
    """Return the path, and the text if the file is one."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = ""
    return [Section("path", path), *([Section("text", text[:FILE_CHARS])] if text and "\x00" not in text else [])]


def sections_of(document: SearchDocument, steps: Sequence[StoredStep], contents: Mapping[str, bytes]) -> list[Section]:
    """Return those of a stored document; `steps` are those of its passage, `contents` has its file."""
    source = document.source
    if document.kind == SearchDocument.Kind.STEP:
        if document.start is not None and document.end is not None and steps:
            return list(step_piece(steps[0], document.start, document.end))
        return [section for stored in steps for section in step_sections(stored)]
    if document.kind == SearchDocument.Kind.FILE:
        return file_sections(document.path, contents.get(document.digest, b""))
    if source.decision:
        return decision_sections(source.decision)
    if source.verdict:
        return verdict_sections(source.verdict)
    return [Section("note", source.comment.text)] if source.comment else []
