"""Who solves the task. One file per alternative; AGENTS finds it by name."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from runner.base.errors import SetupError
from runner.base.types import Failure, Step, Task, Trajectory, Usage, Verdict
from runner.models import Model
from runner.sandboxes import Sandbox
from runner.sandboxes.needs import Needs


@dataclass(frozen=True, slots=True)
class Limits:
    """How long an agent may work on one attempt."""

    max_turns: int = 40
    max_output_tokens: int = 8_000  # of one completion
    max_total_tokens: int | None = None  # of all of an attempt's completions, read and written; None: no limit
    timeout_seconds: float | None = None  # None: the task's own


def nothing_stops() -> None:
    pass


@dataclass(frozen=True, slots=True)
class AgentJob:
    """What an agent is asked to do in one attempt."""

    task: Task
    instruction: str  # the task's instruction plus any additions of the condition (past trajectories, skill notice)
    skills: tuple[str, ...]  # slugs mounted at ../skills; empty when the condition has no library
    seed: int
    limits: Limits = Limits()
    before_call: Callable[[], None] = nothing_stops  # called before each model call; BudgetSpent ends the attempt
    library: bool = False  # the condition has one: a tool for skills may be offered, even while it is empty
    descriptions: Mapping[str, str] = field(default_factory=dict)  # slug -> what its SKILL.md says it is for
    advised: bool = True  # if the harness lists the skills, it advises opening those that could fit


@dataclass(frozen=True, slots=True)
class Verified:
    """The verdict of the task's verifier, run elsewhere, and how long agent and verifier took there."""

    verdict: Verdict
    agent_seconds: float | None
    verifier_seconds: float | None


@dataclass(frozen=True, slots=True)
class AgentRun:
    """What an agent leaves in addition to the files in its sandbox."""

    trajectories: tuple[Trajectory, ...]
    usage: Usage
    turns: int | None
    failure: Failure | None = None  # the agent's own: time, turns, unreadable output
    verified: Verified | None = None  # set if the verifier ran together with the agent
    queued_seconds: float = 0.0  # spent waiting for a free slot of its model's server


PROGRAM_FAILED = "ProgramFailed"  # the type of a failure: a program crashed, or says that it failed


class Agent(Protocol):
    """One alternative. Copy `oracle.py` for an agent of your own, `codex_cli.py` for a third-party program."""

    name: str
    version: str

    def needs(self, model: Model | None) -> Needs:
        """Return what its sandbox must hold. Raises SetupError if this model cannot be used with this agent, and
        NotOnThisMachine if only this machine lacks something."""
        ...

    def run(self, job: AgentJob, sandbox: Sandbox, model: Model | None, on_step: Callable[[Step], None]) -> AgentRun:
        """Run to the end of the agent's own limits. Raises InfrastructureError if the machine or provider fails."""
        ...


AGENTS: dict[str, str] = {
    "oracle": "runner.agents.oracle:Oracle",
    "nop": "runner.agents.oracle:Nop",
    "trap": "runner.agents.oracle:Trap",
    "shell": "runner.agents.shell:Shell",
    "claude-code": "runner.agents.claude_code:ClaudeCode",
    "codex": "runner.agents.codex_cli:Codex",
    "gemini-cli": "runner.agents.gemini_cli:GeminiCli",
    "qwen-code": "runner.agents.qwen_code:QwenCode",
    "kimi-code": "runner.agents.kimi_code:KimiCode",
    "harbor-oracle": "runner.agents.harbor_agents:HarborOracle",
    "harbor-terminus-2": "runner.agents.harbor_agents:Terminus2",
}
TITLES = {  # as their makers write them
    "shell": "shell loop",
    "claude-code": "Claude Code",
    "codex": "Codex",
    "gemini-cli": "Gemini CLI",
    "qwen-code": "Qwen Code",
    "kimi-code": "Kimi Code",
    "harbor-oracle": "Harbor's oracle",
    "harbor-terminus-2": "Terminus 2",
}
IN_HARBOR = frozenset({"harbor-oracle", "harbor-terminus-2"})  # these work in the sandbox "harbor" only
MODELLESS = frozenset({"oracle", "nop", "trap", "harbor-oracle"})  # these ask no model
# These have a tool that opens a skill by its name. Codex has none: it reads skills as files.
WITH_SKILL_TOOL = frozenset({"shell", "claude-code", "gemini-cli", "qwen-code", "kimi-code"})


def agent_title(name: str) -> str:
    """Return its name for people, or the code of an unknown agent."""
    return TITLES.get(name, name)


def make_agent(name: str) -> Agent:
    """Return the agent of that name. SetupError names the known ones."""
    if name not in AGENTS:
        raise SetupError(f"unknown agent {name!r}; known: {', '.join(sorted(AGENTS))}")
    module, _, attribute = AGENTS[name].partition(":")
    agent: Agent = getattr(importlib.import_module(module), attribute)()
    return agent
