"""What an episode works with: the agent, the models, the sandboxes, a clock, and what is kept out of the record."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from runner.agents import Agent, make_agent
from runner.authoring.packs.chosen_prompts import ChosenPrompts
from runner.base.errors import SetupError
from runner.base.suite import Suite
from runner.base.types import Usage
from runner.engine.cleaning import Cleaner
from runner.generators.generator_model import GeneratorModel
from runner.models import Model, Waits, make_model
from runner.protocols.plan import EpisodePlan
from runner.protocols.prompt_choice import choose_prompts
from runner.sandboxes import SandboxKind, sandbox_kind


def no_budget(spending: Usage) -> None:
    """A run without a budget."""


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Toolbox:
    """Everything an episode needs in addition to its plan and its record."""

    agent: Agent
    sandboxes: SandboxKind
    agent_model: Model | None = None
    author_model: Model | None = None
    judge_model: Model | None = None
    prompts: ChosenPrompts = ChosenPrompts()
    author_agent: Agent | None = None  # works for the author's answers; None: its model is asked once for each
    clock: Callable[[], datetime] = utc_now
    clean: Cleaner = field(default_factory=Cleaner)
    budget: Callable[[Usage], None] = (
        no_budget  # called before each model call, with the usage of this attempt; raises BudgetSpent
    )
    has_budget: bool = False  # then calls without usage data are refused: nothing would ever count against it


def toolbox_for(
    plan: EpisodePlan, suite: Suite, clean: Cleaner | None = None, sleep: Callable[[float], None] = time.sleep
) -> Toolbox:
    """The tools the plan names. SetupError if one is unknown, missing, or not allowed for this suite.

    `sleep` makes the pauses before an unreachable model is asked again; it may raise LeaseLost to end them.
    """
    if plan.sandbox == "local" and not suite.trusted:
        raise SetupError(f"suite {suite.key} is not trusted: its tasks need a sandbox that confines them, not 'local'")
    if plan.condition.has_author and plan.author_model is None:
        raise SetupError(f"{plan.condition.name} needs an author model")
    author_model = None if plan.author_model is None else make_model(plan.author_model)
    if plan.sandbox != "docker" and isinstance(author_model, GeneratorModel) and author_model.container_reason:
        told = f"{author_model.name}: {author_model.container_reason}"
        raise SetupError(f"{told} (expected 'docker', not {plan.sandbox!r})")
    agent_model = None if plan.agent_model is None else make_model(plan.agent_model)
    judge_model = None if plan.judge_model is None else make_model(plan.judge_model)
    for model in (agent_model, author_model, judge_model):
        if isinstance(model, Waits):
            model.sleep = sleep
            model.load()
    return Toolbox(
        agent=make_agent(plan.agent),
        sandboxes=sandbox_kind(plan.sandbox),
        agent_model=agent_model,
        author_model=author_model,
        judge_model=judge_model,
        prompts=choose_prompts(plan.condition, plan.protocol),
        author_agent=None if plan.author_agent is None else make_agent(plan.author_agent),
        clean=clean or Cleaner(),
    )
