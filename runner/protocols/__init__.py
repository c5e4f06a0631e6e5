"""Protocols: one file each, saying what comes next given what happened. PROTOCOLS finds it by name."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Iterator, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, cast

from runner.errors import SetupError
from runner.history import fold
from runner.protocols.steps import RunTrial
from runner.recorder import History
from runner.types import Environment, Slot, Suite

if TYPE_CHECKING:
    from runner.protocols.conditions import Condition
    from runner.protocols.plan import EpisodePlan
    from runner.protocols.steps import NextStep

PROTOCOLS: dict[str, str] = {
    "skillevolbench": "runner.protocols.skillevolbench",
    "skillflow": "runner.protocols.skillflow",
    "skilllearnbench": "runner.protocols.skilllearnbench",
    "skillgenbench": "runner.protocols.skillgenbench",
    "skillgenbench-agnostic": "runner.protocols.skillgenbench_agnostic",
    "probe": "runner.protocols.probe",
}
# Those an experiment can be launched under. A probe needs a library that some other episode learned.
LAUNCHED: tuple[str, ...] = tuple(name for name in PROTOCOLS if name != "probe")


def next_step(plan: EpisodePlan, history: History, aside: Collection[Slot] = ()) -> NextStep | None:
    """The next step of the plan's protocol. Pure: same arguments, same step.

    `aside`: open trials that are not to be tried now. None when the episode is complete, or nothing can go on without
    one of these.
    """
    for step in possible_steps(plan, history):
        if not (isinstance(step, RunTrial) and step.slot in aside):
            return step
    return None


def possible_steps(plan: EpisodePlan, history: History) -> Iterator[NextStep]:
    """The steps that may be taken now, in the order of the plan: the first open one, and whatever follows trials on
    which nothing depends."""
    steps: Iterator[NextStep] = _module(plan.protocol).open_steps(plan, fold(history))
    for step in steps:
        yield step
        if not isinstance(step, RunTrial) or plan.condition.feeds(step.slot.phase):
            return


def slots(plan: EpisodePlan) -> tuple[Slot, ...]:
    """Every trial the plan will run, in order."""
    return cast("tuple[Slot, ...]", _module(plan.protocol).slots(plan))


def conditions_of(protocol: str) -> Mapping[str, Condition]:
    """The protocol's conditions by name. SetupError names the known protocols."""
    return cast("Mapping[str, Condition]", _module(protocol).CONDITIONS)


def units(protocol: str, suite: Suite) -> tuple[Environment, ...]:
    """What the protocol's episodes are, in the suite's order: each unit is what one episode is planned over.

    A unit's key is unique in the suite and names its episode; where the protocol divides environments, the row of
    the environment is found by `unit.families[0].environment`.
    """
    return cast("tuple[Environment, ...]", _module(protocol).units(suite))


def prompt_version(protocol: str) -> str:
    """The version of what the protocol's author is told."""
    return cast(str, _module(protocol).PROMPT_VERSION)


def check(plan: EpisodePlan) -> None:
    """SetupError where the plan asks for something the protocol does not have."""
    _module(plan.protocol).check(plan)


def _module(name: str) -> ModuleType:
    if name not in PROTOCOLS:
        raise SetupError(f"unknown protocol {name!r}; known: {', '.join(sorted(LAUNCHED))}")
    return importlib.import_module(PROTOCOLS[name])
