"""The agent that runs the task's own solution: shows that the task can be solved and its verifier agrees."""

from __future__ import annotations

from collections.abc import Callable

from runner.agents import AgentJob, AgentRun
from runner.agents.agent_trajectory import Notebook
from runner.base.errors import SuiteError
from runner.base.host_variables import resolve_variables
from runner.base.types import Failure, Files, Observation, Source, Step, Task, ToolCall
from runner.models import Model
from runner.sandboxes import SOLUTION, Completed, Sandbox
from runner.sandboxes.needs import NOTHING, Needs
from runner.suites.tasks.task_files import read_solution_files, script_command


class Oracle:
    """Needs no model: it runs solution/solve.sh."""

    name = "oracle"
    version = "1"
    says = "The task's own solution."
    failed = ("SolutionFailed", "The solution")  # type of the failure, and its subject

    def needs(self, model: Model | None) -> Needs:
        return NOTHING

    def run(self, job: AgentJob, sandbox: Sandbox, model: Model | None, on_step: Callable[[Step], None]) -> AgentRun:
        """Raises SuiteError if the task has no such script. A script that fails is the run's failure."""
        notebook = Notebook(on_step)
        notebook.add(Source.USER, job.instruction)
        files = self.read_files(job.task)
        sandbox.put(SOLUTION, files)  # outside the workspace, so that it stays as the agent's
        seconds = job.limits.timeout_seconds or job.task.agent_timeout_seconds
        command = script_command(f"{sandbox.path(SOLUTION)}/solve.sh", files["solve.sh"])
        environment = resolve_variables(job.task.solution_environment, job.task.machine.host_variables)
        done = sandbox.execute(command, timeout_seconds=seconds, environment=environment)
        call = ToolCall("1", "shell", {"command": command})
        observation = Observation(done.output, call.id, is_error=done.exit_code != 0)
        notebook.add(Source.AGENT, self.says, tool_calls=(call,), observations=(observation,))
        trajectory = notebook.trajectory(self.name, self.version)
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
