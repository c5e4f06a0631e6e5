"""What an episode works with: the agent, the models, the sandboxes, a clock, and what is kept out of the record.

An agent in the local sandbox can print the worker's secrets. The caller defines what counts as a secret (benchapp's
redaction). It is applied here: once, right after the agent ran, the verifier finished or a model answered. Trajectory,
compactions, skill uses, evidence and verdict are then made of the same texts and agree.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from runner.agents import Agent, AgentRun, make_agent
from runner.authoring.chosen_prompts import ChosenPrompts
from runner.base.errors import NotOnThisMachine, SetupError
from runner.base.suite import Suite
from runner.base.types import Failure, ModelReply, ModelRequest, Step, Trajectory, Usage, Verdict
from runner.generators.generator_model import GeneratorModel
from runner.models import Model, Waits, make_model
from runner.models.wire.call_slots import Endpoint, call_slot
from runner.models.wire.carried import clean_carried
from runner.protocols.plan import EpisodePlan
from runner.protocols.prompt_choice import choose_prompts
from runner.sandboxes import SandboxKind, sandbox_kind

T = TypeVar("T")


def as_it_is(value: T) -> T:
    return value


@dataclass(frozen=True, slots=True)
class Cleaner:
    """`text` and `step` must be deterministic, and cleaning twice must change nothing."""

    text: Callable[[str], str] = as_it_is
    step: Callable[[Step], Step] = as_it_is

    def run(self, run: AgentRun) -> AgentRun:
        failure = None if run.failure is None else self._failure(run.failure)
        return replace(run, trajectories=tuple(map(self._trajectory, run.trajectories)), failure=failure)

    def _trajectory(self, trajectory: Trajectory) -> Trajectory:
        source = None if trajectory.source is None else self.text(trajectory.source)
        head = replace(
            trajectory.head,
            agent_name=self._value(trajectory.head.agent_name),
            agent_version=self._value(trajectory.head.agent_version),
            model=self._value(trajectory.head.model),
            extra=self._value(trajectory.head.extra),
        )
        return replace(trajectory, head=head, steps=tuple(map(self.step, trajectory.steps)), source=source)

    def _failure(self, failure: Failure) -> Failure:
        return replace(failure, message=self.text(failure.message), traceback=self.text(failure.traceback))

    def verdict(self, verdict: Verdict) -> Verdict:
        """Names and messages of checks and dimensions come from files that a trial may have changed."""
        return verdict.with_texts(self.text)

    def request(self, request: ModelRequest) -> ModelRequest:
        """Clean what is sent, so that it is also what is recorded."""
        return replace(request, messages=tuple(self._value(dict(message)) for message in request.messages))

    def reply(self, reply: ModelReply) -> ModelReply:
        """Clean every text in any field: a provider may echo a key anywhere."""
        found: ModelReply = self._with_texts(replace(reply, carried=None))
        return replace(found, carried=clean_carried(reply.carried, self._value))

    def _with_texts(self, value: object) -> Any:
        """Clean every text in a runner value."""
        if isinstance(value, tuple):
            return tuple(map(self._with_texts, value))
        if not is_dataclass(value) or isinstance(value, type):
            return self._value(value)
        return replace(value, **{each.name: self._with_texts(getattr(value, each.name)) for each in fields(value)})

    def _value(self, value: object) -> Any:
        """Clean every text in a JSON value, names included."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(name)): self._value(item) for name, item in value.items()}
        return [self._value(item) for item in value] if isinstance(value, list | tuple) else value


def no_budget(spending: Usage) -> None:
    """Allow every call: the run has no budget."""


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
    sleep: Callable[[float], None] = time.sleep  # may raise to end a wait
    clean: Cleaner = field(default_factory=Cleaner)
    budget: Callable[[Usage], None] = (
        no_budget  # called before each model call, with the usage of this attempt; raises BudgetSpent
    )
    has_budget: bool = False  # then calls without usage data are refused: nothing would ever count against it

    def place(self) -> AbstractContextManager[float]:
        """Wait for a place on the engine of the sandboxes, and hold it. Yields the seconds waited.

        An engine's processors, disks and quotas are shared by all workers, so the limit on trials at a time is too. The
        wait comes before an attempt begins, and is part of no measurement. NotOnThisMachine for a nonsense limit.
        """
        most = read_engine_trials()
        engine = self.sandboxes.engine() if most else ""
        return call_slot(Endpoint("the engine of sandboxes", f"engine {engine}", most), self.sleep)


def read_engine_trials() -> int | None:
    """Read the limit on trials at a time on one engine; None: there is none."""
    limit = os.environ.get("SKILLGLASS_ENGINE_TRIALS", "").strip()
    if limit and not (limit.isascii() and limit.isdigit() and int(limit)):
        raise NotOnThisMachine(
            f"SKILLGLASS_ENGINE_TRIALS={limit!r}: expected a positive number, or nothing for no limit"
        )
    return int(limit) if limit else None


def toolbox_for(
    plan: EpisodePlan, suite: Suite, clean: Cleaner | None = None, sleep: Callable[[float], None] = time.sleep
) -> Toolbox:
    """Return the tools the plan names. SetupError if one is unknown, missing, or not allowed for this suite. `sleep`
    makes the pauses before an unreachable model is asked again; it may raise LeaseLost to end them."""
    if plan.sandbox == "local" and not suite.trusted:
        raise SetupError(f"suite {suite.key} is not trusted: its tasks need a sandbox that confines them, not 'local'")
    if plan.condition.has_author and plan.author_model is None:
        raise SetupError(f"{plan.condition.name} needs an author model")
    author_model = None if plan.author_model is None else make_model(plan.author_model)
    if plan.sandbox != "docker" and isinstance(author_model, GeneratorModel) and author_model.container_reason:
        message = f"{author_model.name}: {author_model.container_reason}"
        raise SetupError(f"{message} (expected 'docker', not {plan.sandbox!r})")
    agent_model = None if plan.agent_model is None else make_model(plan.agent_model)
    judge_model = None if plan.judge_model is None else make_model(plan.judge_model)
    for model in (agent_model, author_model, judge_model):
        if isinstance(model, Waits):
            model.sleep = sleep
            model.load()
    return Toolbox(
        agent=make_agent(plan.agent),
        sandboxes=sandbox_kind(plan.sandbox),
        sleep=sleep,
        agent_model=agent_model,
        author_model=author_model,
        judge_model=judge_model,
        prompts=choose_prompts(plan.condition, plan.protocol),
        author_agent=None if plan.author_agent is None else make_agent(plan.author_agent),
        clean=clean or Cleaner(),
    )
