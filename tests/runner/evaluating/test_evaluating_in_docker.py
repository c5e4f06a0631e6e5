"""Declared evaluations in a container: the same verdicts,
and what an agent or submission does there counts for nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from runner.base.types import CheckStatus, File, Task
from runner.sandboxes.docker.docker_sandbox import DockerSandbox, open_sandbox
from runner.verifying import run_verifier
from tests.docker_images import base_image
from tests.runner.container_trials import MACHINE, left_behind
from tests.runner.declared_tasks import ADDING, MAKING, REPORT, REPORT_FILES, SUM, SUM_FILES, declared_task

pytestmark = [pytest.mark.docker, pytest.mark.slow]


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return declared_task(tmp_path / "sum", SUM, SUM_FILES, replace(MACHINE, image=base_image()))


@pytest.fixture
def sandbox(task: Task) -> Iterator[DockerSandbox]:
    opened = open_sandbox(task, name="t")
    yield opened
    opened.close()
    assert left_behind(opened.mark) == []


def test_cases_are_run_where_the_agent_worked(task: Task, sandbox: DockerSandbox) -> None:
    sandbox.put("workspace", {"solution.py": File(ADDING.encode())})
    sandbox.execute("rm -rf /tests /logs; ln -s /etc /tests; sleep 300 &", timeout_seconds=30)
    verdict = run_verifier(task, sandbox)
    assert [(check.name, check.status) for check in verdict.checks if check.status is not CheckStatus.PASSED] == []
    assert (verdict.success, verdict.reward, verdict.source) == (True, 1.0, "execution")
    assert sandbox.execute("grep -rlF 0.75 /tests /logs /workspace", timeout_seconds=30).output == (
        "/logs/verifier/3/stdout\n"
    )


def test_a_submission_that_kills_everything_fails_its_case(task: Task, sandbox: DockerSandbox) -> None:
    program = "import os, sys\nif len(sys.argv) > 1: os.kill(-1, 9)\nprint(sum(map(int, sys.stdin.read().split())))\n"
    sandbox.put("workspace", {"solution.py": File(program.encode())})
    verdict = run_verifier(task, sandbox)
    failed = [check for check in verdict.checks if check.status is CheckStatus.FAILED]
    assert [check.name for check in failed] == ["run: file"]
    assert failed[0].message.startswith(("ended: ", "exit: "))
    assert verdict.reward == pytest.approx(2 / 3)


def test_an_artifact_is_taken_out_and_compared(tmp_path: Path, sandbox: DockerSandbox, task: Task) -> None:
    report = declared_task(tmp_path / "report", REPORT, REPORT_FILES, task.machine)
    sandbox.put("workspace", {"make.py": File(MAKING.encode())})
    assert run_verifier(report, sandbox).success is True
    sandbox.put(
        "workspace", {"make.py": File(b"import os\nos.makedirs('out', exist_ok=True)\nos.mkfifo('out/report.csv')")}
    )
    verdict = run_verifier(report, sandbox)
    assert [check.message for check in verdict.checks if check.status is CheckStatus.FAILED] == [
        "special: out/report.csv is a folder or a special file, expected a plain file"
    ]
