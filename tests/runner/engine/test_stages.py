"""A task of several stages: each with its own instruction, solution and tests, in one sandbox,
and one verdict over all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from runner.agents import Agent, AgentJob, AgentRun
from runner.agents.oracle import Nop, Oracle, has_solution
from runner.base.types import (
    AttemptResult,
    Environment,
    Family,
    Phase,
    Role,
    Step,
    Task,
    TrajectoryKind,
    TrialSlot,
    Verdict,
)
from runner.engine.attempts import join_verdicts, run_trial
from runner.engine.recorders import ListRecorder
from runner.engine.toolbox import Toolbox
from runner.models import Model
from runner.protocols.conditions import find_condition
from runner.protocols.plan import EpisodePlan, RunTrial
from runner.sandboxes import Sandbox, sandbox_kind
from runner.suites import read_suite_folder
from tests.cases import every
from tests.docker_images import base_image
from tests.runner.container_trials import attempt, left_behind

TEST = """#!/bin/bash
here=$(dirname "$0")
mkdir -p "$here/../logs/verifier"
echo "$("$here/grade" {file})" > "$here/../logs/verifier/reward.txt"
"""
FILES = {
    "task.toml": """
[environment]
network_mode = "no-network"
memory_mb = 256
storage_mb = 300
[agent]
timeout_sec = 30
[[steps]]
name = "collect"
{least}
[[steps]]
name = "report"
""",
    "tests/grade": '#!/bin/bash\n[ "$(cat $1 2>/dev/null)" = right ] && echo 1 || echo 0\n',
    "steps/collect/instruction.md": "Write right into one.txt.\n",
    "steps/collect/tests/test.sh": TEST.replace("{file}", "one.txt"),
    "steps/collect/solution/solve.sh": "echo right > one.txt\n",
    "steps/report/instruction.md": "Write what one.txt has into two.txt.\n",
    "steps/report/workdir/given.txt": "given\n",
    "steps/report/workdir/setup.sh": "test -f one.txt || exit 0; cp given.txt set-up.txt\n",
    "steps/report/tests/test.sh": TEST.replace("{file}", "two.txt"),
    "steps/report/solution/solve.sh": "test -f set-up.txt && cat one.txt > two.txt\n",
}


def make_task(folder: Path, *, least: str = "", top: str = "", **files: str) -> Task:
    """In the local sandbox's form; `files` by the name of their step."""
    for name, text in FILES.items():
        path = folder / "suite/staged" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(top + text.replace("{least}", least) if name == "task.toml" else text)
        path.chmod(0o755)
    for step, solution in files.items():
        (folder / f"suite/staged/steps/{step}/solution/solve.sh").write_text(solution)
    (folder / "suite/staged/environment").mkdir(exist_ok=True)
    (task,) = read_suite_folder(folder / "suite").environments[0].families[0].tasks
    return replace(task, role=Role.CANONICAL)


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLGLASS_CACHE", str(tmp_path / "cache"))


def run(task: Task, agent: Agent | None = None) -> AttemptResult:
    environment = Environment("E1", "E1", (Family(task.family, "f", "f", "f", "E1", (task,)),))
    agent = agent or Oracle()
    plan = EpisodePlan("ep", environment, find_condition("no-skill"), 7, "0" * 64, agent.name, sandbox="local")
    recorder, slot = ListRecorder(plan), TrialSlot(Phase.ACQUISITION, task.key)
    step = RunTrial(slot, task.family, Role.CANONICAL, "0" * 64)
    run_trial(step, {}, plan, recorder, Toolbox(agent, sandbox_kind("local")))
    return recorder.results[slot]


def test_a_task_of_steps_is_read_as_stages(tmp_path: Path) -> None:
    task = make_task(tmp_path, top='multi_step_reward_strategy = "final"\n', least="min_reward = 0.5")
    assert [stage.name for stage in task.stages] == ["collect", "report"]
    assert [stage.min_reward for stage in task.stages] == [{"reward": 0.5}, {}]
    assert task.stages[0].task.instruction == "Write right into one.txt.\n"
    assert task.instruction.startswith("# Step 1 of 2: collect\n\nWrite right")
    assert (task.last_stage_decides, has_solution(task)) == (True, True)


def test_each_stage_has_its_own_text_tests_and_verdict(tmp_path: Path) -> None:
    result = run(make_task(tmp_path))
    assert result.verdict is not None
    assert (result.verdict.success, result.verdict.reward) == (True, 1.0)
    assert [(each.source, each.reward) for each in result.stage_verdicts] == [
        ("suite stage collect", 1.0),
        ("suite stage report", 1.0),
    ]
    assert [(each.head.kind, each.head.name) for each in result.trajectories] == [
        (TrajectoryKind.STAGE, "collect"),
        (TrajectoryKind.STAGE, "report"),
    ]
    given = [each.steps[0].message for each in result.trajectories]
    assert given == ["Write right into one.txt.\n", "Write what one.txt has into two.txt.\n"]


def test_an_untouched_task_scores_nothing(tmp_path: Path) -> None:
    result = run(make_task(tmp_path), Nop())
    assert result.verdict is not None
    assert (result.verdict.success, result.verdict.reward, len(result.stage_verdicts)) == (False, 0.0, 2)


def test_half_a_task_is_half_a_reward(tmp_path: Path) -> None:
    result = run(make_task(tmp_path, report="echo wrong > two.txt\n"))
    assert result.verdict is not None
    assert (result.verdict.success, result.verdict.reward) == (False, 0.5)


def test_a_reward_that_is_too_low_ends_the_task(tmp_path: Path) -> None:
    result = run(make_task(tmp_path, least="min_reward = 1.0", collect="echo wrong > one.txt\n"))
    assert result.verdict is not None
    assert (result.verdict.success, result.verdict.reward, len(result.trajectories)) == (False, 0.0, 1)
    assert result.verdict.notes == ("collect: reward is 0, below 1: 1 of 2 stages did not run",)


def test_the_last_stage_decides_where_the_task_says_so(tmp_path: Path) -> None:
    task = make_task(
        tmp_path,
        top='multi_step_reward_strategy = "final"\n',
        collect="echo wrong > one.txt\n",
        report="echo right > two.txt\n",
    )
    result = run(task)
    assert result.verdict is not None
    assert (result.verdict.success, result.verdict.reward) == (True, 1.0)


class Looker(Oracle):
    """Keeps what it finds of the tests before it works."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def run(self, job: AgentJob, sandbox: Sandbox, model: Model | None, on_step: Callable[[Step], None]) -> AgentRun:
        looked = f"ls -A {sandbox.path('tests')} {sandbox.path('logs')} 2>&1; id -u; pgrep -fx 'sleep 600'"
        self.found.append(sandbox.execute(looked, timeout_seconds=30).output)
        sandbox.execute("sleep 600 > /dev/null 2>&1 &", timeout_seconds=30)
        return super().run(job, sandbox, model, on_step)


def test_no_stage_sees_tests_of_the_one_before(tmp_path: Path) -> None:
    agent = Looker()
    run(make_task(tmp_path), agent)
    assert len(agent.found) == 2
    assert not any("test.sh" in each or "grade" in each or "verifier" in each for each in agent.found)


@every(
    ([(1.0, {}), (1.0, {})], False, 1.0, True),
    ([(1.0, {}), (0.0, {})], False, 0.5, False),
    ([(0.0, {}), (1.0, {})], True, 1.0, True),
    ([(1.0, {"speed": 1.0}), (1.0, {})], False, 1.0, True),
    ([(None, {"a": 1.0, "b": 1.0}), (None, {"a": 1.0, "b": 0.0})], False, None, None),
    ([(None, {"a": 1.0, "b": 1.0}), (1.0, {})], False, 0.5, False),
)
def test_rewards_are_joined_as_harbor_joins_them(
    parts: list[tuple[float | None, dict[str, float]]], last: bool, reward: float | None, success: bool | None
) -> None:
    verdicts = [
        (f"s{place}", Verdict("suite", None, reward, rewards=rewards)) for place, (reward, rewards) in enumerate(parts)
    ]
    joined = join_verdicts(verdicts, last_decides=last)
    assert (joined.reward, joined.success) == (reward, success)


def test_a_task_that_ended_early_is_no_success() -> None:
    joined = join_verdicts([("a", Verdict("suite", True, 1.0))], last_decides=False, note="a: speed is missing")
    assert (joined.success, joined.reward) == (False, 1.0)


@pytest.mark.docker
@pytest.mark.slow
def test_two_steps_run_in_one_container(tmp_path: Path) -> None:
    task = make_task(tmp_path)
    (task.folder / "environment/Dockerfile").write_text(
        f"FROM {base_image()}\nRUN useradd -m agent && mkdir /w && chown agent /w\nWORKDIR /w\nUSER agent\n"
    )
    (task,) = read_suite_folder(tmp_path / "suite").environments[0].families[0].tasks
    looker = Looker()
    solved, looked, untouched = attempt(Oracle(), task), attempt(looker, task), attempt(Nop(), task)
    assert [each.error for each in (solved, looked, untouched)] == [None, None, None]
    assert (solved.success, looked.success, untouched.success) == (True, True, False)
    assert solved.result is not None
    assert [each.reward for each in solved.result.stage_verdicts] == [1.0, 1.0]
    # The second stage has the agent's own rights again, and nothing that the first one left running.
    assert [each.strip().splitlines()[-1] for each in looker.found] == ["1000", "1000"]
    assert not any("test.sh" in each or "grade" in each for each in looker.found)
    assert [left_behind(each.mark) for each in (solved, looked, untouched)] == [[], [], []]
