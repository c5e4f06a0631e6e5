"""A suite as it was read: what runs are made over, and what its reader could not take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from runner.base.errors import SuiteError
from runner.base.types import Environment


class AccountLine(NamedTuple):
    """Why tasks are not part of a suite. `tasks`: their folders below its path, in order."""

    reason: str
    tasks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Account:
    """All tasks below the path of a suite: found = loaded + set aside (cannot run here) + left out (not read), each with one
    reason, the most frequent reasons first."""

    found: int
    loaded: int
    set_aside: tuple[AccountLine, ...] = ()
    left_out: tuple[AccountLine, ...] = ()

    @property
    def count_set_aside(self) -> int:
        return sum(len(line.tasks) for line in self.set_aside)

    @property
    def count_left_out(self) -> int:
        return sum(len(line.tasks) for line in self.left_out)

    def sentence(self) -> str:
        parts = [f"{self.loaded:,} loaded"]
        parts += [f"{self.count_set_aside:,} set aside"] if self.set_aside else []
        parts += [f"{self.count_left_out:,} left out"] if self.left_out else []
        return f"Found {self.found:,} task{'' if self.found == 1 else 's'}: {', '.join(parts)}."


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
