"""Verdicts of graders that list what they expected: each expectation passed or failed, with the evidence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from benchapp.imports.problems import render_found
from benchapp.imports.reading.documents import Document
from runner.base.text import clean
from runner.base.types import Check, CheckGroup, CheckStatus, Dimension, Verdict

LISTS = ("expectations", "assertion_results", "assertion_details", "assertions")
_ANSWERS = ("passed", "pass")
_TEXTS = ("text", "expectation", "assertion", "name", "description")
_REASONS = ("evidence", "reason", "message")
_PASSED = ("passed", "pass_count", "assertions_passed", "total_passed")
_TOTAL = ("total", "total_count", "assertions_total", "total_assertions")
_PERCENT = re.compile(r"\s*(\d{1,3}(?:\.\d{1,9})?)\s*%\s*")
_QUALITY_MAX = 5.0  # graders rate qualities from 1 to 5
MAX_TEXT = 20_000
MAX_NAME = 500


@dataclass(frozen=True, slots=True)
class Grading:
    """A grader's verdict, with the counts it is made from. Unknown counts: only a rate is known, or nothing."""

    verdict: Verdict | None = None
    passed: int | None = None
    judged: int | None = None


def read_grading(document: Document, source: str) -> Grading:
    """Read the list; without a list the counts, or the rate alone. `reward`: the share that passed. `success`: all passed;
    unknown where an expectation was not judged and no other failed."""
    checks, qualities = tuple(_iterate_checks(document)), tuple(_iterate_qualities(document))
    counts, rate = _read_counts(document), _read_rate(document)
    if checks:
        passed, failed = (
            sum(check.status is status for check in checks) for status in (CheckStatus.PASSED, CheckStatus.FAILED)
        )
        judged = passed + failed
        if counts not in (None, (passed, judged), (passed, len(checks))):
            document.report("summary", f"{passed} of {judged} passed, as listed", f"found {counts}; the list counts")
        if not judged:
            return Grading()
        success = False if failed else True if judged == len(checks) else None
        return Grading(Verdict(source, success, passed / judged, checks=checks, dimensions=qualities), passed, judged)
    empty = next((key for key in LISTS if document.raw.get(key) == []), "")
    if empty and (counts[0] == 0 if counts else rate == 0.0):
        document.report(empty, "what the grader found", "nothing, and none that passed: no verdict, not a failure")
        return Grading()
    if counts is not None:
        passed, total = counts
        return Grading(Verdict(source, passed == total, passed / total, dimensions=qualities), passed, total)
    return Grading(None if rate is None else Verdict(source, rate >= 1.0, rate, dimensions=qualities))


def find_list(document: Document) -> str:
    """Return the key of the list with what was judged; empty if there is none. Lists of plain texts are questions.

    Graders are models and name it as they like: any list counts whose items all have a text and an answer.
    """
    for key in LISTS:
        items = document.raw.get(key)
        if isinstance(items, list) and any(isinstance(item, dict) and _find(item, _ANSWERS) for item in items):
            return key
    return next((key for key, value in document.raw.items() if _is_judged(value)), "")


def _is_judged(value: object) -> bool:
    items = value if isinstance(value, list) else []
    return bool(items) and all(
        isinstance(item, dict) and _find(item, _TEXTS) and isinstance(item.get(_find(item, _ANSWERS)), bool)
        for item in items
    )


def _find(raw: object, names: tuple[str, ...]) -> str:
    return next((name for name in names if isinstance(raw, dict) and name in raw), "")


def _iterate_checks(document: Document) -> Iterator[Check]:
    if not (key := find_list(document)):
        return
    for item in document.objects(key):
        answer = item.raw.get(_find(item.raw, _ANSWERS))
        status = {True: CheckStatus.PASSED, False: CheckStatus.FAILED}.get(answer) if isinstance(answer, bool) else None
        if status is None:
            item.report("passed", "true or false", f"{render_found(answer)}: not judged")
        text, reason = (
            next((value for name in names if isinstance(value := item.raw.get(name), str) and value), "")
            for names in (_TEXTS, _REASONS)
        )
        message = clean(reason)[:MAX_TEXT] + (" (uncertain)" if item.raw.get("uncertain") is True else "")
        name = clean(text)[:MAX_TEXT] or item.place.rpartition(".")[2]
        if len(name) > MAX_NAME:  # a record's check has a shorter one: the whole text is in its message
            message = f"{name}\n\n{message}"
        yield Check(CheckGroup.TEST, name, status or CheckStatus.ERROR, message)


def _parts(document: Document) -> tuple[Document, ...]:
    """Return where the sums may be: in the object itself, its summary or its result."""
    nested = (key for key in ("summary", "result") if isinstance(document.raw.get(key), dict))
    return document, *(document.object(key) for key in nested)


def _read_counts(document: Document) -> tuple[int, int] | None:
    """Return (passed, total) as the file has them; None if it does not, or if they cannot be right."""
    for part in _parts(document):
        passed, total = _find(part.raw, _PASSED), _find(part.raw, _TOTAL)
        if not passed or not total or isinstance(part.raw[passed], bool):  # `passed: true` is an answer, not a count
            continue
        done, of = part.count(passed), part.count(total)
        if done is not None and of and done <= of:
            return done, of
        if done is not None and of is not None and done > of:
            part.report(passed, f"at most {of}, the total", f"found {done}; not taken")
    return None


def _read_rate(document: Document) -> float | None:
    """Return a share from 0 to 1. "60%" and 60 are the same as 0.6."""
    for part in _parts(document):
        written = part.raw.get("pass_rate")
        percent = _PERCENT.fullmatch(written) if isinstance(written, str) else None
        rate = float(percent[1]) if percent else part.amount("pass_rate")
        if percent or (rate or 0.0) > 1.0:
            rate = rate / 100 if rate is not None and rate <= 100.0 else None
            if rate is None:
                part.report("pass_rate", "a share from 0 to 1, or percent", f"{render_found(written)}; not taken")
        if rate is not None:
            return rate
    return None


def _iterate_qualities(document: Document) -> Iterator[Dimension]:
    raw = document.raw.get("quality")
    for name in raw if isinstance(raw, dict) else ():
        score = document.object("quality").amount(name)
        if score is not None and score <= _QUALITY_MAX:
            yield Dimension(clean(name)[:200], score, _QUALITY_MAX)
