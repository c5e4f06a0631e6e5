"""tests/evaluation.toml of a task folder: the format is in docs/reference/evaluation.md.

Everything is checked when the suite is read, before anything runs: an unknown field is a problem, a path must lead to
a file of the tests, and an expected output must pass when it is compared with itself.
"""

from __future__ import annotations

from pathlib import Path

from runner.base.types import CheckGroup
from runner.evaluating.comparisons.comparison import Comparator, PrecheckFailed
from runner.evaluating.declaration import (
    DEFAULT_ARTIFACT_SECONDS,
    DEFAULT_SECONDS,
    Artifact,
    Case,
    Content,
    Evaluation,
    Execution,
    JudgeQuestion,
)
from runner.evaluating.prechecks import Precheck
from runner.suites.documents import read_toml
from runner.suites.findings import Findings
from runner.suites.tasks.evaluation_fields import Fields
from runner.suites.tasks.evaluation_options import read_comparator, read_precheck

NAME = "evaluation.toml"
MAX_CASES = 500
MAX_SECONDS = 3_600.0
MAX_ARGUMENTS = 32_000  # characters of one case
GROUPS = {group.value: group for group in (CheckGroup.PUBLIC, CheckGroup.HIDDEN)}


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
