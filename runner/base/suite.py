"""A suite as it was read, and what its reader could not accept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from runner.base.errors import Account, SuiteError
from runner.base.types import Environment, Family, Task


@dataclass(frozen=True, slots=True)
class Suite:
    """A suite with all its tasks, as built by its reader."""

    key: str
    name: str
    version: str
    digest: str
    environments: tuple[Environment, ...]
    trusted: bool = False  # may its tasks run in the local sandbox?
    notes: tuple[str, ...] = ()  # what its reader left out or could not accept unchanged, for people
    set_aside: Mapping[str, tuple[SuiteError, ...]] = field(default_factory=dict)  # "task a" -> why it is not here
    account: Account | None = None  # of every task in its folder; None: it was read from none

    @property
    def families(self) -> list[Family]:
        return [family for environment in self.environments for family in environment.families]

    @property
    def tasks(self) -> list[Task]:
        return [task for environment in self.environments for task in environment.tasks]
