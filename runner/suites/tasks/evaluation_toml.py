"""tests/evaluation.toml of a task folder: the format is in docs/reference/evaluation.md.

Everything is checked when the suite is read, before anything runs: an unknown field is a problem, a path must lead to
a file of the tests, and an expected output must pass when it is compared with itself. Fields are read by type; a wrong
value becomes a problem that names file and key.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path

from runner.base.errors import SuiteError
from runner.base.trees import check_relative
from runner.base.types import CheckGroup
from runner.evaluating.comparisons.comparison import Comparator, PrecheckFailed
from runner.evaluating.comparisons.pixels import Pixels
from runner.evaluating.comparisons.table import TABLE_FORMATS, TableComparator
from runner.evaluating.comparisons.text_comparison import Exact, TextComparator
from runner.evaluating.comparisons.values import JsonTree, Numeric, Tolerance
from runner.evaluating.declaration import (
    DEFAULT_ARTIFACT_SECONDS,
    DEFAULT_SECONDS,
    FORMATS,
    MAX_BYTES,
    Artifact,
    Between,
    Case,
    Content,
    Evaluation,
    Execution,
    JudgeQuestion,
    Precheck,
    schema_problem,
)
from runner.suites.documents import FieldTable, Findings, read_json, read_toml, shorten_suite_value

MAX_INLINE = 100_000  # characters of an expected output in the file itself
NAME = "evaluation.toml"
MAX_CASES = 500
MAX_SECONDS = 3_600.0
MAX_ARGUMENTS = 32_000  # characters of one case
GROUPS = {group.value: group for group in (CheckGroup.PUBLIC, CheckGroup.HIDDEN)}
DEFAULT_KIND = "text"


class Fields(FieldTable):
    """A table of the file. No field is ignored: `refuse_unknown` makes a problem of every field that was not read."""

    def refuse_unknown(self) -> None:
        known = ", ".join(sorted(self._asked))
        for name in self.list_unasked():
            self.findings.problem(self.source, self.at(name)[:200], f"one of {known}", "there is no such field")

    def list_of_fields(self, name: str, most: int) -> list[Fields]:
        entries = self.raw(name)
        if not isinstance(entries, list) or not entries or not all(isinstance(each, dict) for each in entries):
            self.problem(name, f"at least one [[{name}]]")
            return []
        if len(entries) > most:
            self.problem(name, f"at most {most:,}", f"found {len(entries):,}")
        return [
            Fields(each, self.source, self.findings, f"{self.at(name)}[{place}]")
            for place, each in enumerate(entries[:most])
        ]

    def choice(self, name: str, among: tuple[str, ...], default: str | None = None) -> str | None:
        value = self.raw(name)
        if value is None and default is not None:
            return default
        if isinstance(value, str) and value in among:
            return value
        self.problem(name, " or ".join(map(repr, among)))
        return None

    def whole(self, name: str, default: int, least: int, most: int) -> int:
        value = self.raw(name)
        if value is None:
            return default
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        self.problem(name, f"a whole number from {least:,} to {most:,}")
        return default

    def content(self, name: str, tests: Path, *, required: bool = False) -> Content | None:
        """`name` as a text in the file, or `name`_file as a path in the tests. None if both are missing."""
        text, file = self.raw(name), self.raw(f"{name}_file")
        if text is None and file is None:
            if required:
                self.problem(name, f"a text, or {name}_file with a file of the tests")
            return None
        if text is not None and file is not None:
            self.problem(name, f"{name} or {name}_file", "found both")
            return None
        if file is not None:
            path = self.test_file(f"{name}_file", file, tests)
            return None if path is None else Content(path=path)
        if isinstance(text, str) and len(text) <= MAX_INLINE and "\0" not in text:
            return Content(inline=text)
        self.problem(name, f"a text of at most {MAX_INLINE:,} characters")
        return None

    def test_file(self, name: str, value: object, tests: Path) -> str | None:
        """A path below the tests folder of a regular file small enough to compare."""
        try:
            path = str(check_relative(value)) if isinstance(value, str) else None
        except ValueError:
            path = None
        place = None if path is None else tests / path
        if place is None or any(each.is_symlink() for each in (place, *place.parents) if each.is_relative_to(tests)):
            self.problem(name, "the path of a plain file in the tests folder", f"found {shorten_suite_value(value)}")
            return None
        if not place.is_file():
            self.problem(
                name, "the path of a plain file in the tests folder", f"there is no {shorten_suite_value(value)}"
            )
            return None
        if place.stat().st_size > MAX_BYTES:
            self.problem(name, f"a file of at most {MAX_BYTES:,} bytes", f"it has {place.stat().st_size:,}")
            return None
        return path

    def path(self, name: str, *, required: bool = False) -> str | None:
        """A relative path in the workspace."""
        value = self.raw(name)
        if value is None and not required:
            return None
        if self._is_inside(value):
            return str(value)
        self.problem(name, "a relative path inside the workspace")
        return None

    def workspace_files(self, name: str, tests: Path) -> Mapping[str, str]:
        """Path in the workspace -> path in the tests."""
        found: dict[str, str] = {}
        for place, value in self.table(name).values.items():
            if not self._is_inside(place):
                self.findings.problem(
                    self.source,
                    self.at(name),
                    "relative paths inside the workspace",
                    f"found {shorten_suite_value(place)}",
                )
            elif (path := self.test_file(f"{name}.{place[:100]}", value, tests)) is not None:
                found[place] = path
        return found

    def range(self, name: str) -> tuple[float | None, float | None] | None:
        """[least, most]. A list of one number is a minimum."""
        value = self.raw(name)
        if value is None:
            return None
        if isinstance(value, list) and 1 <= len(value) <= 2 and all(map(_is_amount, value)):
            least, most = value[0], value[1] if len(value) > 1 else None
            if most is None or least <= most:
                return least, most
        self.problem(name, "[least, most] or [least], numbers of at least 0")
        return None

    def _is_inside(self, value: object) -> bool:
        try:
            return isinstance(value, str) and len(value) <= 500 and value.isprintable() and bool(check_relative(value))
        except ValueError:
            return False


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e15


def read_evaluation(tests: Path, findings: Findings) -> Evaluation | None:
    """Read tests/evaluation.toml. None if it is missing, or if its problems went to `findings`."""
    source = tests / NAME
    if not (source.is_file() or source.is_symlink()):
        return None
    before = len(findings.problems)
    with findings.keep_errors():
        whole = Fields(read_toml(source), source, findings)
        mode = whole.choice("mode", ("execution", "artifact"))
        evaluation = _execution(whole, tests) if mode == "execution" else _artifact(whole, tests) if mode else None
        if mode:
            whole.refuse_unknown()
        return evaluation if len(findings.problems) == before else None
    return None


def _execution(whole: Fields, tests: Path) -> Execution:
    command = whole.text("command", longest=4_000)
    seconds = whole.number("timeout_sec", DEFAULT_SECONDS, 0.1, MAX_SECONDS)
    precheck = read_precheck(whole.table("precheck"), tests)
    every = whole.table("compare") if "compare" in whole else None
    default = read_comparator(every, tests) if every else None
    entries = whole.list_of_fields("cases", MAX_CASES)
    cases = [_case(entry, tests, default, seconds, precheck) for entry in entries]
    names = [case.name for case in cases]
    for name in sorted({name for name in names if names.count(name) > 1}):
        whole.problem("cases", "a name of its own for every case", f"{name!r} occurs more than once")
    return Execution(command, tuple(cases), precheck)


def _case(entry: Fields, tests: Path, default: Comparator | None, seconds: float, precheck: Precheck) -> Case:
    comparator = _comparator_of(entry, tests, default)
    expected = entry.content("expected", tests, required=True)
    args = entry.texts("args")
    if sum(map(len, args)) > MAX_ARGUMENTS or any("\0" in each for each in args):
        entry.problem("args", f"texts without NUL of at most {MAX_ARGUMENTS:,} characters together", "found others")
    case = Case(
        name=entry.text("name"),
        group=GROUPS[entry.choice("group", tuple(GROUPS), "hidden") or "hidden"],
        expected=expected or Content(),
        comparator=comparator,
        stdin=entry.content("stdin", tests) or Content(),
        args=args,
        files=entry.workspace_files("files", tests),
        output=entry.path("output"),
        exit_code=entry.whole("exit_code", 0, 0, 255),
        timeout_seconds=entry.number("timeout_sec", seconds, 0.1, MAX_SECONDS),
    )
    entry.refuse_unknown()
    _prove(entry, tests, expected, comparator, precheck)
    return case


def _comparator_of(entry: Fields, tests: Path, default: Comparator | None) -> Comparator:
    """`compare` of a case: the name of a kind with its defaults, or a table; else that of the whole file."""
    if isinstance(entry.values.get("compare"), str):
        kind = {"kind": entry.raw("compare")}
        return read_comparator(Fields(kind, entry.source, entry.findings, entry.at("compare")), tests)
    if "compare" in entry or default is None:
        return read_comparator(entry.table("compare"), tests)
    return default


def _artifact(whole: Fields, tests: Path) -> Artifact:
    precheck = read_precheck(whole.table("precheck"), tests)
    options = whole.table("compare") if "compare" in whole else None
    expected = options.content("expected", tests, required=True) if options else None
    comparator = read_comparator(options, tests) if options else None
    judge = _judge(whole.table("judge")) if "judge" in whole else None
    if options and comparator:
        _prove(options, tests, expected, comparator, precheck)
    if comparator is None and judge is None:
        whole.problem("compare", "a table compare, a table judge or both")
    return Artifact(
        path=whole.path("artifact", required=True) or "",
        group=GROUPS[whole.choice("group", tuple(GROUPS), "hidden") or "hidden"],
        command=whole.text("command", "", longest=4_000),
        timeout_seconds=whole.number("timeout_sec", DEFAULT_ARTIFACT_SECONDS, 0.1, MAX_SECONDS),
        precheck=precheck,
        expected=expected,
        comparator=comparator,
        judge=judge,
    )


def _judge(fields: Fields) -> JudgeQuestion:
    question = JudgeQuestion(
        question=fields.text("question", longest=20_000),
        rubric=fields.text("rubric", "", longest=20_000),
        threshold=fields.whole("threshold", 4, 1, 5),
    )
    fields.refuse_unknown()
    return question


def _prove(fields: Fields, tests: Path, expected: Content | None, comparator: Comparator, precheck: Precheck) -> None:
    """Check the expected output: one that fails its own comparison or pre-check would fail everybody."""
    if expected is None or (expected.path is not None and not (tests / expected.path).is_file()):
        return  # noted already
    content = expected.inline.encode() if expected.path is None else (tests / expected.path).read_bytes()
    try:
        precheck.require(content)
        comparison = comparator.compare(content, content)
    except PrecheckFailed as error:
        fields.problem("expected", "an output that passes itself", str(error))
        return
    if not comparison.passed:
        fields.problem("expected", "an output that passes itself", comparison.message)


def read_comparator(fields: Fields, tests: Path) -> Comparator:
    """Read the comparison from the table. Its expected output, if the table names one, has already been read."""
    kind = fields.choice("kind", tuple(_KINDS), DEFAULT_KIND) or DEFAULT_KIND
    comparator = _KINDS[kind](fields)
    fields.refuse_unknown()
    return comparator


def _text(fields: Fields) -> Comparator:
    similarity = fields.number("similarity", math.nan, 0, 1)
    wanted = None if math.isnan(similarity) else similarity
    trailing = fields.flag("ignore_trailing_space")
    if wanted is not None and fields.values.get("ignore_line_order"):
        fields.problem("ignore_line_order", "no order of lines with a similarity", "found both")
    return TextComparator(
        trailing_space=trailing is not False,
        ignore_case=bool(fields.flag("ignore_case")),
        any_order=bool(fields.flag("ignore_line_order")),
        similarity=wanted,
    )


def _table(fields: Fields) -> Comparator:
    columns, key = fields.texts("columns"), fields.texts("key")
    any_order = bool(fields.flag("ignore_row_order"))
    if columns and not set(key) <= set(columns):
        fields.problem("key", "columns that are compared")
    if len(set(columns)) < len(columns):
        fields.problem("columns", "every column once")
    found = fields.choice("format", TABLE_FORMATS, "csv")
    return TableComparator(
        format=next((each for each in TABLE_FORMATS if each == found), "csv"),
        columns=columns,
        extra_columns=bool(fields.flag("extra_columns")),
        key=key,
        any_order=any_order,
        tolerance=_tolerance(fields),
        tolerances={name: _tolerance_of(fields.table("tolerance"), name) for name in fields.table("tolerance").values},
    )


def _tolerance_of(inner: Fields, name: str) -> Tolerance:
    """{ abs = 0.01 } of one column."""
    column = inner.table(name)
    tolerance = _tolerance(column)
    column.refuse_unknown()
    return tolerance


def _tolerance(fields: Fields) -> Tolerance:
    return Tolerance(fields.number("abs", 0.0, 0, 1e300), fields.number("rel", 0.0, 0, 1))


def _json(fields: Fields) -> Comparator:
    return JsonTree(
        tolerance=_tolerance(fields),
        any_order=bool(fields.flag("ignore_array_order")),
        ignored_keys=frozenset(fields.texts("ignore_keys")),
    )


_KINDS: dict[str, Callable[[Fields], Comparator]] = {
    "exact": lambda fields: Exact(),
    "text": _text,
    "table": _table,
    "numeric": lambda fields: Numeric(_tolerance(fields)),
    "json": _json,
    "pixels": lambda fields: Pixels(fields.whole("tolerance", 0, 0, 255), fields.number("similarity", 1.0, 0, 1)),
}


def read_precheck(fields: Fields, tests: Path) -> Precheck:
    duration, rows = fields.range("duration_sec"), fields.range("rows")
    precheck = Precheck(
        max_bytes=fields.whole("max_bytes", MAX_BYTES, 1, MAX_BYTES),
        format=fields.choice("format", tuple(FORMATS)) if "format" in fields else None,
        resolution=_resolution(fields),
        duration_seconds=None if duration is None else Between(*duration),
        columns=fields.texts("columns"),
        rows=None if rows is None else Between(*rows),
        schema=_schema(fields, tests),
    )
    fields.refuse_unknown()
    return precheck


def _resolution(fields: Fields) -> tuple[int, int] | None:
    value = fields.raw("resolution")
    if value is None:
        return None
    if isinstance(value, list) and len(value) == 2 and all(isinstance(each, int) and 0 < each < 1e6 for each in value):
        return value[0], value[1]
    fields.problem("resolution", "[width, height] in pixels")
    return None


def _schema(fields: Fields, tests: Path) -> Mapping[str, object] | None:
    """JSON Schema in a file of the tests."""
    value = fields.raw("schema_file")
    path = None if value is None else fields.test_file("schema_file", value, tests)
    if path is None:
        return None
    try:
        schema = read_json(tests / path)
    except SuiteError as error:
        fields.problem("schema_file", "a JSON schema", f"{error.place}: {error.message}")
        return None
    problem = schema_problem(schema) if isinstance(schema, dict) else "it is not a JSON object"
    if problem is None and isinstance(schema, dict):
        return schema
    fields.problem("schema_file", "a JSON schema of the words that are carried out", problem or "")
    return None
