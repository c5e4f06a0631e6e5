"""Reading what verifiers write: bytes in, values out. Used after a run and by importers alike.

Formats: Harbor's reward.txt and reward.json, CTRF (ctrf.json, common test report format), and SkillEvolBench's
outcome_report.json, process_report.json (sections of results) and score_report.json (weighted dimensions).

The reward decides and is read strictly: `read_reward` raises ReportProblem. Every other report is a side report. A
problem in one is added to `problems` (file, place in it, what was expected), the rest of it is read, and the reward
counts. Real verifiers differ: `detail` is anything a check returned, a newer score report has no total, an older one no
ratios.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from runner.base.encoding import is_finite
from runner.base.text import clean, cut, storable
from runner.base.types import Check, CheckGroup, CheckStatus, Dimension, JsonValue

MAX_REPORT_BYTES = 32 * 1024 * 1024
MAX_CHECKS = 10_000
MAX_NAME_CHARS = 500
MAX_MESSAGE_CHARS = 20_000
MAX_PROBLEMS = 50  # of one verdict; the rest is counted

REWARDS = ("reward.txt", "reward.json")
SECTIONS = {
    "outcome_report.json": (CheckGroup.PUBLIC, CheckGroup.HIDDEN),
    "process_report.json": (CheckGroup.PROCESS, CheckGroup.PROCESS),
}
SCORE, CTRF = "score_report.json", "ctrf.json"
SIDE_REPORTS = (*SECTIONS, SCORE, CTRF)

_CTRF_STATUS = {
    "passed": CheckStatus.PASSED,
    "failed": CheckStatus.FAILED,
    "skipped": CheckStatus.SKIPPED,
    "pending": CheckStatus.SKIPPED,
    "other": CheckStatus.ERROR,
}
_MILLISECONDS_SINCE_1973 = 1e11  # a time above it cannot be one in seconds


class ReportProblem(ValueError):
    """A problem in a report. `place` is a JSON path such as "results.tests[3].status"."""

    def __init__(self, path: str, place: str, expected: str, message: str) -> None:
        super().__init__(f"{path}: {place}: {message} (expected {expected})")
        self.path, self.place, self.expected, self.message = path, place, expected, message


@dataclass(slots=True)
class SideReports:
    """The reports other than the reward. `overall` is in 0..1, None if no report has it."""

    checks: list[Check] = field(default_factory=list)
    overall: float | None = None
    dimensions: list[Dimension] = field(default_factory=list)
    problems: list[ReportProblem] = field(default_factory=list)

    def share(self, *groups: CheckGroup) -> float | None:
        """Passed checks of these groups over those that ran; None if none ran."""
        ran = [check for check in self.checks if check.group in groups and check.status is not CheckStatus.SKIPPED]
        return sum(check.status is CheckStatus.PASSED for check in ran) / len(ran) if ran else None

    @property
    def outcome(self) -> float | None:
        return self.share(CheckGroup.PUBLIC, CheckGroup.HIDDEN, CheckGroup.TEST)

    @property
    def process(self) -> float | None:
        return self.share(CheckGroup.PROCESS)


def read_reward(content: bytes) -> float:
    """Read the one finite number in reward.txt. ReportProblem for anything else."""
    text = _decode(content, "reward.txt").strip()
    try:
        value = float(text)
    except ValueError:
        raise ReportProblem("reward.txt", "whole file", "one number", f"found {_shorten(text)}") from None
    if not math.isfinite(value):
        raise ReportProblem("reward.txt", "whole file", "a finite number", f"found {value}")
    return value


def read_rewards(content: bytes, problems: list[ReportProblem]) -> dict[str, float | None]:
    """Name -> number of reward.json. Booleans count as 1 and 0, null and anything else as unknown, the latter noted."""
    report = _report(content, "reward.json", problems)
    return {name[:MAX_NAME_CHARS]: report.number(name, flags=True) for name in report.values}


def read_side_reports(files: Mapping[str, bytes]) -> SideReports:
    """Read everything but the reward, from files by name. CTRF counts only without sections: they have its checks."""
    read = SideReports()
    for name, (public, hidden) in SECTIONS.items():
        if name in files:
            read.checks += read_sections(files[name], read.problems, name, public=public, hidden=hidden)
    if SCORE in files:
        read.overall, read.dimensions = read_score(files[SCORE], read.problems)
    if not read.checks and CTRF in files:
        read.checks = read_ctrf(files[CTRF], read.problems)
    return read


def read_ctrf(content: bytes, problems: list[ReportProblem]) -> list[Check]:
    """Read results.tests of a CTRF report.

    CTRF says milliseconds; pytest's plugin, which nearly every task uses, writes seconds. The times of the whole run,
    or else the name of the tool, show which it is.
    """
    results = _report(content, CTRF, problems).object("results", needed=True)
    seconds = 1.0 if _is_in_seconds(results) else 1 / 1000
    return [_ctrf_check(test, ordinal, seconds) for ordinal, test in enumerate(results.entries("tests"), start=1)]


def read_sections(
    content: bytes, problems: list[ReportProblem], path: str, *, public: CheckGroup, hidden: CheckGroup
) -> list[Check]:
    """Read {task_id, public: {section, results, passed, total}, hidden: {...}}. `public`, `hidden`: check groups."""
    report = _report(content, path, problems)
    if report.values and "public" not in report.values and "hidden" not in report.values:
        report.tell("", "a section 'public' or 'hidden'", f"found keys {_shorten(', '.join(sorted(report.values)))}")
    return [*_section(report, "public", public), *_section(report, "hidden", hidden)]


def read_score(content: bytes, problems: list[ReportProblem]) -> tuple[float | None, list[Dimension]]:
    """Read {total_score, max_score, dimensions: [{name, weight, ratio, score}]} as (total of maximum, dimensions).

    Shares are in 0..1. A dimension's score is its ratio, of 1. Newer verifiers leave the total out: None.
    """
    report = _report(content, SCORE, problems)
    if report.values and "total_score" not in report.values and "dimensions" not in report.values:
        report.tell("", "total_score or dimensions", f"found keys {_shorten(', '.join(sorted(report.values)))}")
    total, most = report.number("total_score"), report.number("max_score")
    overall = min(1.0, max(0.0, total / most)) if total is not None and most is not None and most > 0 else None
    entries = enumerate(report.entries("dimensions"), start=1) if "dimensions" in report.values else ()
    found = (_dimension(entry, ordinal) for ordinal, entry in entries)
    return overall, [dimension for dimension in found if dimension is not None]


# --- parts of reports -------------------------------------------------------------------------------------------


def _is_in_seconds(results: _ScoreReport) -> bool:
    began = results.object("summary").values.get("start")
    if isinstance(began, int | float) and not isinstance(began, bool) and began > 0:
        return began < _MILLISECONDS_SINCE_1973
    return results.object("tool").values.get("name") == "pytest"


def _ctrf_check(test: _ScoreReport, ordinal: int, seconds: float) -> Check:
    stated = test.values.get("status")
    status = _CTRF_STATUS.get(stated.lower()) if isinstance(stated, str) else None
    if status is None:
        test.tell("status", " or ".join(_CTRF_STATUS), f"found {_shorten(stated)}")
    duration = test.number("duration")
    return Check(
        CheckGroup.TEST,
        test.name(ordinal),
        status or CheckStatus.ERROR,
        _message(test.text("message"), test.text("trace"), between="\n\n"),
        None if duration is None or duration < 0 else duration * seconds,
    )


def _section(report: _ScoreReport, name: str, group: CheckGroup) -> list[Check]:
    if report.values.get(name) is None:
        return []
    section = report.object(name)
    entries = enumerate(section.entries("results"), start=1)
    checks = [_section_check(entry, ordinal, group) for ordinal, entry in entries]
    passed = sum(check.status is CheckStatus.PASSED for check in checks)
    for key, count in (("total", len(checks)), ("passed", passed)):
        claimed = section.values.get(key)
        if claimed is not None and claimed != count:
            section.tell(key, f"{count}, as its results have it", f"found {_shorten(claimed)}")
    return checks


def _section_check(entry: _ScoreReport, ordinal: int, group: CheckGroup) -> Check:
    passed = entry.values.get("passed")
    if passed in (0, 1):
        status = CheckStatus.PASSED if passed else CheckStatus.FAILED
    else:
        entry.tell("passed", "true or false", f"found {_shorten(passed)}")
        status = CheckStatus.ERROR
    return Check(group, entry.name(ordinal), status, _message(entry.text("error"), entry.text("detail")))


def _dimension(entry: _ScoreReport, ordinal: int) -> Dimension | None:
    """None, with a note, if nothing says how much of it was reached. Missing is not zero."""
    ratio, weight = entry.number("ratio"), entry.number("weight")
    if ratio is None:
        passed, matched = entry.number("tests_passed"), entry.number("tests_matched")
        ratio = None if passed is None or not matched else passed / matched
    if ratio is None or not 0 <= ratio <= 1:
        entry.tell("ratio", "a number from 0 to 1", f"found {_shorten(entry.values.get('ratio'))}; it is left out")
        return None
    if weight is not None and weight < 0:
        entry.tell("weight", "a number of at least 0", f"found {weight:g}")
        weight = None
    return Dimension(entry.name(ordinal), ratio, 1.0, 1.0 if weight is None else weight, _message(entry.text("reason")))


# --- values -----------------------------------------------------------------------------------------------------


class _ScoreReport:
    """A JSON object in a report, with the list of problems."""

    def __init__(self, path: str, values: JsonValue, problems: list[ReportProblem], place: str = "") -> None:
        self.path, self.problems, self.place = path, problems, place
        self.values: Mapping[str, Any] = values if isinstance(values, dict) else {}
        if values is not None and not isinstance(values, dict):
            self.tell("", "a JSON object", f"found {_shorten(values)}")

    def tell(self, key: str, expected: str, message: str) -> None:
        if len(self.problems) <= MAX_PROBLEMS:
            problem = (self.path, self._at(key) or "whole file", expected, message)
            more = (self.path, "after these", "fewer problems", "more were found and are not listed")
            self.problems.append(ReportProblem(*(problem if len(self.problems) < MAX_PROBLEMS else more)))

    def object(self, key: str, *, needed: bool = False) -> _ScoreReport:
        value = self.values.get(key)
        if value is None and needed and self.values:
            self.tell(key, "a JSON object", "there is none")
        elif value == {} and needed:
            self.tell(key, "a JSON object with fields", "found {}")
        return _ScoreReport(self.path, value, self.problems, self._at(key))

    def entries(self, key: str) -> Iterator[_ScoreReport]:
        """The objects of the list below `key`. Anything else in it is noted and skipped."""
        value = self.values.get(key)
        if not isinstance(value, list):
            if self.values:
                self.tell(key, "a JSON array", f"found {_shorten(value)}")
            return
        if len(value) > MAX_CHECKS:
            self.tell(key, f"at most {MAX_CHECKS:,} entries", f"found {len(value):,}; the rest is left out")
        for index, entry in enumerate(value[:MAX_CHECKS]):
            if isinstance(entry, dict):
                yield _ScoreReport(self.path, entry, self.problems, f"{self._at(key)}[{index}]")
            else:
                self.tell(f"{key}[{index}]", "a JSON object", f"found {_shorten(entry)}")

    def number(self, key: str, *, flags: bool = False) -> float | None:
        """A finite number, or None. Anything else is noted. `flags`: true is 1 and false is 0."""
        value = self.values.get(key)
        if value is None or (isinstance(value, bool) and flags):
            return None if value is None else float(value)
        if isinstance(value, int | float) and not isinstance(value, bool) and is_finite(value):
            return float(value)
        self.tell(key, "a finite number", f"found {_shorten(value)}")
        return None

    def name(self, ordinal: int) -> str:
        value = self.values.get("name")
        if isinstance(value, str) and value.strip():
            return storable(value)[:MAX_NAME_CHARS]
        self.tell("name", "a name", f"found {_shorten(value)}")
        return f"check {ordinal}"

    def text(self, key: str) -> str:
        """Return the value as text. A check returns what it likes; true, false and null have no text."""
        value = self.values.get(key)
        if value is None or isinstance(value, bool):
            return ""
        return clean(value if isinstance(value, str) else _as_json(value))

    def _at(self, key: str) -> str:
        key = storable(key)[:MAX_NAME_CHARS]
        return f"{self.place}.{key}" if self.place and key else self.place or key


def _report(content: bytes, path: str, problems: list[ReportProblem]) -> _ScoreReport:
    """Read the JSON object in a file. Empty, with a note, if there is none."""
    try:
        value = _json(content, path)
    except ReportProblem as problem:
        problems.append(problem)
        return _ScoreReport(path, None, problems)
    if value is None or value == {}:
        problems.append(ReportProblem(path, "whole file", "a JSON object with fields", f"found {json.dumps(value)}"))
    return _ScoreReport(path, value, problems)


def _json(content: bytes, path: str) -> Any:
    """Read the value in a file. NaN and infinities, which Python writes, become their names, not numbers."""
    text = _decode(content, path)
    try:
        return json.loads(text, parse_constant=str)
    except json.JSONDecodeError as error:
        raise ReportProblem(path, f"line {error.lineno}, column {error.colno}", "JSON", error.msg) from error
    except RecursionError as error:
        raise ReportProblem(path, "whole file", "JSON of ordinary depth", "nested too deeply") from error
    except ValueError as error:  # a number of thousands of digits
        raise ReportProblem(path, "whole file", "JSON with numbers of ordinary size", str(error)[:200]) from error


def _decode(content: bytes, path: str) -> str:
    if len(content) > MAX_REPORT_BYTES:
        raise ReportProblem(path, "whole file", f"at most {MAX_REPORT_BYTES:,} bytes", f"found {len(content):,}")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ReportProblem(path, f"byte {error.start}", "UTF-8", error.reason) from error


def _as_json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (RecursionError, ValueError):
        return _shorten(value)


def _message(*parts: str, between: str = "\n") -> str:
    """Join the non-empty parts that do not repeat another, one below the other."""
    return cut(between.join(dict.fromkeys(part for part in parts if part.strip())), MAX_MESSAGE_CHARS)


def _shorten(value: object) -> str:
    if isinstance(value, int) and value.bit_length() > 1_000:
        return "a huge number"
    text = storable(repr(value)) if isinstance(value, str | int | float | bool | None) else type(value).__name__
    return text if len(text) <= 80 else text[:80] + "..."
