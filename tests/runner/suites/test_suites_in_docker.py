"""Every example suite in containers: each oracle passes, each nop fails, and verdicts say what the verifiers wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.agents import AgentJob, Limits, make_agent
from runner.agents.oracle import has_trap
from runner.base.digests import EMPTY_LIBRARY
from runner.base.suite import Suite
from runner.base.types import CheckGroup, CheckStatus, Environment, Phase, Role, Task, TrialSlot, Verdict
from runner.engine.attempts import run_trial
from runner.engine.engine import run_episode
from runner.engine.recorders import ListRecorder
from runner.engine.toolbox import toolbox_for
from runner.protocols.conditions import find_condition
from runner.protocols.plan import EpisodePlan, RunTrial
from runner.sandboxes import LOGS, WORKSPACE
from runner.sandboxes.docker.docker_sandbox import open_sandbox
from runner.suites import read_suite_folder
from runner.suites.tasks.task_files import read_workspace_files
from runner.verifying import run_verifier
from tests.docker_images import base_image

pytestmark = [pytest.mark.docker, pytest.mark.slow]

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "suites"


@pytest.fixture(autouse=True)
def _prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLGLASS_CACHE", str(tmp_path / "cache"))
    base_image()


def plan_for(environment: Environment, agent: str) -> EpisodePlan:
    return EpisodePlan(
        episode=environment.key,
        environment=environment,
        condition=find_condition("no-skill"),
        run_seed=1,
        setup_digest="0" * 64,
        agent=agent,
        sandbox="docker",
        protocol="skillflow" if environment.families[0].tasks[0].role is None else "skillevolbench",
    )


def tasks_of(suite: Suite) -> Iterator[tuple[Environment, Task]]:
    for environment in suite.environments:
        for family in environment.families:
            for task in family.tasks:
                yield environment, task


def verdict_of(suite: Suite, environment: Environment, task: Task, agent: str) -> Verdict:
    """Of one trial, as it is recorded."""
    plan = plan_for(environment, agent)
    recorder = ListRecorder(plan)
    slot = TrialSlot(Phase.EVALUATION, task.key)
    run_trial(RunTrial(slot, task.family, None, EMPTY_LIBRARY), {}, plan, recorder, toolbox_for(plan, suite))
    verdict = recorder.verdict(slot)
    assert verdict is not None
    return verdict


@pytest.mark.parametrize(("agent", "passes"), [("oracle", True), ("nop", False)])
def test_a_skillevolbench_family_runs_through_the_engine(agent: str, passes: bool) -> None:
    suite = read_suite_folder(EXAMPLES / "skillevolbench")
    plan = plan_for(suite.environments[0], agent)
    recorder = ListRecorder(plan)
    run_episode(plan, recorder, toolbox_for(plan, suite))
    slots = [TrialSlot(Phase.ACQUISITION, f"E3-LS2-T{index}") for index in (1, 2, 3)]
    slots += [TrialSlot(Phase.DEPLOYMENT, f"E3-LS2-T{index}") for index in (4, 5, 6)]
    verdicts = [recorder.verdict(slot) for slot in slots]
    told = [
        (each.success, each.reward, each.outcome, each.process, each.overall, len(each.checks), len(each.dimensions))
        + each.notes
        for each in verdicts
        if each is not None
    ]
    # Doing nothing leaves the input as it was: one of two process checks, a quarter of the points.
    assert told == [(True, 1.0, 1.0, 1.0, 1.0, 5, 4) if passes else (False, 0.25, 0.0, 0.5, 0.25, 5, 4)] * 6


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("skilllearnbench", marks=pytest.mark.buildkit),
        "skillflow",
        "harbor/first-steps",
        "harbor/public-set",
    ],
)
def test_every_oracle_passes_and_every_nop_fails(name: str) -> None:
    suite = read_suite_folder(EXAMPLES / name)
    found = {
        task.key: tuple(verdict_of(suite, environment, task, agent).success for agent in ("oracle", "nop"))
        for environment, task in tasks_of(suite)
    }
    assert len(found) == {"skilllearnbench": 4, "skillflow": 4, "harbor/first-steps": 2, "harbor/public-set": 2}[name]
    assert found == dict.fromkeys(found, (True, False))


def test_the_checks_of_a_ctrf_report_are_those_of_its_tests() -> None:
    suite = read_suite_folder(EXAMPLES / "skilllearnbench")
    environment, task = next(tasks_of(suite))
    verdict = verdict_of(suite, environment, task, "nop")
    assert [(check.group, check.name, check.status) for check in verdict.checks] == [
        (CheckGroup.TEST, "test_outputs.py::test_the_levels_are_there", CheckStatus.FAILED),
        (CheckGroup.TEST, "test_outputs.py::test_the_numbers_are_right", CheckStatus.FAILED),
    ]
    assert "E   FileNotFoundError" in verdict.checks[0].message
    assert all(0 <= (check.duration_seconds or 0) < 10 for check in verdict.checks)


def test_every_instance_runs_on_its_own_files() -> None:
    """One image for all instances of a task would give the first one's data to each."""
    suite = read_suite_folder(EXAMPLES / "skilllearnbench")
    tasks = {task.key: task for _, task in tasks_of(suite)}
    images, starts = set(), {}
    for key in ("log-level-counts-1", "log-level-counts-2"):
        sandbox = open_sandbox(tasks[key], name=key)
        try:
            starts[key] = sandbox.execute("head -c 12 /root/app.log", timeout_seconds=60).output
            images.add(sandbox.handle["image"])
        finally:
            sandbox.close()
    assert starts == {"log-level-counts-1": "2025-03-01 I", "log-level-counts-2": "[warn] slow "}
    assert len(images) == 2


def test_a_declared_wrong_answer_fails_by_the_hidden_checks_alone() -> None:
    suite = read_suite_folder(EXAMPLES / "skillevolbench")
    environment, task = next((where, task) for where, task in tasks_of(suite) if has_trap(task))
    verdict = verdict_of(suite, environment, task, "trap")
    assert (task.role, verdict.success) == (Role.ADVERSARIAL, False)
    failed = {check.name for check in verdict.checks if check.status is CheckStatus.FAILED}
    assert failed == {"test_the_totals_are_right", "test_the_program_gives_the_totals"}


@pytest.mark.parametrize("agent", ["oracle", "nop"])
@pytest.mark.parametrize(("folder", "has_total"), [("cheese-by-dairy", True), ("parcels-by-depot", False)])
def test_a_verdict_says_what_the_files_say(agent: str, folder: str, has_total: bool) -> None:
    suite = read_suite_folder(EXAMPLES / "skillevolbench")
    task = next(task for _, task in tasks_of(suite) if task.folder.name == folder)
    sandbox = open_sandbox(task, name="files")
    try:
        sandbox.put(WORKSPACE, read_workspace_files(task))
        make_agent(agent).run(AgentJob(task, task.instruction, (), 1, Limits()), sandbox, None, lambda step: None)
        verdict = run_verifier(task, sandbox)
        written = {path.removeprefix("verifier/"): file.content for path, file in sandbox.files(LOGS).items()}
    finally:
        sandbox.close()
    outcome, process, score = (
        json.loads(written[name]) for name in ("outcome_report.json", "process_report.json", "score_report.json")
    )
    results = [
        each for report in (outcome, process) for part in ("public", "hidden") for each in report[part]["results"]
    ]
    assert verdict.reward == float(written["reward.txt"])
    assert verdict.rewards == json.loads(written["reward.json"])
    assert [(check.name, check.status is CheckStatus.PASSED) for check in verdict.checks] == [
        (each["name"], each["passed"]) for each in results
    ]
    assert (verdict.overall, verdict.notes) == (verdict.rewards["normalized_score"], ())
    assert ("total_score" in score, "ratio" in score["dimensions"][0]) == (has_total, has_total)
    assert [(each.name, each.score) for each in verdict.dimensions] == [
        (each["name"], each["tests_passed"] / each["tests_matched"]) for each in score["dimensions"]
    ]
