"""Failures of the machine. Failures of the measured thing (a wrong answer, a time limit) are data, not exceptions.

RunnerError
├── SetupError            the experiment as described cannot run; the operator must change it
│   ├── NotOnThisMachine  nothing is wrong with it, but a key or a program is missing here; it may be there elsewhere
│   ├── ImageError        a task's image cannot be had as its files describe it; another try would fail alike
│   ├── SuiteError        a task folder is not what its format asks for (file, place, expectation)
│   └── SuiteProblems     all SuiteErrors that were found in one suite
├── InfrastructureError   the machine failed; the attempt is not scored and is tried again with backoff
│   ├── SandboxError      the sandbox died, could not start, or ran out of disk
│   │   └── SandboxRuined what ran in the sandbox made it unusable; a fresh one works. After an agent this is its result
│   ├── VerifierError     the verifier crashed or left no verdict
│   └── ModelUnavailable  rate limit, 5xx, connection; retry_after_seconds where the provider said so
├── ModelRefused          the provider rejects the request for good (unknown model, too long)
│   ├── ContextExceeded   the request does not fit the model's context window
│   └── KeyRefused        it rejects the key; no other call with this key will do better
├── TrialsLeft            all that is still open cannot run as it is; the rest of the episode is done
├── BudgetSpent           the run's money or tokens are used up; goes on where it stands once the budget is raised
├── FrozenLibrary         a write to a sealed library
└── LeaseLost             somebody else owns the episode now; stop at once, record nothing
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runner.base.account import Account
from runner.base.types import TrialSlot, Usage


class RunnerError(Exception):
    """Base of everything the runner raises on purpose."""


class SetupError(RunnerError):
    """The experiment as described cannot run; the operator must change it."""


class NotOnThisMachine(SetupError):
    """A key or program is missing here. The setup is right and may run on another machine."""


class ImageError(SetupError):
    """`log` is what the build said, at length."""

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message)
        self.log = log


class SuiteError(SetupError):
    """`expected` is empty where the message says it all. `feature`: a code of `runner.suites.features`, where the task asks
    for something that cannot be done here."""

    def __init__(self, path: str, place: str, expected: str, message: str, *, feature: str = "") -> None:
        super().__init__(f"{path}: {place}: {message}" + (f" (expected {expected})" if expected else ""))
        self.path, self.place, self.expected, self.message = path, place, expected, message
        self.feature = feature


class SuiteProblems(SetupError):
    """Why a suite is refused. The message names the first few problems; `problems` has all, in order of reading.

    `format` is the one it was read in, which may have been the wrong guess; `account` has every task below the path.
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
    """`log` is what the machine said about it, at length (a failed build, say); it is kept with the attempt."""

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message)
        self.log = log


class SandboxRuined(SandboxError):
    """What ran in the sandbox made it unusable. After an agent ran this is the agent's result."""


class VerifierError(InfrastructureError):
    """The verifier crashed or left no verdict."""


class ModelUnavailable(InfrastructureError):
    """`lost_usage` is what is known of the tokens its tries used; None where they used none."""

    def __init__(self, message: str, retry_after_seconds: float | None = None, lost_usage: Usage | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds, self.lost_usage = retry_after_seconds, lost_usage


class ModelRefused(RunnerError):
    """The provider rejects the request for good."""


class KeyRefused(ModelRefused):
    """`variable` is the name of the environment variable that holds the key, where it is known. Never its value."""

    def __init__(self, message: str, variable: str | None = None) -> None:
        super().__init__(message)
        self.variable = variable


class ContextExceeded(ModelRefused):
    """`window` and `prompt` in tokens, as far as the provider names them."""

    def __init__(self, message: str, window: int | None = None, prompt: int | None = None) -> None:
        super().__init__(message)
        self.window, self.prompt = window, prompt


class AccountRefused(ModelRefused):
    """The account has no credit, or the provider has no such model: no call of the run gets another answer."""


class TrialsLeft(RunnerError):
    """`reasons`: of each trial that was set aside, what its latest attempt met. The message names the first few."""

    SHOWN = 20

    def __init__(self, reasons: Mapping[TrialSlot, str]) -> None:
        first, *others = (f"{slot}: {reason.strip().partition(chr(10))[0][:500]}" for slot, reason in reasons.items())
        more = f" (and {len(others):,} more {'trial' if len(others) == 1 else 'trials'})" if others else ""
        shown = [*others[: self.SHOWN - 1], *(["..."] if len(others) >= self.SHOWN else [])]
        advice = "Everything else is done. Fix the problems listed here and retry, or skip these trials."
        super().__init__("\n".join([first + more, *shown, advice]))
        self.reasons = dict(reasons)


class BudgetSpent(RunnerError):
    """The run's money or tokens are used up. The run continues once the budget is raised."""


class FrozenLibrary(RunnerError):
    """A write to a sealed library, or a library whose files no longer match its seal."""


class LeaseLost(RunnerError):
    """Another worker owns the episode now. Stop at once and record nothing."""
