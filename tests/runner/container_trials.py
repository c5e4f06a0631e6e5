"""Whole trials in containers, with an agent that does nothing but run one script."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from runner.agents import Agent, AgentJob, AgentRun
from runner.agents.agent_trajectory import TrajectoryBuilder
from runner.base.errors import InfrastructureError
from runner.base.types import (
    AttemptResult,
    Environment,
    Failure,
    Family,
    File,
    Files,
    Machine,
    Observation,
    Phase,
    Role,
    Source,
    Step,
    Task,
    ToolCall,
    TrialSlot,
)
from runner.engine.attempts import run_trial
from runner.engine.recorders import ListRecorder
from runner.engine.toolbox import Toolbox
from runner.models import Model
from runner.protocols.conditions import find_condition
from runner.protocols.plan import EpisodePlan, RunTrial
from runner.sandboxes import Sandbox, sandbox_kind
from runner.sandboxes.docker import docker_engine
from runner.sandboxes.needs import NOTHING, Needs
from tests.docker_images import BASE_IMAGE

docker_engine.PATIENCE = 60.0  # what is left is asked at once after an attempt, and the machine may be busy
ANSWER = "echo 42 > answer.txt"  # what the task wants
TEST = """mkdir -p /logs/verifier
reward=0
[ "$(cat answer.txt 2>/dev/null)" = 42 ] && reward=1
echo $reward > /logs/verifier/reward.txt
"""
MACHINE = Machine(image=BASE_IMAGE, memory_mb=256, storage_mb=300)


@dataclass
class ScriptAgent:
    """Runs its script as one command and keeps what it said."""

    script: str
    seconds: float = 120.0
    skill_folders: tuple[str, ...] = ()
    name: str = "script"
    version: str = "1"

    def needs(self, model: Model | None) -> Needs:
        return Needs(skill_folders=self.skill_folders) if self.skill_folders else NOTHING

    def run(self, job: AgentJob, sandbox: Sandbox, model: Model | None, on_step: Callable[[Step], None]) -> AgentRun:
        builder = TrajectoryBuilder(on_step)
        builder.add(Source.USER, job.instruction)
        done = sandbox.execute(self.script, timeout_seconds=self.seconds)
        call = ToolCall("1", "shell", {"command": self.script})
        builder.add(Source.AGENT, "", tool_calls=(call,), observations=(Observation(done.output, "1"),))
        trajectory = builder.trajectory(self.name, self.version)
        failure = Failure("AgentTimeout", "ended at the time limit") if done.timed_out else None
        return AgentRun((trajectory,), trajectory.usage, 1, failure)


@dataclass
class Outcome:
    """What one attempt left: its result, or the failure of the machine that it was abandoned for."""

    result: AttemptResult | None
    error: InfrastructureError | None
    mark: str
    said: str = field(default="")

    @property
    def success(self) -> bool | None:
        return self.result.verdict.success if self.result and self.result.verdict else None


def container_task(folder: Path, machine: Machine = MACHINE) -> Task:
    for name, content in {"tests/test.sh": TEST, "solution/solve.sh": ANSWER + "\n"}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return Task(
        "E1-F-T1",
        "t",
        "E1",
        "E1-F",
        Role.CANONICAL,
        1,
        "Say 42.\n",
        "0" * 64,
        folder,
        machine=machine,
        verifier_timeout_seconds=10.0,
    )


def attempt(agent: Agent, task: Task, library: Mapping[str, str] | None = None) -> Outcome:
    """One attempt at the task through the runner's own code, in the sandbox that is registered as "docker"."""
    task = replace(task, role=task.role or Role.CANONICAL)  # the protocol asks for one
    family = Family(task.family, "f", "f", "f", "E1", (task,))
    environment = Environment("E1", "E1", (family,))
    plan = EpisodePlan("ep", environment, find_condition("no-skill"), 7, "0" * 64, agent.name, sandbox="docker")
    recorder = ListRecorder(plan)
    slot = TrialSlot(Phase.ACQUISITION, task.key)
    step = RunTrial(slot, task.family, Role.CANONICAL, "0" * 64)
    files: Files = {path: File(text.encode()) for path, text in (library or {}).items()}
    error = None
    try:
        run_trial(step, files, plan, recorder, Toolbox(agent, sandbox_kind("docker")))
    except InfrastructureError as raised:
        error = raised
    result = recorder.results.get(slot)
    observed = result.trajectories[0].steps[-1].observations if result else ()
    said = observed[0].content if observed else ""
    marks = [str(handle["mark"]) for handle in recorder.handles.values()]
    return Outcome(result, error, marks[0] if marks else "", said)


def left_behind(mark: str) -> list[str]:
    """Everything on the engine that carries the mark of a sandbox."""
    with contextlib.closing(docker_engine.connect()) as client:
        wanted = [f"{docker_engine.MARK_LABEL}={mark}"]
        found = [docker_engine.list_labelled(client, kind, wanted) for kind in docker_engine.KINDS]
    return [name for rows in found for name, _ in rows]
