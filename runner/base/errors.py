"""Failures of the machine. Failures of the measured thing (a wrong answer, a time limit) are data, not exceptions.

RunnerError
├── SetupError            the experiment as described cannot run; the operator must change it
│   ├── NotOnThisMachine  nothing is wrong with it, but a key or a program is missing here; another machine may have it
│   ├── ImageError        a task's image cannot be built or fetched from its files; another try would fail alike
│   ├── SuiteError        a task folder does not match its format (file, place, expectation)
│   └── SuiteProblems     all SuiteErrors that were found in one suite
├── InfrastructureError   the machine failed; the attempt is not scored and is tried again with backoff
│   ├── SandboxError      the sandbox died, could not start, or ran out of disk
│   │   └── SandboxRuined what ran in the sandbox made it unusable; a fresh one works. After an agent this is its result
│   ├── VerifierError     the verifier crashed or left no verdict
│   └── ModelUnavailable  rate limit, 5xx, connection; retry_after_seconds if the provider gave it
├── ModelRefused          the provider rejects the request for good (unknown model, too long)
│   ├── ContextExceeded   the request does not fit the model's context window
│   └── KeyRefused        it rejects the key; no other call with this key will do better
├── TrialsLeft            all open trials cannot run as they are; the rest of the episode is done
├── BudgetSpent           the run's money or tokens are used up; the run continues when the budget is raised
├── FrozenLibrary         a write to a sealed library
└── LeaseLost             another worker owns the episode now; stop at once, record nothing
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from runner.base.text import plural
from runner.base.types import TrialSlot, Usage


class AccountLine(NamedTuple):
    """Why tasks are not part of a suite. `tasks`: their folders below its path, in order."""

    reason: str
    tasks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Account:
    """All tasks below the path of a suite: found = loaded + set aside (cannot run here) + left out (not read), each
    with one reason, the most frequent reasons first."""

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
        return f"Found {plural(self.found, 'task')}: {', '.join(parts)}."


class RunnerError(Exception):
    """Base of everything the runner raises on purpose."""


class SetupError(RunnerError):
    """The experiment as described cannot run; the operator must change it."""


class NotOnThisMachine(SetupError):
    """A key or program is missing here. The setup is right and may run on another machine."""


class ImageError(SetupError):
    """`log`: the build's output, at length."""

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message)
        self.log = log


class SuiteError(SetupError):
    """`expected` is empty if the message says it all. `feature`: a code of `runner.suites.features`, if the task
    asks for something that cannot be done here."""

    def __init__(self, path: str, place: str, expected: str, message: str, *, feature: str = "") -> None:
        super().__init__(f"{path}: {place}: {message}" + (f" (expected {expected})" if expected else ""))
        self.path, self.place, self.expected, self.message = path, place, expected, message
        self.feature = feature


class SuiteProblems(SetupError):
    """Why a suite is refused. The message names the first few problems; `problems` has all, in reading order.

    `format` is the one it was read in, which may have been the wrong guess. `account` has every task below the path.
    """

    SHOWN = 5

    def __init__(self, problems: Sequence[SuiteError], format: str = "", account: Account | None = None) -> None:
        lines = [f"read as {format}:"] if format else []
        lines += [str(problem) for problem in problems[: self.SHOWN]]
        more = len(problems) - self.SHOWN
        super().__init__("\n".join([*lines, f"... and {more:,} more"] if more > 0 else lines))
        self.problems, self.format, self.account = tuple(problems), format, account


class InfrastructureError(RunnerError):
    """The machine failed. The attempt is not scored; it is tried again with backoff."""


class SandboxError(InfrastructureError):
    """`log`: the machine's own output at length (of a failed build, say). It is kept with the attempt."""

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message)
        self.log = log


class SandboxRuined(SandboxError):
    """What ran in the sandbox made it unusable. After an agent ran this is the agent's result."""


class VerifierError(InfrastructureError):
    """The verifier crashed or left no verdict."""


class ModelUnavailable(InfrastructureError):
    """`lost_usage`: known tokens of its tries, or None if they used none."""

    def __init__(self, message: str, retry_after_seconds: float | None = None, lost_usage: Usage | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds, self.lost_usage = retry_after_seconds, lost_usage


class ModelRefused(RunnerError):
    """The provider rejects the request for good."""


class KeyRefused(ModelRefused):
    """`variable` names the environment variable of the key, if known. Never its value."""

    def __init__(self, message: str, variable: str | None = None) -> None:
        super().__init__(message)
        self.variable = variable


class ContextExceeded(ModelRefused):
    """`window` and `prompt` in tokens, if the provider names them."""

    def __init__(self, message: str, window: int | None = None, prompt: int | None = None) -> None:
        super().__init__(message)
        self.window, self.prompt = window, prompt


class AccountRefused(ModelRefused):
    """The account has no credit, or the provider has no such model: no call of the run gets another answer."""


class TrialsLeft(RunnerError):
    """`reasons`: the error in the latest attempt of each trial set aside. The message names the first few."""

    SHOWN = 20

    def __init__(self, reasons: Mapping[TrialSlot, str]) -> None:
        first, *others = (f"{slot}: {reason.strip().partition(chr(10))[0][:500]}" for slot, reason in reasons.items())
        more = f" (and {len(others):,} more {'trial' if len(others) == 1 else 'trials'})" if others else ""
        shown = [*others[: self.SHOWN - 1], *(["..."] if len(others) >= self.SHOWN else [])]
        advice = "Everything else is done. Fix the problems listed here and retry, or skip these trials."
        super().__init__("\n".join([first + more, *shown, advice]))
        self.reasons = dict(reasons)


class BudgetSpent(RunnerError):
    """The run's money or tokens are used up. The run continues when the budget is raised."""


class FrozenLibrary(RunnerError):
    """A write to a sealed library, or a library whose files no longer match its seal."""


class LeaseLost(RunnerError):
    """Another worker owns the episode now. Stop at once and record nothing."""
