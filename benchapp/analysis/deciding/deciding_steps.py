"""Find the step that most likely decided a check, and say by what rule. Pure.

Rules, the first that holds:

1. for a check that found no value: the step that removed a file named by it, never written again: *removed solve.py*;
2. the first result that prints a value found by the check: *first prints 202.05*;
3. with it, the last earlier write of a file that the printing command names, else of the program that ran last:
   *wrote solve.py*;
4. the first result with another value that the check names: *first shows 999*;
5. the last write of a file that the check names, or of a program that writes it: *last write of solve.py*;
6. the last write of the only program that the agent wrote and ran: *last write of solve.py, the only program it ran*;
7. the step that handed the work in: no step matches.

They cannot see: values that were never printed, or printed in another form; files written by a program the agent wrote;
anything beyond the beginning of a text of more than 32 KiB.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

from benchapp.analysis.deciding.named_values import NamedValues
from benchapp.analysis.deciding.step_glances import StepGlance, StepKind, is_look
from benchapp.analysis.trial_rules.agent_acts import list_commands
from benchapp.models import Trajectory
from benchapp.record.trajectory_store import iterate_beginning
from runner.base.recent import Recent
from runner.base.types import Source, Step

MOST_TRIES = 2_000  # places to check whether a value is only a part of another
_WORD = re.compile(r"[\w./-]{2,}")
_RUNS = re.compile(
    r"(?:\b(?:python[\d.]{0,5}|bash|sh|node|ruby|perl|Rscript|go run|uv run)[ \t]{1,9}(?:-\w{1,9}[ \t]{1,9}){0,4}|(?<!\S)(?=\./))"  # noqa: E501
    r"['\"]?(?:[\w.~+-]{0,80}/){0,8}(?P<file>[\w+-][\w.+-]{0,80}\.[A-Za-z]\w{0,4})"
)
_GOES_ON = re.compile(r"\w|\.\d")


class Rule(StrEnum):
    REMOVED = "removed"
    PRINTS = "prints"
    WROTE = "wrote"
    SHOWS = "shows"
    LAST_WRITE = "last-write"
    ONLY_PROGRAM = "only-program"
    SUBMIT = "submit"
    DIFFERS = "differs"  # of a comparison with a trial that passed


_WORDS = {
    Rule.REMOVED: "removed {}",
    Rule.PRINTS: "first prints {}",
    Rule.WROTE: "wrote {}",
    Rule.SHOWS: "first shows {}",
    Rule.LAST_WRITE: "last write of {}",
    Rule.ONLY_PROGRAM: "last write of {}, the only program it ran",
    Rule.SUBMIT: "no step matches; handed in here",
    Rule.DIFFERS: "first differs from a pass",
}
# The order for opening steps: what was written before what it printed.
_CHIEF_FIRST = (Rule.REMOVED, Rule.WROTE, Rule.LAST_WRITE, Rule.ONLY_PROGRAM, Rule.PRINTS, Rule.SHOWS)


@dataclass(frozen=True, slots=True)
class DecidingStep:
    """`about`: the value or the file."""

    step: int
    rule: Rule
    about: str = ""

    @property
    def words(self) -> str:
        return _WORDS[self.rule].format(self.about)

    @property
    def value(self) -> str:
        """Return the value to highlight in the step's result."""
        return self.about if self.rule in (Rule.PRINTS, Rule.SHOWS) else ""


class StepIndex:
    """Index the agent's steps: glances, all results as one text, and the words of each command (`calls`).

    `starts`, `numbers`: the offset of each result in the text, and its step. `first`: the offset of the results of the
    first step that did more than look; 0 if there is none. Looking at inputs gives no results: the step that used them
    decided their values.
    """

    def __init__(self, steps: Iterable[Step]) -> None:
        self.glances: list[StepGlance] = []
        self.starts: list[int] = []
        self.numbers: list[int] = []
        self.calls: dict[int, str] = {}
        texts, at, first_act = list[str](), 0, None
        for step in steps:
            self.glances.append(StepGlance(step))
            if step.source is not Source.AGENT:
                continue
            if first_act is None and not all(map(is_look, step.tool_calls)):
                first_act = step.number
            commands = (command[:20_000] for call in step.tool_calls for command in list_commands(call))
            self.calls[step.number] = "\n".join(commands)
            for result in step.observations:
                self.starts.append(at)
                self.numbers.append(step.number)
                texts.append(result.content)
                at += len(result.content) + 1
        self.results = "\n".join(texts)
        place = len(self.numbers) if first_act is None else bisect_left(self.numbers, first_act)
        self.first = self.starts[place] if place < len(self.starts) else 0

    def find_first_result(self, value: str, start: int = 0) -> int | None:
        """Return the first step whose result has the whole value: 41.2 does not match in 141.2 or 41.27."""
        at = self.results.find(value, start)
        for _ in range(MOST_TRIES):
            if at < 0:
                break
            if self._stands_alone(at, at + len(value)):
                return self.numbers[bisect_right(self.starts, at) - 1]
            at = self.results.find(value, at + 1)
        return None

    def _stands_alone(self, start: int, end: int) -> bool:
        before, after = self.results[max(0, start - 2) : start], self.results[end : end + 2]
        joined = before[-1:].isalnum() or before[-1:] == "_" or (before[-1:] == "." and before[:1].isdigit())
        return not joined and not _GOES_ON.match(after)

    def find_last_write(self, name: str, before: int | None = None) -> int | None:
        """Return the last step that wrote the file; `before`: up to this step."""
        writers = (
            one.number for one in self.glances if name in one.writes and (before is None or one.number <= before)
        )
        return max(writers, default=None)

    def find_last_program(self, name: str) -> tuple[int, str] | None:
        """Return the last step that wrote a program which writes the file, with the program's name."""
        writers = [(one.number, program) for one in self.glances for file, program in one.through if file == name]
        return max(writers, default=None)

    def find_removal(self, name: str, folders: Iterable[str]) -> int | None:
        """Return the last step that removed the file or its folder; None if that or a later step wrote it."""
        gone = [
            one.number
            for one in self.glances
            if any(fnmatchcase(name, removed) or removed in folders for removed in one.removes)
        ]
        last = max(gone, default=None)
        wrote = self.find_last_write(name)
        return last if last is not None and (wrote is None or wrote < last) else None

    def find_last_run(self, before: int) -> tuple[int, str] | None:
        """Return the last of the agent's programs that ran up to this step, with the step that last wrote it."""
        for one in reversed(self.glances):
            for name in _list_programs(self.calls.get(one.number, "")) if one.number <= before else ():
                if (wrote := self.find_last_write(name, before=one.number)) is not None:
                    return wrote, name
        return None

    def find_only_program(self) -> tuple[int, str] | None:
        """Return the last write of the program that the agent wrote and ran; None if there are several."""
        ran = {name for calls in self.calls.values() for name in _list_programs(calls)}
        wrote = [(number, name) for name in ran if (number := self.find_last_write(name)) is not None]
        return wrote[0] if len(wrote) == 1 else None

    @property
    def handed_in(self) -> int | None:
        """Return the last submit, else the last step of the agent."""
        agents = [one for one in self.glances if one.is_by_agent]
        submits = [one for one in agents if one.kind is StepKind.SUBMIT]
        return next((one.number for one in reversed(submits or agents)), None)


def find_deciding_steps(named: NamedValues, index: StepIndex, *, failed: bool = True) -> tuple[DecidingStep, ...]:
    """Return steps in the order of the rules; empty for a passed check that no step matches, or without steps."""
    if failed and not named.found:
        gone = [(step, name) for name in named.files if (step := index.find_removal(name, named.folders)) is not None]
        if gone:
            return (DecidingStep(max(gone)[0], Rule.REMOVED, max(gone)[1]),)
    if printed := _find_first(named.found, index, index.first):
        step, value = printed
        return (DecidingStep(step, Rule.PRINTS, value), *_find_origin(step, index))
    if shown := _find_first(named.named, index):
        return (DecidingStep(shown[0], Rule.SHOWS, shown[1]),)
    writes = [(wrote, name) for name in named.files if (wrote := index.find_last_write(name)) is not None]
    if writes or (writes := [found for name in named.files if (found := index.find_last_program(name))]):
        writer, file = max(writes)
        return (DecidingStep(writer, Rule.LAST_WRITE, file),)
    if failed and (ran := index.find_only_program()):
        return (DecidingStep(ran[0], Rule.ONLY_PROGRAM, ran[1]),)
    last = index.handed_in
    return (DecidingStep(last, Rule.SUBMIT),) if failed and last is not None else ()


def choose_chief(found: Sequence[DecidingStep]) -> DecidingStep | None:
    """Return the one to read first; None if only the last rule holds."""
    real = [one for one in found if one.rule is not Rule.SUBMIT]
    return min(real, key=lambda one: _CHIEF_FIRST.index(one.rule), default=None)


def _find_first(values: Sequence[str], index: StepIndex, start: int = 0) -> tuple[int, str] | None:
    """Return, of the values that one step shows, the one that the check names first."""
    found = [(step, value) for value in values if (step := index.find_first_result(value, start)) is not None]
    return min(found, key=lambda each: each[0], default=None)


def _find_origin(step: int, index: StepIndex) -> tuple[DecidingStep, ...]:
    """Return what wrote a file that the command names, else the last program run; nothing if the same step did."""
    words = {word.rpartition("/")[2] for word in _WORD.findall(index.calls.get(step, ""))}
    writes = [
        (writer, name) for name in sorted(words) if (writer := index.find_last_write(name, before=step)) is not None
    ]
    found = max(writes, default=None) or index.find_last_run(before=step)
    return () if found is None or found[0] == step else (DecidingStep(found[0], Rule.WROTE, found[1]),)


def _list_programs(command: str) -> list[str]:
    """List the programs that a command runs from files."""
    return [match["file"] for match in _RUNS.finditer(command)]


MAX_STEPS = 2_000  # of a longer one a page lists chunks, and no rule searches it
MAX_CHUNKS = 6  # of at most 1 MiB each
KEPT_CHARS = 24_000_000


KEPT: Recent[str, StepIndex] = Recent(KEPT_CHARS, lambda index: len(index.results) + 400 * len(index.glances))


def read_step_index(trajectory: Trajectory | None, chunks: int) -> StepIndex | None:
    """Return None without a trajectory, or for one beyond the bounds. `chunks`: how many it has. At most one query."""
    if trajectory is None or not 0 < trajectory.steps_total <= MAX_STEPS or chunks > MAX_CHUNKS:
        return None
    found = KEPT.get(trajectory.digest)
    if found is None:
        steps = iterate_beginning(trajectory, steps=MAX_STEPS, chunks=MAX_CHUNKS)
        found = StepIndex(stored.step for stored, _ in steps)
        KEPT.put(trajectory.digest, found)
    return found
