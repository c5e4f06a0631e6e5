"""Protocols: one file each, saying what comes next given what happened. PROTOCOLS finds it by name."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, cast

from runner.errors import SetupError
from runner.recorder import History
from runner.types import Slot

if TYPE_CHECKING:
    from runner.protocols.plan import EpisodePlan
    from runner.protocols.steps import NextStep

PROTOCOLS: dict[str, str] = {"skillevolbench": "runner.protocols.skillevolbench"}


def next_step(plan: EpisodePlan, history: History) -> NextStep | None:
    """The next step of the plan's protocol, None when the episode is complete. Pure: same arguments, same step."""
    return cast("NextStep | None", _module(plan.protocol).next_step(plan, history))


def slots(plan: EpisodePlan) -> tuple[Slot, ...]:
    """Every trial the plan will run, in order."""
    return cast("tuple[Slot, ...]", _module(plan.protocol).slots(plan))


def _module(name: str) -> ModuleType:
    if name not in PROTOCOLS:
        raise SetupError(f"unknown protocol {name!r}; known: {', '.join(sorted(PROTOCOLS))}")
    return importlib.import_module(PROTOCOLS[name])
