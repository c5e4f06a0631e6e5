"""A suite as it was read: what runs are made over, and what its reader could not take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from runner.base.account import Account
from runner.base.errors import SuiteError
from runner.base.types import Environment


@dataclass(frozen=True, slots=True)
class Suite:
    """A suite with all its tasks, as its reader made it."""

    key: str
    name: str
    version: str
    digest: str
    environments: tuple[Environment, ...]
    trusted: bool = False  # may its tasks run in the local sandbox?
    notes: tuple[str, ...] = ()  # what its reader left out or could not take as it stands, for people
    set_aside: Mapping[str, tuple[SuiteError, ...]] = field(default_factory=dict)  # "task a" -> why it is not here
    account: Account | None = None  # of every task in its folder; None: it was read from none
