"""Reading tests/evaluation.toml: every mistake is told with file, key and what was expected; nothing is passed over."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.base.errors import SuiteProblems
from runner.base.types import CheckGroup
from runner.evaluating.comparisons.pixels import Pixels
from runner.evaluating.comparisons.table import TableComparator
from runner.evaluating.comparisons.text_comparison import TextComparator
from runner.evaluating.comparisons.values import JsonTree, Numeric, Tolerance
from runner.evaluating.declaration import Artifact, Between, Content, Execution, JudgeQuestion, Precheck
from runner.suites import read_suite_folder
from runner.suites.documents import Findings
from runner.suites.tasks.evaluation_toml import read_evaluation
from tests.cases import every
from tests.runner.declared_tasks import REPORT, REPORT_FILES, SUM, SUM_FILES, declared_task, write_tests

CASES = 'mode = "execution"\ncommand = "x"\n[[cases]]\nname = "a"\nexpected = "1"\n'
ARTIFACT = 'mode = "artifact"\nartifact = "a.json"\n[compare]\nkind = "json"\nexpected = "[1]"\n'


def problem(folder: Path, text: str, **files: str) -> str:
    """The one thing that is wrong."""
    findings = Findings()
    assert read_evaluation(write_tests(folder, text, files), findings) is None
    (found,) = findings.problems
    assert found.path == str(folder / "tests" / "evaluation.toml")
    return str(found).partition("evaluation.toml: ")[2]


def test_cases_are_read_with_all_they_say(tmp_path: Path) -> None:
    evaluation = declared_task(tmp_path, SUM, SUM_FILES).evaluation
    assert isinstance(evaluation, Execution)
    assert [case.group for case in evaluation.cases] == [CheckGroup.PUBLIC, CheckGroup.HIDDEN, CheckGroup.HIDDEN]
    assert [case.comparator for case in evaluation.cases] == [
        TextComparator(),
        TextComparator(),
        Numeric(Tolerance(0.01)),
    ]
    last = evaluation.cases[-1]
    assert (last.args, last.files) == (("--from", "data in.txt"), {"data in.txt": "cases/numbers.txt"})
    assert last.expected == Content(path="cases/sum.txt")
    assert evaluation.cases[0].stdin == Content(inline="1 2\n")


def test_a_case_inherits_comparison_and_time_and_may_have_its_own(tmp_path: Path) -> None:
    text = CASES.replace('command = "x"', 'command = "x"\ntimeout_sec = 3\ncompare = { kind = "numeric", rel = 0.5 }')
    text += '[[cases]]\nname = "b"\nexpected = "[1]"\ncompare = "json"\ntimeout_sec = 4.5\n'
    evaluation = declared_task(tmp_path, text).evaluation
    assert isinstance(evaluation, Execution)
    assert [case.comparator for case in evaluation.cases] == [Numeric(Tolerance(0, 0.5)), JsonTree()]
    assert [case.timeout_seconds for case in evaluation.cases] == [3, 4.5]


def test_an_artifact_is_read_with_all_it_says(tmp_path: Path) -> None:
    judge = '[judge]\nquestion = "Is it clear?"\nrubric = "Yes or no."\nthreshold = 3\n'
    evaluation = declared_task(tmp_path, REPORT + judge, REPORT_FILES).evaluation
    assert isinstance(evaluation, Artifact)
    assert (evaluation.path, evaluation.command) == ("out/report.csv", "python3 make.py")
    assert evaluation.comparator == TableComparator(key=("id",), tolerance=Tolerance(0.01))
    assert evaluation.precheck == Precheck(columns=("id", "total"))
    assert evaluation.judge == JudgeQuestion("Is it clear?", "Yes or no.", 3)
    assert evaluation.expected == Content(path="report.csv")


def test_every_option_has_its_place(tmp_path: Path) -> None:
    options = 'format = "tsv"\ncolumns = ["a", "b"]\nextra_columns = true\nignore_row_order = true\nrel = 0.1\n'
    text = f'mode = "artifact"\nartifact = "a"\n[compare]\nkind = "table"\nexpected = "a\\tb\\n"\n{options}'
    text += "tolerance = { b = { abs = 2 } }\n"
    text += '[precheck]\nmax_bytes = 9\nformat = "tsv"\nrows = [0]\nschema_file = "schema.json"\n'
    findings = Findings()
    read_evaluation(write_tests(tmp_path, text, {"schema.json": "{}"}), findings)
    assert "no JSON" in str(findings.problems)  # a table is no JSON: the expected output does not pass itself
    evaluation = declared_task(tmp_path, text.replace('schema_file = "schema.json"\n', "")).evaluation
    assert isinstance(evaluation, Artifact)
    assert evaluation.precheck == Precheck(max_bytes=9, format="tsv", rows=Between(0))
    tolerances = {"b": Tolerance(2)}
    assert evaluation.comparator == TableComparator(
        "tsv", ("a", "b"), True, any_order=True, tolerance=Tolerance(0, 0.1), tolerances=tolerances
    )


@every(
    ('kind = "pixel"', "compare.kind: found 'pixel' (expected 'exact' or 'text'"),
    ('kind = "text"\nabs = 1', "compare.abs: there is no such field (expected one of expected"),
    ('kind = "numeric"\nabs = -1', "compare.abs: found -1 (expected a number from 0"),
    ('kind = "numeric"\nabs = nan', "compare.abs: found nan (expected a number from 0"),
    ('kind = "pixels"\ntolerance = 1.5', "compare.tolerance: found 1.5 (expected a whole number from 0 to 255)"),
    ('kind = "pixels"', "compare.expected: format: no image of a known format"),
    ('kind = "table"', "compare.expected: columns: line 2 has 2 cells, the header has 1"),
    ('kind = "text"\nsimilarity = 0.5\nignore_line_order = true', "compare.ignore_line_order: found both"),
    ('kind = "table"\ncolumns = ["a"]\nkey = ["b"]', "compare.key: found a list (expected columns that are comp"),
)
def test_a_comparison_that_cannot_be_carried_out_is_told(more: str, told: str, tmp_path: Path) -> None:
    text = 'mode = "artifact"\nartifact = "a"\n[compare]\nexpected = "1\\n2,3"\n'
    findings = Findings()
    assert read_evaluation(write_tests(tmp_path, text + more), findings) is None
    assert told in str(findings.problems[0])


@every(
    ("mode = 1", "mode: found 1 (expected 'execution' or 'artifact')"),
    ("", "mode: there is none (expected 'execution' or 'artifact')"),
    ("mode = ", "file: Invalid value"),
    ('mode = "execution"\ncommand = "x"', "cases: there is none (expected at least one [[cases]])"),
    (CASES + "stdn = 1", "cases[0].stdn: there is no such field (expected one of args, compare, exit_code"),
    (CASES.replace('"execution"', '"execution"\nartifact = "x"'), "artifact: there is no such field"),
    (CASES.replace('command = "x"', 'command = ""'), "command: found '' (expected a printable text"),
    (CASES.replace('expected = "1"', ""), "cases[0].expected: there is none (expected a text, or expected_file"),
    (CASES + 'expected_file = "a"', "cases[0].expected: found both"),
    (CASES + 'stdin_file = "../task.toml"', "cases[0].stdin_file: found '../task.toml' (expected the path of a"),
    (CASES + 'stdin_file = "/etc/passwd"', "cases[0].stdin_file: found '/etc/passwd'"),
    (CASES + 'stdin_file = "gone.txt"', "cases[0].stdin_file: there is no 'gone.txt'"),
    (CASES + 'files = { "../x" = "evaluation.toml" }', "cases[0].files: found '../x' (expected relative paths"),
    (CASES + 'output = "/tmp/x"', "cases[0].output: found '/tmp/x' (expected a relative path inside the works"),
    (CASES + "exit_code = 256", "cases[0].exit_code: found 256 (expected a whole number from 0 to 255)"),
    (CASES + "timeout_sec = 0", "cases[0].timeout_sec: found 0 (expected a number from 0.1 to 3,600)"),
    (CASES + 'group = "process"', "cases[0].group: found 'process' (expected 'public' or 'hidden')"),
    (CASES + "compare = 3", "cases[0].compare: found 3 (expected a table)"),
    (CASES + '[[cases]]\nname = "a"\nexpected = ""', "cases: 'a' occurs more than once"),
    (CASES + '[precheck]\nformat = "json"\nmax_byte = 1', "precheck.max_byte: there is no such field"),
    (CASES + "[precheck]\nrows = [2, 1]", "precheck.rows: found a list (expected [least, most] or [least]"),
    (CASES + "[precheck]\nresolution = [1]", "precheck.resolution: found a list (expected [width, height]"),
    (ARTIFACT.replace('artifact = "a.json"', ""), "artifact: there is none (expected a relative path"),
    (ARTIFACT.partition("[compare]")[0], "compare: there is none (expected a table compare, a table judge or b"),
    (ARTIFACT + '[judge]\nthreshold = 3\nquestion = ""', "judge.question: found '' (expected a printable text"),
    (ARTIFACT + '[judge]\nthreshold = 6\nquestion = "x"', "judge.threshold: found 6 (expected a whole number"),
    (ARTIFACT.replace("[1]", "[1"), "compare.expected: format: no JSON at line 1"),
    (ARTIFACT + "[precheck]\nmax_bytes = 2", "compare.expected: size: more than 2 bytes (expected an output that"),
)
def test_a_mistake_is_told_with_its_place(text: str, told: str, tmp_path: Path) -> None:
    assert problem(tmp_path, text).startswith(told)


def test_a_schema_that_is_not_carried_out_is_told(tmp_path: Path) -> None:
    text = ARTIFACT + '[precheck]\nschema_file = "s.json"\n'
    (tmp_path / "a").mkdir()
    told = problem(tmp_path / "a", text, **{"s.json": '{"$ref": "#"}'})
    assert told.startswith("precheck.schema_file: '$ref' is not carried out")
    (tmp_path / "b").mkdir()
    assert problem(tmp_path / "b", text, **{"s.json": "{"}).startswith("precheck.schema_file: file: ")


def test_a_link_in_the_tests_is_no_file_of_the_tests(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("1")
    tests = write_tests(tmp_path, CASES + 'stdin_file = "in"')
    (tests / "in").symlink_to(tmp_path / "secret")
    findings = Findings()
    assert read_evaluation(tests, findings) is None
    assert "cases[0].stdin_file: found 'in'" in str(findings.problems[0])


def test_comparisons_with_defaults(tmp_path: Path) -> None:
    evaluation = declared_task(tmp_path, ARTIFACT.replace('kind = "json"', "").replace("[1]", "x")).evaluation
    assert isinstance(evaluation, Artifact)
    assert evaluation.comparator == TextComparator()
    assert Pixels() == Pixels(0, 1.0)


# --- as part of a suite -----------------------------------------------------------------------------------------


def suite(folder: Path, evaluation: str) -> Path:
    task = folder / "bench" / "one"
    write_tests(task, evaluation, SUM_FILES)
    (task / "task.toml").write_text('version = "1.0"\n')
    (task / "instruction.md").write_text("Add.\n")
    (task / "environment").mkdir()
    return folder / "bench"


def test_a_task_that_declares_its_evaluation_needs_no_script(tmp_path: Path) -> None:
    path = suite(tmp_path, SUM)
    (task,) = read_suite_folder(path).environments[0].families[0].tasks
    assert isinstance(task.evaluation, Execution)
    (path / "one" / "tests" / "evaluation.toml").write_text(SUM.replace("3\\n", "4\\n"))
    (changed,) = read_suite_folder(path).environments[0].families[0].tasks
    assert changed.digest != task.digest


def test_a_script_beside_it_is_not_run_and_that_is_told(tmp_path: Path) -> None:
    path = suite(tmp_path, SUM)
    (path / "one" / "tests" / "test.sh").write_text("exit 1\n")
    read = read_suite_folder(path)
    assert read.environments[0].families[0].tasks[0].evaluation is not None
    assert any("the script is not run: one" in note for note in read.notes)


def test_a_mistake_in_it_makes_the_suite_unusable(tmp_path: Path) -> None:
    with pytest.raises(SuiteProblems, match=r"evaluation\.toml: mode: found 'other'"):
        read_suite_folder(suite(tmp_path, SUM.replace('"execution"', '"other"')), strict=True)


def test_without_either_the_script_is_missed(tmp_path: Path) -> None:
    path = suite(tmp_path, SUM)
    (path / "one" / "tests" / "evaluation.toml").unlink()
    with pytest.raises(SuiteProblems, match=r"tests/test\.sh: there is none"):
        read_suite_folder(path, strict=True)
