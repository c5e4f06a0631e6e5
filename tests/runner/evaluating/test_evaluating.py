"""Declared evaluations in a real sandbox: what a submission can do, and what becomes of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from runner.base.errors import SandboxError, SandboxRuined
from runner.base.types import Check, CheckGroup, CheckStatus, File, Task, Verdict
from runner.sandboxes.local import LocalSandbox, open_sandbox
from runner.verifying import run_verifier
from tests.runner.declared_tasks import ADDING, MAKING, REPORT, REPORT_FILES, SUM, SUM_FILES, declared_task

PASSED, FAILED, SKIPPED = CheckStatus.PASSED, CheckStatus.FAILED, CheckStatus.SKIPPED
ONE = 'mode = "execution"\ncommand = "sh run.sh"\ntimeout_sec = 5\n[[cases]]\nname = "one"\nexpected = "1"\n'
FILE = 'mode = "artifact"\nartifact = "out/a.txt"\n[compare]\nexpected = "right"\n'


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalSandbox]:
    monkeypatch.setenv("SKILLGLASS_SANDBOXES", str(tmp_path / "boxes"))
    opened = open_sandbox(declared_task(tmp_path / "opened", ONE), name="t")
    yield opened
    opened.close()


def submitted(sandbox: LocalSandbox, task: Task, **files: str) -> Verdict:
    names = {name.replace("__", "/").replace("_", "."): File(text.encode()) for name, text in files.items()}
    sandbox.put("workspace", names)
    return run_verifier(task, sandbox)


def failing(verdict: Verdict) -> Check:
    """The one check that failed."""
    (found,) = (check for check in verdict.checks if check.status is FAILED)
    return found


# --- execution --------------------------------------------------------------------------------------------------


def test_every_case_is_run_and_compared(tmp_path: Path, sandbox: LocalSandbox) -> None:
    verdict = submitted(sandbox, declared_task(tmp_path, SUM, SUM_FILES), solution_py=ADDING)
    assert [(check.group, check.name, check.status) for check in verdict.checks] == [
        (CheckGroup.PUBLIC, "run: two", PASSED),
        (CheckGroup.PUBLIC, "compare: two", PASSED),
        (CheckGroup.HIDDEN, "run: none", PASSED),
        (CheckGroup.HIDDEN, "compare: none", PASSED),
        (CheckGroup.HIDDEN, "run: file", PASSED),
        (CheckGroup.HIDDEN, "compare: file", PASSED),
    ]
    assert (verdict.source, verdict.success, verdict.reward, verdict.overall) == ("execution", True, 1.0, 1.0)
    assert {each.name: each.score for each in verdict.dimensions} == {"pre-check": 1.0, "comparison": 1.0}


def test_the_reward_is_the_share_of_cases_that_passed(tmp_path: Path, sandbox: LocalSandbox) -> None:
    verdict = submitted(sandbox, declared_task(tmp_path, SUM, SUM_FILES), solution_py="print(3)")
    assert (verdict.success, verdict.process) == (False, None)
    assert verdict.reward == verdict.outcome == pytest.approx(1 / 3)
    messages = [check.message for check in verdict.checks if check.status is FAILED]
    assert messages == [
        "text: line 1: found '3', expected '0'",
        "numeric: number 1: found 3, expected 0.75 (apart by 2.25)",
    ]


def test_a_crash_is_told_with_the_end_of_its_standard_error(tmp_path: Path, sandbox: LocalSandbox) -> None:
    verdict = submitted(sandbox, declared_task(tmp_path, ONE), run_sh="echo 1; python3 -c 'import no_such'; exit 7")
    check = failing(verdict)
    assert check.name == "run: one"
    assert check.message.startswith("exit: it ended with exit code 7, expected 0\n")
    assert check.message.endswith("ModuleNotFoundError: No module named 'no_such'")
    assert verdict.checks[1] == Check(CheckGroup.HIDDEN, "compare: one", SKIPPED, verdict.checks[1].message)
    assert verdict.reward == 0.0


def test_an_exit_code_may_be_what_is_asked_for(tmp_path: Path, sandbox: LocalSandbox) -> None:
    task = declared_task(tmp_path, ONE + "exit_code = 3\n")
    assert submitted(sandbox, task, run_sh="echo 1; exit 3").success is True
    assert failing(submitted(sandbox, task, run_sh="echo 1")).message.startswith("exit: it ended with exit code 0")


def test_a_submission_that_hangs_is_ended(tmp_path: Path, sandbox: LocalSandbox) -> None:
    task = declared_task(tmp_path, ONE.replace("timeout_sec = 5", "timeout_sec = 0.5"))
    assert failing(submitted(sandbox, task, run_sh="echo 1; sleep 60")).message.startswith("time: it was ended after")


def test_output_beyond_what_is_taken_is_told_and_not_read(tmp_path: Path, sandbox: LocalSandbox) -> None:
    task = declared_task(tmp_path, ONE + "[precheck]\nmax_bytes = 1000\n")
    verdict = submitted(sandbox, task, run_sh="head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2")
    check = failing(verdict)
    assert (check.name, check.message) == ("precheck: one", "size: its standard output has more than 1,000 bytes")
    assert len(verdict.output) < 10_000
    assert {each.name: each.score for each in verdict.dimensions}["pre-check"] == 0.0


def test_a_file_may_be_the_output_and_an_old_one_does_not_count(tmp_path: Path, sandbox: LocalSandbox) -> None:
    task = declared_task(tmp_path, ONE + 'output = "out/answer.txt"\n')
    assert submitted(sandbox, task, run_sh="mkdir -p out; echo 1 > out/answer.txt; echo noise").success is True
    check = failing(submitted(sandbox, task, out__answer_txt="1", run_sh="true"))
    assert (check.name, check.message) == ("precheck: one", "missing: there is no out/answer.txt")


def test_standard_output_and_error_are_kept_apart(tmp_path: Path, sandbox: LocalSandbox) -> None:
    assert submitted(sandbox, declared_task(tmp_path, ONE), run_sh="echo warning >&2; echo 1").success is True


def test_what_one_run_leaves_behind_does_not_reach_the_next(tmp_path: Path, sandbox: LocalSandbox) -> None:
    """Neither a process nor the input of an earlier case."""
    two = ONE.replace('"one"', '"one"\nstdin = "first\\n"') + '[[cases]]\nname = "two"\nexpected = "none"\n'
    first = "(while :; do : > alive; sleep 0.02; done) > /dev/null 2>&1 & echo 1"
    second = "rm -f alive; sleep 0.3; [ -e alive ] && echo alive || echo none"
    script = f"if read line; then {first}; else {second}; fi"
    verdict = submitted(sandbox, declared_task(tmp_path, two), run_sh=script)
    assert [check.message for check in verdict.checks if check.status is FAILED] == []


def test_what_lies_beside_an_output_does_not_hide_it(tmp_path: Path, sandbox: LocalSandbox) -> None:
    """A sandbox returns a limited number of files: those of other runs and other logs must not use it up."""
    script = "mkdir -p ../logs/a && (cd ../logs/a && seq 5001 | xargs touch); echo 1"
    assert submitted(sandbox, declared_task(tmp_path, ONE), run_sh=script).success is True


def test_expected_outputs_never_enter_the_sandbox(tmp_path: Path, sandbox: LocalSandbox) -> None:
    """The submission looks for them everywhere it can, in each run."""
    files = {**SUM_FILES, "cases/sum.txt": "0.750000125\n"}
    script = """import subprocess
looked = ["grep", "-rlF", "0.7500" + "00125", ".."]
print(subprocess.run(looked, stdout=subprocess.PIPE).stdout)
"""
    verdict = submitted(sandbox, declared_task(tmp_path, SUM, files), solution_py=script)
    assert verdict.checks[1].message == "text: line 1: found \"b''\", expected '3'"
    assert sandbox.execute("grep -rlF 0.750000125 ..", timeout_seconds=10).output == ""


def test_inputs_are_not_there_before_the_agent_ended(tmp_path: Path, sandbox: LocalSandbox) -> None:
    task = declared_task(tmp_path, SUM, SUM_FILES)
    sandbox.execute("mkdir -p ../tests/1; echo mine > ../tests/1/stdin; chmod 000 ../tests/1", timeout_seconds=10)
    assert sandbox.execute("ls", timeout_seconds=10).output == ""
    assert submitted(sandbox, task, solution_py=ADDING).success is True


def test_variables_of_the_verifier_do_not_reach_the_submission(tmp_path: Path, sandbox: LocalSandbox) -> None:
    task = replace(declared_task(tmp_path, ONE), verifier_environment={"TOKEN": "secret"})
    assert failing(submitted(sandbox, task, run_sh="echo ${TOKEN-none}")).message.startswith(
        "text: line 1: found 'none'"
    )


def test_a_sandbox_that_is_gone_is_no_verdict(
    tmp_path: Path, sandbox: LocalSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object, **__: object) -> None:
        raise SandboxError("gone")

    task = declared_task(tmp_path, ONE)
    monkeypatch.setattr(LocalSandbox, "put", gone)
    with pytest.raises(SandboxError, match="gone"):
        run_verifier(task, sandbox)


def test_a_sandbox_that_was_ruined_is_a_failed_run(
    tmp_path: Path, sandbox: LocalSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ruined(*_: object, **__: object) -> None:
        raise SandboxRuined("nothing can run")

    task = declared_task(tmp_path, ONE)
    monkeypatch.setattr(LocalSandbox, "put", ruined)
    verdict = run_verifier(task, sandbox)
    assert (verdict.success, verdict.reward, failing(verdict).message) == (False, 0.0, "ruined: nothing can run")


# --- artifacts --------------------------------------------------------------------------------------------------


def test_an_artifact_is_made_and_compared(tmp_path: Path, sandbox: LocalSandbox) -> None:
    verdict = submitted(sandbox, declared_task(tmp_path, REPORT, REPORT_FILES), make_py=MAKING)
    assert [(check.name, check.status) for check in verdict.checks] == [
        ("run: out/report.csv", PASSED),
        ("precheck: out/report.csv", PASSED),
        ("compare: out/report.csv", PASSED),
    ]
    assert (verdict.source, verdict.success, verdict.reward) == ("artifact", True, 1.0)


def test_an_artifact_that_is_partly_right_is_rewarded_in_part(tmp_path: Path, sandbox: LocalSandbox) -> None:
    verdict = submitted(sandbox, declared_task(tmp_path, REPORT, REPORT_FILES), make_py=MAKING.replace("3.5", "4"))
    assert (verdict.success, verdict.reward, verdict.outcome) == (False, 0.75, 0.0)
    assert failing(verdict).message == "table, numbers: row ('2',), column 'total': found '4', expected '3.50'"


def test_an_artifact_that_was_there_before_does_not_count(tmp_path: Path, sandbox: LocalSandbox) -> None:
    task = declared_task(tmp_path, REPORT, REPORT_FILES)
    verdict = submitted(sandbox, task, out__report_csv=REPORT_FILES["report.csv"], make_py="")
    assert failing(verdict).message == "missing: there is no out/report.csv"
    assert [check.status for check in verdict.checks] == [PASSED, FAILED, SKIPPED]


def test_without_a_command_the_artifact_is_taken_as_it_was_left(tmp_path: Path, sandbox: LocalSandbox) -> None:
    verdict = submitted(sandbox, declared_task(tmp_path, FILE), out__a_txt="right\n")
    assert (verdict.success, [check.name for check in verdict.checks]) == (True, ["compare: out/a.txt"])


def test_chatter_of_the_command_does_no_harm(tmp_path: Path, sandbox: LocalSandbox) -> None:
    task = declared_task(tmp_path, REPORT + "\n", REPORT_FILES)
    assert submitted(sandbox, task, make_py=MAKING + "print('x' * 20_000_000)").success is True


@pytest.mark.parametrize(
    ("left", "told"),
    [
        ("mkdir out; ln -s /etc/hostname out/a.txt", "link: out/a.txt is a link, expected a plain file"),
        ("ln -s /etc out", "outside: out/a.txt lies outside the workspace, behind a link"),
        ("mkdir -p ../outside; echo right > ../outside/a.txt; ln -s ../outside out", "outside: out/a.txt lies outside"),
        ("mkdir out; mkfifo out/a.txt", "special: out/a.txt is a folder or a special file"),
        ("mkdir -p out/a.txt", "special: out/a.txt is a folder or a special file"),
        ("mkdir out; truncate -s 60M out/a.txt", "size: out/a.txt has more than 8,388,608 bytes"),
        ("mkdir out; printf '\\377' > out/a.txt", "format: byte 0 is no UTF-8"),
        ("true", "missing: there is no out/a.txt"),
        ("echo right > out", "missing: there is no out/a.txt"),
    ],
)
def test_what_is_no_usable_file_is_told(tmp_path: Path, sandbox: LocalSandbox, left: str, told: str) -> None:
    task = declared_task(tmp_path, FILE)
    sandbox.execute(left, timeout_seconds=10)
    verdict = run_verifier(task, sandbox)
    assert failing(verdict).name == "precheck: out/a.txt"
    assert failing(verdict).message.startswith(told)
    assert (verdict.success, verdict.reward) == (False, 0.0)


def test_nothing_is_taken_away_through_a_link(tmp_path: Path, sandbox: LocalSandbox) -> None:
    """The old artifact is removed before the command runs, but not one that lies elsewhere."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "report.csv").write_text("kept")
    sandbox.execute(f"ln -s {elsewhere} out", timeout_seconds=10)
    verdict = submitted(sandbox, declared_task(tmp_path, REPORT, REPORT_FILES), make_py="")
    assert (elsewhere / "report.csv").read_text() == "kept"
    assert failing(verdict).message.startswith("outside: ")
