"""The findings of a suite's reader: what it set aside and why, problems of the whole, and notes for people.

A release is worth loading without the tasks that cannot run here. An item with problems is set aside by its name, with
all of them; reading continues with the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from runner.base.errors import SuiteError, SuiteProblems
from runner.base.text import escape_unprintable

Read = TypeVar("Read")
MAX_SHOWN = 120
NAMED = 3  # tasks named in one note
NOT_DOWNLOADED = "it is a Git LFS pointer; its content was not downloaded"


@dataclass(slots=True)
class Findings:
    """Collected while reading, so that a single read shows everything."""

    problems: list[SuiteError] = field(default_factory=list)  # of the current item
    set_aside: dict[str, list[SuiteError]] = field(default_factory=dict)  # "task a" -> its problems
    tasks: dict[Path, list[SuiteError]] = field(default_factory=dict)  # folder of a task that was read -> its problems
    families: dict[Path, list[SuiteError]] = field(default_factory=dict)  # likewise, without those of its tasks
    members: dict[Path, list[SuiteError]] = field(default_factory=dict)  # folder of a task -> problems of its family
    _notes: dict[str, list[str]] = field(default_factory=dict)  # text -> where

    def problem(self, source: Path, place: str, expected: str, message: str) -> None:
        self.problems.append(SuiteError(str(source), place, expected, message))

    def note(self, text: str, where: str) -> None:
        self._notes.setdefault(text, []).append(where)

    @contextmanager
    def keep_errors(self) -> Iterator[None]:
        """Keep a SuiteError raised inside as a problem, and continue reading after the block."""
        try:
            yield
        except SuiteProblems as error:
            self.problems.extend(error.problems)
        except SuiteError as error:
            self.problems.append(error)

    def apart(
        self,
        what: str,
        read: Callable[[], Read | None],
        *,
        task: Path | None = None,
        family: Path | None = None,
        members: Collection[Path] = (),
    ) -> Read | None:
        """Return the result of `read`. After a problem, set `what`, such as "task a", aside and return None. `task`,
        `family`: the folder of either. `members`: tasks of a family without its own folder; `read` may add to it."""
        before, value = len(self.problems), None
        try:
            with self.keep_errors():
                value = read()
        except (TypeError, AttributeError, ValueError, LookupError) as error:  # a shape that the reader did not expect
            expected = "files that the reader knows how to read"
            self.problems.append(SuiteError(what, "reading", expected, f"{type(error).__name__}: {error}"))
        mine = self.problems[before:]
        for place, known in ((task, self.tasks), (family, self.families)):
            if place is not None:
                known.setdefault(place, []).extend(mine)
        if not mine:
            return value
        for member in members:
            self.members.setdefault(member, []).extend(mine)
        del self.problems[before:]
        self.set_aside.setdefault(what, []).extend(mine)
        return None

    def all_problems(self) -> list[SuiteError]:
        return [*(problem for mine in self.set_aside.values() for problem in mine), *self.problems]

    def notes(self) -> tuple[str, ...]:
        """Return one sentence per finding, with the first places where it occurred."""
        return tuple(escape_unprintable(f"{text}: {_name_places(where)}") for text, where in self._notes.items())


def _name_places(places: list[str]) -> str:
    more = len(places) - NAMED
    return ", ".join(places[:NAMED]) + (f" and {more:,} more" if more > 0 else "")


def shorten_suite_value(value: object) -> str:
    """Show a value from a suite in a message: short, and without the content of nested values."""
    if isinstance(value, str | int | float | bool | None):
        text = (
            repr(value[: MAX_SHOWN + 1] if isinstance(value, str) else value) if not _huge(value) else "a huge number"
        )
        return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "..."
    return {"dict": "a mapping", "list": "a list"}.get(type(value).__name__, type(value).__name__)


def _huge(value: object) -> bool:
    # Python refuses to print an integer of several thousand digits.
    return isinstance(value, int) and value.bit_length() > 1_000
