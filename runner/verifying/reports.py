"""Reading what verifiers write: bytes in, values out. Used after a run and by importers alike.

Formats: Harbor's reward.txt and reward.json, CTRF (ctrf.json, common test report format), and SkillEvolBench's
outcome_report.json, process_report.json (sections of results) and score_report.json (weighted dimensions). What is
not as its format says raises ReportProblem with the path, the place in it and what was expected; sizes are capped.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runner.types import Check, CheckGroup, CheckStatus, Dimension

MAX_REPORT_BYTES = 8 * 1024 * 1024
MAX_CHECKS = 5_000
MAX_NAME_CHARS = 500
MAX_MESSAGE_CHARS = 20_000

_CTRF_STATUS = {
    "passed": CheckStatus.PASSED,
    "failed": CheckStatus.FAILED,
    "skipped": CheckStatus.SKIPPED,
    "pending": CheckStatus.SKIPPED,
    "other": CheckStatus.ERROR,
}


class ReportProblem(ValueError):
    """A report that is not as its format says. `place` is a JSON path such as "results.tests[3].status"."""

    def __init__(self, path: str, place: str, expected: str, message: str) -> None:
        super().__init__(f"{path}: {place}: {message} (expected {expected})")
        self.path, self.place, self.expected, self.message = path, place, expected, message


@dataclass(frozen=True, slots=True)
class ScoreReport:
    """score and max_score are points; overall is score / max_score, in 0..1, None where max_score is zero."""

    score: float
    max_score: float
    overall: float | None
    dimensions: tuple[Dimension, ...]


@dataclass(frozen=True, slots=True)
class SectionReport:
    """One of SkillEvolBench's two reports. Groups the source left out are empty."""

    public: tuple[Check, ...]
    hidden: tuple[Check, ...]


def read_reward_txt(content: bytes, path: str = "reward.txt") -> float:
    """The one number in the file."""
    text = _decoded(content, path).strip()
    try:
        value = float(text)
    except ValueError:
        raise ReportProblem(path, "whole file", "one number", f"found {_shown(text)}") from None
    return _finite(value, path, "whole file")


def read_reward_json(content: bytes, path: str = "reward.json") -> dict[str, float]:
    """Name -> number. Booleans count as 1 and 0; a value that is null is unknown and left out."""
    rewards = {}
    for name, value in _object(_json(content, path), path, "whole file").items():
        place = name[:MAX_NAME_CHARS]
        if value is not None:
            rewards[place] = float(value) if isinstance(value, bool) else _number(value, path, place)
    return rewards


def read_ctrf(content: bytes, path: str = "ctrf.json") -> tuple[Check, ...]:
    """results.tests of a CTRF report; durations there are milliseconds."""
    results = _object(_object(_json(content, path), path, "whole file").get("results"), path, "results")
    tests = _capped_list(results.get("tests"), path, "results.tests")
    return tuple(_ctrf_check(test, path, f"results.tests[{index}]") for index, test in enumerate(tests))


def read_section_report(content: bytes, path: str, *, public: CheckGroup, hidden: CheckGroup) -> SectionReport:
    """{task_id, public: {section, results, passed, total}, hidden: {...}}. The groups say what the checks count as."""
    report = _object(_json(content, path), path, "whole file")
    if "public" not in report and "hidden" not in report:
        raise ReportProblem(
            path, "whole file", "a section 'public' or 'hidden'", f"found keys {_shown(sorted(report))}"
        )
    return SectionReport(
        public=_section(report.get("public"), path, "public", public),
        hidden=_section(report.get("hidden"), path, "hidden", hidden),
    )


def read_score_report(content: bytes, path: str = "score_report.json") -> ScoreReport:
    """{total_score, max_score, dimensions: [{name, weight, ratio, score}]}. A dimension's score is its ratio, of 1."""
    report = _object(_json(content, path), path, "whole file")
    score = _number(report.get("total_score"), path, "total_score")
    max_score = _number(report.get("max_score"), path, "max_score")
    dimensions = _capped_list(report.get("dimensions", []), path, "dimensions")
    return ScoreReport(
        score=score,
        max_score=max_score,
        overall=min(1.0, max(0.0, score / max_score)) if max_score > 0 else None,
        dimensions=tuple(_dimension(entry, path, f"dimensions[{i}]") for i, entry in enumerate(dimensions)),
    )


def _ctrf_check(test: Any, path: str, place: str) -> Check:
    entry = _object(test, path, place)
    status = entry.get("status")
    if not isinstance(status, str) or status not in _CTRF_STATUS:
        raise ReportProblem(path, f"{place}.status", " or ".join(_CTRF_STATUS), f"found {_shown(status)}")
    parts = [_text(entry, key, path, place) for key in ("message", "trace")]
    duration = entry.get("duration")
    seconds = None if duration is None else _number(duration, path, f"{place}.duration") / 1000
    return Check(CheckGroup.TEST, _name(entry, path, place), _CTRF_STATUS[status], _message(parts), seconds)


def _section(value: Any, path: str, place: str, group: CheckGroup) -> tuple[Check, ...]:
    if value is None:
        return ()
    section = _object(value, path, place)
    results = _capped_list(section.get("results"), path, f"{place}.results")
    checks = tuple(_section_check(entry, path, f"{place}.results[{i}]", group) for i, entry in enumerate(results))
    for key, count in (("total", len(checks)), ("passed", sum(check.status is CheckStatus.PASSED for check in checks))):
        claimed = section.get(key)
        if claimed is not None and claimed != count:
            raise ReportProblem(path, f"{place}.{key}", f"{count}, as its results have it", f"found {_shown(claimed)}")
    return checks


def _section_check(value: Any, path: str, place: str, group: CheckGroup) -> Check:
    entry = _object(value, path, place)
    passed = entry.get("passed")
    if not isinstance(passed, bool):
        raise ReportProblem(path, f"{place}.passed", "true or false", f"found {_shown(passed)}")
    parts = [_text(entry, key, path, place) for key in ("error", "detail")]
    status = CheckStatus.PASSED if passed else CheckStatus.FAILED
    return Check(group, _name(entry, path, place), status, _message(parts))


def _dimension(value: Any, path: str, place: str) -> Dimension:
    entry = _object(value, path, place)
    ratio = _number(entry.get("ratio"), path, f"{place}.ratio")
    weight = _number(entry.get("weight"), path, f"{place}.weight")
    if not 0 <= ratio <= 1 or weight < 0:
        raise ReportProblem(path, place, "ratio in 0..1 and weight of at least 0", f"found {ratio:g} and {weight:g}")
    return Dimension(_name(entry, path, place), ratio, 1.0, weight, _message([_text(entry, "reason", path, place)]))


# --- values -----------------------------------------------------------------------------------------------------


def _json(content: bytes, path: str) -> Any:
    text = _decoded(content, path)
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise ReportProblem(path, place, "JSON", error.msg) from error
    except RecursionError as error:
        raise ReportProblem(path, "whole file", "JSON of ordinary depth", "nested too deeply") from error
    except ValueError as error:
        raise ReportProblem(path, "whole file", "JSON with finite numbers", str(error)[:200]) from error


def _refuse_constant(name: str) -> None:
    raise ValueError(f"found {name}")


def _decoded(content: bytes, path: str) -> str:
    if len(content) > MAX_REPORT_BYTES:
        raise ReportProblem(path, "whole file", f"at most {MAX_REPORT_BYTES:,} bytes", f"found {len(content):,}")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ReportProblem(path, f"byte {error.start}", "UTF-8", error.reason) from error


def _object(value: Any, path: str, place: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ReportProblem(path, place, "a JSON object", f"found {_shown(value)}")
    return value


def _capped_list(value: Any, path: str, place: str) -> Sequence[Any]:
    if not isinstance(value, list):
        raise ReportProblem(path, place, "a JSON array", f"found {_shown(value)}")
    if len(value) > MAX_CHECKS:
        raise ReportProblem(path, place, f"at most {MAX_CHECKS:,} entries", f"found {len(value):,}")
    return value


def _number(value: Any, path: str, place: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ReportProblem(path, place, "a number", f"found {_shown(value)}")
    try:
        return _finite(float(value), path, place)
    except OverflowError:
        raise ReportProblem(path, place, "a finite number", "found an integer of too many digits") from None


def _finite(value: float, path: str, place: str) -> float:
    if not math.isfinite(value):
        raise ReportProblem(path, place, "a finite number", f"found {value}")
    return value


def _name(entry: Mapping[str, Any], path: str, place: str) -> str:
    name = _text(entry, "name", path, place)
    if not name:
        raise ReportProblem(path, f"{place}.name", "a name", f"found {_shown(entry.get('name'))}")
    return name[:MAX_NAME_CHARS]


def _text(entry: Mapping[str, Any], key: str, path: str, place: str) -> str:
    value = entry.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ReportProblem(path, f"{place}.{key}", "text", f"found {_shown(value)}")
    return _storable(value)


def _storable(text: str) -> str:
    """Without NUL and half surrogate pairs, which JSON can spell and no database or file can hold."""
    return text.replace("\0", "\u2400").encode("utf-8", "replace").decode("utf-8")


def _message(parts: Sequence[str]) -> str:
    """The parts that say something and do not repeat another, one below the other."""
    text = "\n".join(dict.fromkeys(part.strip() for part in parts if part.strip()))
    if len(text) <= MAX_MESSAGE_CHARS:
        return text
    half = MAX_MESSAGE_CHARS // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half:,} characters left out ...]\n{text[-half:]}"


def _shown(value: Any) -> str:
    text = _storable(repr(value)) if isinstance(value, str | int | float | bool | None) else type(value).__name__
    return text if len(text) <= 80 else text[:80] + "..."
