"""A verdict as a reader wants it: failed checks first, grouped by who may know of them, with counts."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from benchapp.analysis.deciding.deciding_steps import DecidingStep
from benchapp.analysis.deciding.named_values import Expectation
from benchapp.models import Attempt, Check, Dimension, Verdict
from inspector.web.text.visible import visible
from runner.base.types import CheckGroup, CheckStatus

MAX_CHECKS = 1_000  # drawn per group; failed ones come first, the rest is counted
MAX_MESSAGE = 50_000

_MORE = re.compile(r"\Aand (\d{1,9}) more\b[.;, ]*")
GROUP_WORDS = {
    CheckGroup.PUBLIC: "public",
    CheckGroup.HIDDEN: "hidden",
    CheckGroup.PROCESS: "process",
    CheckGroup.TEST: "test",
}
_ORDER = {CheckStatus.ERROR: 0, CheckStatus.FAILED: 1, CheckStatus.SKIPPED: 2, CheckStatus.PASSED: 3}


@dataclass(frozen=True, slots=True)
class CheckLine:
    """One check with as much of its message as the page draws."""

    name: str
    status: str
    message: str
    message_left_out: int = 0  # characters
    compared: tuple[Expectation, ...] = ()  # what it expected and found, as far as its words say so
    pk: int | None = None  # what an address names it by
    decided: tuple[DecidingStep, ...] = ()  # steps that most likely decided it, by rule; on the page of its trial only
    rows: int = 2  # comparisons that a page shows

    @property
    def is_good(self) -> bool:
        return self.status == CheckStatus.PASSED

    @property
    def beyond(self) -> str:
        """The message after the last comparison: a reason, or how many more differ."""
        rest = self.compared[-1].rest if self.compared else ""
        if rest[:1] in "'\"":  # closes the last value
            rest = rest[1:]
        return rest.lstrip(" ;,.\n").rstrip()

    @property
    def wrong(self) -> int:
        """How many values it found wrong, as far as its message says so."""
        more = _MORE.match(self.beyond)
        return len(self.compared) + (int(more[1]) if more else 0)

    @property
    def shown(self) -> tuple[Expectation, ...]:
        return self.compared[: self.rows]

    @property
    def more(self) -> str:
        """What the shown comparisons leave out: how many, and the reason."""
        left = self.wrong - len(self.shown)
        return " ".join(filter(None, (f"and {left:,} more." if left else "", _MORE.sub("", self.beyond, count=1))))


@dataclass(frozen=True, slots=True)
class CheckSection:
    """The checks of one group. `total` counts those that were run; skipped ones say nothing about the trial."""

    name: str
    word: str
    passed: int
    total: int
    skipped: int
    open: tuple[CheckLine, ...]  # not passed
    good: tuple[CheckLine, ...]
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class VerdictView:
    """One verdict. `dimensions` are rubric scores; `output_length` the size of the verifier's output in bytes."""

    verdict: Verdict
    groups: tuple[CheckSection, ...]
    dimensions: tuple[Dimension, ...]

    @property
    def passed(self) -> int:
        return sum(group.passed for group in self.groups)

    @property
    def total(self) -> int:
        return sum(group.total for group in self.groups)

    @property
    def failed(self) -> tuple[CheckLine, ...]:
        """Checks that were run and did not pass, in reading order."""
        return tuple(check for group in self.groups for check in group.open if check.status != CheckStatus.SKIPPED)

    @property
    def word(self) -> str:
        return {True: "passed", False: "failed", None: "unscored"}[self.verdict.success]


def read_verdicts(attempt: Attempt | None, *, clean: Callable[[str], str] = visible) -> list[VerdictView]:
    """Every verdict of an attempt, the primary one first, its texts as `clean` leaves them. Three queries."""
    if attempt is None:
        return []
    verdicts = attempt.verdicts.select_related("output").defer("output__data").prefetch_related("checks", "dimensions")
    return [build_verdict_view(verdict, clean=clean) for verdict in verdicts.order_by("-is_primary", "id")]


def build_verdict_view(verdict: Verdict, *, clean: Callable[[str], str] = visible) -> VerdictView:
    """Needs the checks and dimensions prefetched."""
    checks = list(verdict.checks.all())
    by_group = ((group, [check for check in checks if check.group == group]) for group in CheckGroup)
    groups = tuple(_build_section(group, found, clean) for group, found in by_group if found)
    return VerdictView(verdict, groups, tuple(verdict.dimensions.all()))


def _build_section(group: CheckGroup, checks: list[Check], clean: Callable[[str], str]) -> CheckSection:
    ordered = sorted(checks, key=lambda check: _ORDER[CheckStatus(check.status)])
    lines = [_draw_line(check, clean) for check in ordered[:MAX_CHECKS]]
    passed = sum(check.status == CheckStatus.PASSED for check in checks)
    skipped = sum(check.status == CheckStatus.SKIPPED for check in checks)
    return CheckSection(
        name=group.value,
        word=GROUP_WORDS[group],
        passed=passed,
        total=len(checks) - skipped,
        skipped=skipped,
        open=tuple(line for line in lines if not line.is_good),
        good=tuple(line for line in lines if line.is_good),
        left_out=len(checks) - len(lines),
    )


def _draw_line(check: Check, clean: Callable[[str], str]) -> CheckLine:
    message = clean(check.message.strip())
    left_out = max(0, len(message) - MAX_MESSAGE)
    return CheckLine(clean(check.name), check.status, message[:MAX_MESSAGE], left_out, pk=check.pk)
