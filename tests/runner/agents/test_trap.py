"""The agent that runs a declared wrong answer: the bundled ones are caught, and declaring one changes no digest."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from runner.agents import MODELLESS, AgentJob, make_agent
from runner.agents.oracle import digest_traps, has_trap
from runner.base.errors import SuiteError
from runner.base.suite import Suite
from runner.base.types import Role, Task
from runner.engine.foresight import problems_of
from runner.engine.setup import describe_setup
from runner.sandboxes import WORKSPACE
from runner.sandboxes.local import open_sandbox
from runner.suites import load_suite, read_suite_folder
from runner.suites.starter_suite import STARTER
from runner.suites.tasks.task_files import read_workspace_files
from runner.verifying import run_verifier
from tests.cases import every
from tests.runner.engine.test_setup import BASE
from tests.runner.starter_bench import Bench, failed

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "suites"


def tasks_of(suite: Suite) -> list[Task]:
    return [task for each in suite.environments for family in each.families for task in family.tasks]


BUNDLED = [task for key in ("starter", "starter-environments") for task in tasks_of(load_suite(key))]
TRAPS = [task for task in BUNDLED if task.role is Role.ADVERSARIAL]


def test_every_adversarial_task_of_the_starter_suites_declares_its_wrong_answer_and_no_other_does() -> None:
    assert [task for task in BUNDLED if has_trap(task)] == TRAPS


@every(*TRAPS)
def test_a_declared_wrong_answer_looks_right_and_is_caught_for_what_it_is(task: Task, tmp_path: Path) -> None:
    bench = Bench(task, tmp_path)
    done = bench.run("sh", str(task.folder / "trap" / "solve.sh"))
    assert done.returncode == 0, done.stderr
    verdict = bench.verify()
    assert failed(verdict, "outcome", "public") == failed(verdict, "process", "public") == []
    assert failed(verdict, "outcome", "hidden")
    assert float(verdict["reward"]) < 1


def test_the_agent_runs_it_in_the_sandbox_and_the_verifier_refuses_its_result() -> None:
    task = TRAPS[0]
    sandbox = open_sandbox(task, name="trap")
    try:
        sandbox.put(WORKSPACE, read_workspace_files(task))
        done = make_agent("trap").run(AgentJob(task, "Do.", (), 1), sandbox, None, lambda step: None)
        assert done.failure is None
        assert done.trajectories[0].steps[-1].message == "The wrong answer that the task declares."
        assert run_verifier(task, sandbox).success is False
        assert not {"solve.sh", "trap/solve.sh"} & set(sandbox.files(WORKSPACE))
    finally:
        sandbox.close()
    assert "trap" in MODELLESS


def test_a_wrong_answer_that_cannot_run_is_a_failure_and_no_evidence(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(STARTER, tmp_path / "starter"))
    task = next(task for task in tasks_of(read_suite_folder(folder)) if has_trap(task))
    (task.folder / "trap" / "solve.sh").write_text("exit 3\n")
    sandbox = open_sandbox(task, name="trap")
    try:
        done = make_agent("trap").run(AgentJob(task, "Do.", (), 1), sandbox, None, lambda step: None)
    finally:
        sandbox.close()
    assert done.failure is not None
    assert (done.failure.type, done.failure.message) == (
        "TrapFailed",
        "The declared wrong answer ended with exit code 3.",
    )


def test_a_task_without_one_is_told_before_anything_runs() -> None:
    task = tasks_of(load_suite("starter"))[0]
    (problem,) = problems_of(task, agent="trap", sandbox="local", runs_here=False)
    assert "the task declares no wrong answer" in str(problem)
    with pytest.raises(SuiteError, match="declares no wrong answer"):
        make_agent("trap").read_files(task)  # type: ignore[attr-defined]
    assert list(problems_of(TRAPS[0], agent="trap", sandbox="local", runs_here=False)) == []


@pytest.mark.parametrize(
    "of", [STARTER, EXAMPLES / "skillevolbench", EXAMPLES / "skillflow"], ids=lambda path: path.name
)
def test_declaring_a_wrong_answer_changes_no_digest_but_the_setup_of_who_runs_it(of: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(of, tmp_path / "suite"))
    before = read_suite_folder(folder)
    traps = digest_traps(before)
    setups = {name: describe_setup(before, **{**BASE, "agent": name}) for name in ("oracle", "nop", "trap")}
    for task in tasks_of(before):
        (task.folder / "trap").mkdir(exist_ok=True)
        (task.folder / "trap" / "solve.sh").write_text("true\n")
    after = read_suite_folder(folder)
    assert after.digest == before.digest
    assert [task.digest for task in tasks_of(after)] == [task.digest for task in tasks_of(before)]
    assert digest_traps(after) != traps
    for name, setup in setups.items():
        assert (describe_setup(after, **{**BASE, "agent": name}) == setup) is (name != "trap")
        assert ("traps" in setup) is (name == "trap")


def test_a_folder_of_that_name_without_the_script_is_covered_as_ever(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(EXAMPLES / "skillflow", tmp_path / "suite"))
    before = read_suite_folder(folder)
    place = tasks_of(before)[0].folder / "trap"
    place.mkdir()
    (place / "notes.md").write_text("a trap for mice\n")
    assert read_suite_folder(folder).digest != before.digest
