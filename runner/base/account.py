"""An account of all tasks below the path of a suite."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


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
