"""Protocols: one file each, with the next step for any history. `registry.PROTOCOLS` finds it by name.

A protocol's module has `CONDITIONS`, `PROMPT_VERSION` (of its author's prompts), `check(plan)` (SetupError if it cannot
be run), `units(suite)`, `open_steps(plan, state)` and `list_asked(condition)` (its author's possible prompts, for
`prompt_choice`). It may have `slots(plan)`, `AUTHOR_LIMITS` and `NOTICE`. The functions below describe the others.
Conditions, plans, steps and the history are shared; doing a step is in `runner.engine`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import cast

from runner.agents import Limits
from runner.base.errors import SetupError
from runner.base.suite import Suite
from runner.base.types import Environment, TrialSlot
from runner.protocols.history import EpisodeState, fold
from runner.protocols.instruction import Notice
from runner.protocols.plan import AUTHOR_LIMITS, EpisodePlan, NextStep, RunTrial
from runner.protocols.recorder import History
from runner.protocols.registry import protocol_module


def next_step(plan: EpisodePlan, history: History, set_aside: Collection[TrialSlot] = ()) -> NextStep | None:
    """Return the next step of the plan's protocol. Pure: same arguments, same step.

    `set_aside`: open trials that are not to be tried now. None if the episode is complete, or nothing can continue
    without one of these.
    """
    for step in possible_steps(plan, history):
        if not (isinstance(step, RunTrial) and step.slot in set_aside):
            return step
    return None


def possible_steps(plan: EpisodePlan, history: History) -> Iterator[NextStep]:
    """The steps that may be taken now, in the order of the plan: the first open one and, after trials that no later
    step depends on, the next ones."""
    steps: Iterator[NextStep] = protocol_module(plan.protocol).open_steps(plan, fold(history))
    for step in steps:
        yield step
        if not isinstance(step, RunTrial) or plan.condition.feeds(step.slot.phase):
            return


def slots(plan: EpisodePlan) -> tuple[TrialSlot, ...]:
    """Return every trial the plan may run, in order: where the protocol does not say, those of its open steps at the
    beginning, because nothing the author does changes them."""
    module = protocol_module(plan.protocol)
    if hasattr(module, "slots"):
        return cast("tuple[TrialSlot, ...]", module.slots(plan))
    return tuple(step.slot for step in module.open_steps(plan, EpisodeState()) if isinstance(step, RunTrial))


def units(protocol: str, suite: Suite) -> tuple[Environment, ...]:
    """The units of the protocol's episodes, in the suite's order: an episode is planned over one of them.

    A unit's key is unique in the suite and names its episode. If the protocol divides environments,
    `unit.families[0].environment` finds the row of the environment.
    """
    return cast("tuple[Environment, ...]", protocol_module(protocol).units(suite))


def find_unit(protocol: str, suite: Suite, key: str) -> Environment:
    """Return what one episode of the protocol is about. SetupError names the known ones."""
    found = units(protocol, suite)
    for unit in found:
        if unit.key == key:
            return unit
    known = ", ".join(unit.key for unit in found)
    raise SetupError(f"suite {suite.key} has no environment {key!r} under {protocol}; known: {known}")


def author_limits(protocol: str) -> Limits:
    """Limits for each session of an agent as author, by the protocol's paper. AUTHOR_LIMITS if it has none."""
    return cast(Limits, getattr(protocol_module(protocol), "AUTHOR_LIMITS", AUTHOR_LIMITS))


def published_notice(protocol: str) -> Notice:
    """The benchmark's notice to agents about their library; "none" if the module has none."""
    return cast(Notice, getattr(protocol_module(protocol), "NOTICE", "none"))


def prompt_version(protocol: str) -> str:
    """The version of the protocol's author prompts."""
    return cast(str, protocol_module(protocol).PROMPT_VERSION)
