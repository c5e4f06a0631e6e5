"""The agent that does nothing: shows a task's verdict for the untouched workspace."""

from __future__ import annotations

from collections.abc import Callable

from runner.agents import AgentJob, AgentRun
from runner.agents.agent_trajectory import Notebook
from runner.base.types import Source, Step
from runner.models import Model
from runner.sandboxes import Sandbox
from runner.sandboxes.needs import NOTHING, Needs


class Nop:
    """Needs no model and leaves the workspace untouched."""

    name = "nop"
    version = "1"

    def needs(self, model: Model | None) -> Needs:
        return NOTHING

    def run(self, job: AgentJob, sandbox: Sandbox, model: Model | None, on_step: Callable[[Step], None]) -> AgentRun:
        notebook = Notebook(on_step)
        notebook.add(Source.USER, job.instruction)
        notebook.add(Source.AGENT, "This agent does nothing.")
        trajectory = notebook.trajectory(self.name, self.version)
        return AgentRun((trajectory,), trajectory.usage, turns=0)
