"""The agents without a model: one runs the task's own solution, which shows that the task can be solved and its
verifier agrees; one the wrong answer that the task declares, which shows whether its verifier catches it; one does
nothing."""

from __future__ import annotations

from collections.abc import Callable

from runner.agents import AgentJob, AgentRun
from runner.agents.agent_trajectory import TrajectoryBuilder
from runner.base.digests import digest_json, manifest
from runner.base.errors import SuiteError
from runner.base.host_variables import resolve_variables
from runner.base.suite import Suite
from runner.base.types import Failure, Files, JsonValue, Observation, Source, Step, Task, ToolCall
from runner.models import Model
from runner.sandboxes import SOLUTION, Completed, Sandbox
from runner.sandboxes.needs import NOTHING, Needs
from runner.suites.tasks.task_files import TRAP, read_solution_files, read_tree, script_command


class Oracle:
    """Needs no model: it runs solution/solve.sh."""

    name = "oracle"
    version = "1"
    message = "The task's own solution."
    failed = ("SolutionFailed", "The solution")  # type of the failure, and its subject

    def needs(self, model: Model | None) -> Needs:
        return NOTHING

    def run(self, job: AgentJob, sandbox: Sandbox, model: Model | None, on_step: Callable[[Step], None]) -> AgentRun:
        """Raises SuiteError if the task has no such script. A script that fails is the run's failure."""
        builder = TrajectoryBuilder(on_step)
        builder.add(Source.USER, job.instruction)
        files = self.read_files(job.task)
        sandbox.put(SOLUTION, files)  # outside the workspace, so that it stays as the agent's
        seconds = job.limits.timeout_seconds or job.task.agent_timeout_seconds
        command = script_command(f"{sandbox.path(SOLUTION)}/solve.sh", files["solve.sh"])
        environment = resolve_variables(job.task.solution_environment, job.task.machine.host_variables)
        done = sandbox.execute(command, timeout_seconds=seconds, environment=environment)
        call = ToolCall("1", "shell", {"command": command})
        observation = Observation(done.output, call.id, is_error=done.exit_code != 0)
        builder.add(Source.AGENT, self.message, tool_calls=(call,), observations=(observation,))
        trajectory = builder.trajectory(self.name, self.version)
        return AgentRun((trajectory,), trajectory.usage, turns=1, failure=self._failure(done, seconds))

    def read_files(self, task: Task) -> Files:
        require_solution(task)
        return read_solution_files(task)

    def _failure(self, done: Completed, seconds: float) -> Failure | None:
        kind, who = self.failed
        if done.timed_out:
            return Failure("AgentTimeout", f"{who} was ended after {seconds:g} seconds.")
        if done.exit_code != 0:
            return Failure(kind, f"{who} ended with exit code {done.exit_code}.")
        return None


def has_solution(task: Task) -> bool:
    """Does the task, or each stage of it, have a solution?"""
    folders = [stage.task.folder for stage in task.stages] or [task.folder]
    return all((folder / "solution" / "solve.sh").is_file() for folder in folders)


def require_solution(task: Task) -> None:
    """Raise SuiteError if there is nothing for the oracle to run."""
    if not has_solution(task):
        raise SuiteError(str(task.folder / "solution"), "folder", "solve.sh", "the oracle finds no solution")


class Trap(Oracle):
    """Needs no model: it runs trap/solve.sh, whose result the verifier must refuse."""

    name = "trap"
    message = "The wrong answer that the task declares."
    failed = ("TrapFailed", "The declared wrong answer")

    def read_files(self, task: Task) -> Files:
        require_trap(task)
        return read_tree(task.folder / "trap")


def has_trap(task: Task) -> bool:
    return not task.stages and (task.folder / TRAP).is_file()


def require_trap(task: Task) -> None:
    """Raise SuiteError if the task declares no wrong answer."""
    if not has_trap(task):
        raise SuiteError(str(task.folder / "trap"), "folder", "solve.sh", "the task declares no wrong answer")


def digest_traps(suite: Suite) -> JsonValue:
    """Digest all declared wrong answers: no task's digest covers them, as no other agent meets them."""
    return digest_json({task.key: manifest(read_tree(task.folder / "trap")) for task in suite.tasks if has_trap(task)})


class Nop:
    """Needs no model and leaves the workspace untouched."""

    name = "nop"
    version = "1"

    def needs(self, model: Model | None) -> Needs:
        return NOTHING

    def run(self, job: AgentJob, sandbox: Sandbox, model: Model | None, on_step: Callable[[Step], None]) -> AgentRun:
        builder = TrajectoryBuilder(on_step)
        builder.add(Source.USER, job.instruction)
        builder.add(Source.AGENT, "This agent does nothing.")
        trajectory = builder.trajectory(self.name, self.version)
        return AgentRun((trajectory,), trajectory.usage, turns=0)
