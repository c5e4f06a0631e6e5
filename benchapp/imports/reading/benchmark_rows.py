"""Read the verdicts of graders that list what they expected, and the rows of a benchmark.json in any of its shapes: one
for each eval, condition and run.

Known: `runs[]` with a configuration; a condition with `evals[]`; evals that hold their conditions; `configurations[]`;
results by the eval's id; `per_case[]` without a condition.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchapp.imports.problems import render_found
from benchapp.imports.reading.documents import MAX_NUMBER, Document
from runner.base.text import clean
from runner.base.types import Check, CheckGroup, CheckStatus, Dimension, Verdict, is_success

LISTS = ("expectations", "assertion_results", "assertion_details", "assertions")
_ANSWERS = ("passed", "pass")
_TEXTS = ("text", "expectation", "assertion", "name", "description")
_REASONS = ("evidence", "reason", "message")
_PASSED = ("passed", "passes", "pass_count", "assertions_passed", "total_passed")
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
    """Read the list; without a list the counts, or the rate alone. `reward`: the share that passed. `success`: all
    passed; unknown where an expectation was not judged and no other failed."""
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
    return Grading(None if rate is None else Verdict(source, is_success(rate), rate, dimensions=qualities))


def find_list(document: Document) -> str:
    """Return the key of the list, or map, with what was judged; empty if there is none. Lists of plain texts are
    questions.

    Graders are models and name it as they like: any list counts whose items all have a text and an answer.
    """
    for key in LISTS:
        items = document.raw.get(key)
        if isinstance(items, list) and any(isinstance(item, dict) and _find(item, _ANSWERS) for item in items):
            return key
        if isinstance(items, dict) and items and all(isinstance(item, bool) for item in items.values()):
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
    for item in _list_items(document, key):
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


def _list_items(document: Document, key: str) -> Iterable[Document]:
    """Return what was judged. The names in a map are the texts of its answers."""
    if not isinstance(items := document.raw[key], dict):
        return document.objects(key)
    found = ({_TEXTS[0]: text, _ANSWERS[0]: answer} for text, answer in items.items())
    return [Document(document.root, document.path, raw, document.at(key)) for raw in found]


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


MAX_NESTING = 6
TOLERANCE = 0.01  # benchmarks round to two digits
_MEANS = ("pass_rate", "mean_pass_rate", "overall_pass_rate", "avg_pass_rate")
CONDITIONS = {  # as skill-creator's folders and files name them
    "with_skill": "with-skills",
    "new_skill": "with-skills",
    "without_skill": "no-skill",
    "no_skill": "no-skill",
    "old_skill": "old-skill",
}
_ALIKE = re.compile(r"(?:^|_)(?:with|without|no|old|new)_skills?(?:$|[^a-z])|^baseline$")  # claude_with_skill
_OF_EVAL = re.compile(r"(eval[-_ ]?\d.*?)[-_ ]((?:with|without|no|old|new)[-_ ]skills?)", re.IGNORECASE)
_GROUPS = frozenset(
    "results runs evals eval_results cases per_case per_eval test_cases configurations configs conditions".split()
)
_SUMS = frozenset(
    "run_summary summary delta metadata notes result scores quality aggregate overall timing dimensions".split()
)
_RESULTS = ("pass_rate", "pass_count", "passed", "assertions_passed", "result", *LISTS)


@dataclass(frozen=True, slots=True)
class BenchmarkRow:
    """`condition` as written; empty if the file has none. `ident` and `name`: of the eval; one of them is not empty."""

    document: Document
    condition: str
    ident: str
    name: str
    number: int | None  # of the run

    @property
    def result(self) -> Document:
        """The object with its time and tokens."""
        return self.document.object("result") or self.document


def plain(condition: str) -> str:
    """Return a condition's name in one spelling."""
    return condition.strip().lower().replace("-", "_").replace(" ", "_")


def is_condition(name: str) -> bool:
    return plain(name) in CONDITIONS or _ALIKE.search(plain(name)) is not None


def name_condition(condition: str) -> str:
    """Return our word for a condition, or its own. A benchmark without conditions is of the skill."""
    return CONDITIONS.get(plain(condition), clean(condition).strip()[:60]) or "with-skills"


def read_ident(document: Document, *keys: str) -> str:
    """Return the first of these fields that is a text or a whole number, as text."""
    for key in keys:
        value = document.raw.get(key)
        if isinstance(value, str) and value.strip():
            return clean(value).strip()[:200]
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MAX_NUMBER:
            return str(value)
    return ""


def list_rows(benchmark: Document) -> list[BenchmarkRow]:
    """Return its rows, without the sums of results whose lists it has as well."""
    rows = [
        (row, (row.condition, row.ident, row.name), bool(find_list(row.document))) for row in iterate_rows(benchmark)
    ]
    listed = {key for row, key, has_list in rows if has_list and row.number is None}
    return [row for row, key, has_list in rows if has_list or row.number is not None or key not in listed]


def iterate_rows(
    document: Document, condition: str = "", ident: str = "", name: str = "", depth: int = 0, *, is_side: bool = False
) -> Iterator[BenchmarkRow]:
    """Yield the rows below the document. `is_side`: it is what one condition made of an eval, even without a result."""
    condition = read_ident(document, "configuration", "config", "condition", "mode") or condition
    if depth:  # the benchmark's own name is not an eval's
        label = read_ident(document, "eval_name", "name")
        if is_condition(label) and not ident and not name:  # an item of configurations[]
            condition, label = condition or label, ""
        ident, name = read_ident(document, "eval_id", "id", "case_id") or ident, label or name
    inner = [
        key
        for key, value in document.raw.items()
        if isinstance(value, dict | list)
        and key not in {*_SUMS, *LISTS}
        and not (key.startswith("by_") and "runs" in document.raw)  # the same results in another order
    ]
    holds_rows = any(key in _GROUPS or is_condition(key) for key in inner)
    if not holds_rows and any(key in document.raw for key in _RESULTS) or is_side and (ident or name):
        if ident or name:
            named = next((key for key in ("run_number", "run_index", "run") if key in document.raw), "")
            number = document.count(named) if named else None
            yield BenchmarkRow(document, condition, ident, name, number)
        elif any(key in document.raw for key in LISTS):
            document.report("eval_id", "an eval's id or name", "none; its result is left out")
        return
    if depth == MAX_NESTING:
        return
    for key, value in document.raw.items():
        if (both := _OF_EVAL.fullmatch(key)) and isinstance(value, dict):  # an eval and its condition in one name
            yield from iterate_rows(document.object(key), both[2], clean(both[1])[:200], name, depth + 1)
        elif is_condition(key) and _is_judged(value):  # the list alone
            if ident or name:
                yield BenchmarkRow(
                    Document(document.root, document.path, {LISTS[0]: value}, document.at(key)), key, ident, name, None
                )
        elif plain(key) in CONDITIONS and value is not None or is_condition(key) and isinstance(value, dict | list):
            for part in document.objects(key) if isinstance(value, list) else (document.object(key),):
                yield from iterate_rows(part, key, ident, name, depth + 1, is_side=bool(part))
        elif key in inner and isinstance(value, list):
            for item in document.objects(key) if any(isinstance(item, dict) for item in value) else ():
                yield from iterate_rows(item, condition, ident, name, depth + 1)
        elif key in inner:
            below = ident if key in _GROUPS or ident or depth == 0 else clean(key)[:200]
            yield from iterate_rows(document.object(key), condition, below, name, depth + 1)


def list_conflicts(benchmark: Document, gradings: Mapping[str, Sequence[Grading]]) -> list[str]:
    """Say where the benchmark's own means are not those of the results, by our word for each condition."""
    means, conflicts = dict[str, float](), list[str]()
    sums = benchmark.object("run_summary") if isinstance(benchmark.raw.get("run_summary"), dict) else None
    for name, found in gradings.items():
        rewards = [each.verdict.reward for each in found if each.verdict and each.verdict.reward is not None]
        if not rewards:
            continue
        mean = means[name] = sum(rewards) / len(rewards)
        judged = sum(each.judged or 0 for each in found)
        pooled = sum(each.passed or 0 for each in found) / judged if judged else mean
        written = [key for key in (sums or benchmark).raw if name_condition(key) == name]
        part = (sums or benchmark).object(written[0]) if written else benchmark if len(gradings) == 1 else None
        key = next((key for key in _MEANS if key in part.raw), "") if part else ""
        if not part or not key:
            continue
        theirs = part.object(key).number("mean") if isinstance(part.raw[key], dict) else part.number(key)
        if theirs is not None and min(abs(theirs - mean), abs(theirs - pooled)) > TOLERANCE:
            conflicts.append(f"its mean of {name} is {theirs:.2f}, not {mean:.2f}")
    base = next((name for name in ("no-skill", "old-skill") if name in means), "")
    delta = _read_delta(sums) if sums and base and "with-skills" in means else 0.0
    if delta * (means.get("with-skills", 0.0) - means.get(base, 0.0)) < 0:
        conflicts.append(f"its delta {delta:+.2f} is reversed")
    return conflicts


def _read_delta(sums: Document) -> float:
    """Return the difference in pass rates, 0 if unknown. The official script writes it as a text with a sign."""
    delta = sums.raw.get("delta")
    value = delta.get("pass_rate") if isinstance(delta, dict) else None
    try:
        return float(value) if isinstance(value, str | int | float) and len(str(value)) < 40 else 0.0
    except ValueError:
        return 0.0
