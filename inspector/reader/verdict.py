"""A verdict as a reader wants it: failed checks first, grouped by who may know of them, the steps that most likely
decided them, and in one sentence how the trial ended and why. From what its checks recorded, never what a model
guesses."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace

from django.db.models import Prefetch, prefetch_related_objects

from benchapp.analysis.deciding.deciding_steps import DecidingStep, Rule, StepIndex, choose_chief, find_deciding_steps
from benchapp.analysis.deciding.named_values import MOST, Expectation, is_telling, read_named_values
from benchapp.models import Attempt, Check, Trial, Verdict
from benchapp.record.visible import one_line, visible
from benchapp.stats.metrics.agent_ends import AgentEnd, end_of
from runner.base.types import CheckGroup, CheckStatus

GROUP_TITLES = {
    CheckGroup.PUBLIC: "Checks the agent could see",
    CheckGroup.HIDDEN: "Checks the agent could not see",
    CheckGroup.PROCESS: "Checks of how it worked",
    CheckGroup.TEST: "Checks",
}
MAX_CHECKS = 1_000  # drawn per group; failed ones come first, the rest is counted
MAX_DECIDED = 60  # failed checks, and as many passed ones, that get a deciding step
MAX_MESSAGE = 50_000
TRAIL = 4  # steps above the page
NAME_CHARS, VALUE_CHARS = 110, 40

_MORE = re.compile(r"\Aand (\d{1,9}) more\b[.;, ]*")
_TEST = re.compile(r"\A(?:[\w./-]+::)?(?:\w+::)?test_+(?P<name>\w+)(?P<case>\[.*\])?\Z", re.DOTALL)
_A_FILE = re.compile(r"(?:an? |the )?file (?P<name>\S+)\Z")
_ORDER = (CheckStatus.ERROR, CheckStatus.FAILED, CheckStatus.SKIPPED, CheckStatus.PASSED)
_ENDS = {
    AgentEnd.TIME: "the agent ran out of time",
    AgentEnd.TURNS: "the agent ran out of turns",
    AgentEnd.TOKENS: "the agent ran out of tokens",
    AgentEnd.CONTEXT: "the agent ran out of context",
    AgentEnd.OUTPUT: "the agent wrote more than allowed",
    AgentEnd.NO_CALL: "the agent stopped calling tools",
    AgentEnd.PROGRAM: "the agent crashed",
    AgentEnd.MACHINERY: "the machine failed, not the agent",
}


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


class CheckSection:
    """The checks of one group, each with its texts as `clean` leaves them. `total` counts those that were run; skipped
    ones say nothing about the trial. `open`: those not passed."""

    def __init__(self, group: CheckGroup, checks: Sequence[Check], clean: Callable[[str], str]) -> None:
        self.name, self.title = group.value, GROUP_TITLES[group]
        lines = []
        for check in sorted(checks, key=lambda check: _ORDER.index(CheckStatus(check.status)))[:MAX_CHECKS]:
            message = clean(check.message.strip())
            left_out = max(0, len(message) - MAX_MESSAGE)
            lines.append(CheckLine(clean(check.name), check.status, message[:MAX_MESSAGE], left_out, pk=check.pk))
        self.passed = sum(check.status == CheckStatus.PASSED for check in checks)
        self.skipped = sum(check.status == CheckStatus.SKIPPED for check in checks)
        self.total, self.left_out = len(checks) - self.skipped, len(checks) - len(lines)
        self.open, self.good = ([line for line in lines if line.is_good is wanted] for wanted in (False, True))


class VerdictView:
    """One verdict. `dimensions` are rubric scores."""

    def __init__(self, verdict: Verdict, clean: Callable[[str], str]) -> None:
        self.verdict, self.dimensions, self.groups = verdict, list(verdict.dimensions.all()), list[CheckSection]()
        for group in CheckGroup:
            if checks := [check for check in verdict.checks.all() if check.group == group]:
                self.groups.append(CheckSection(group, checks, clean))
        self.passed, self.total = sum(each.passed for each in self.groups), sum(each.total for each in self.groups)
        self.word = {True: "passed", False: "failed", None: "unscored"}[verdict.success]

    @property
    def failed(self) -> list[CheckLine]:
        """Checks that were run and did not pass, in reading order."""
        return [check for group in self.groups for check in group.open if check.status != CheckStatus.SKIPPED]


VERDICTS = Prefetch(
    "verdicts",
    Verdict.objects.select_related("output")
    .defer("output__data")
    .prefetch_related("checks", "dimensions")
    .order_by("-is_primary", "id"),
)


def read_verdicts(attempt: Attempt | None, *, clean: Callable[[str], str] = visible) -> list[VerdictView]:
    """Every verdict of an attempt, the primary one first, its texts as `clean` leaves them. Three queries."""
    if attempt is None:
        return []
    prefetch_related_objects([attempt], VERDICTS)
    return [VerdictView(verdict, clean) for verdict in attempt.verdicts.all()]


# --- the steps that decided it ----------------------------------------------------------------------------------


class DecidedVerdict:
    """The verdict with groups that have a failed check first, and with the steps behind each check where there is an
    index of them. `trail`: the steps that led to the failed checks, in order. `chief`: the one to read first. `flags`:
    of every deciding step its words. `steps`: of every step all that was found."""

    def __init__(self, view: VerdictView | None, index: StepIndex | None) -> None:
        self.verdict, self.steps = view and copy(view), dict[int, list[DecidingStep]]()
        groups = [copy(group) for group in view.groups] if view else []
        groups.sort(key=lambda group: all(check.status == "skipped" for check in group.open))
        for group in groups:
            group.open, group.good = _decide_lines(group.open, index), _decide_lines(group.good, index)
        # The first failed check shows its comparisons: what the others found mostly follows from it.
        first = next((line for group in groups for line in group.open), None)
        for group in groups:
            group.open = [line if line is first else replace(line, rows=1) for line in group.open]
        failed = []
        if self.verdict:
            self.verdict.groups = groups
            failed = self.verdict.failed
        found = [one for check in failed for one in check.decided if one.rule is not Rule.SUBMIT]
        chiefs = [chief for check in failed if (chief := choose_chief(check.decided))]
        wrote = Counter(one.step for one in chiefs)  # step -> checks that it failed
        for one in dict.fromkeys(found):
            self.steps.setdefault(one.step, []).append(one)
        self.trail = [ones[0] for _, ones in sorted(self.steps.items())][:TRAIL]
        self.chief = max(chiefs, key=lambda one: wrote[one.step], default=None)  # of equals the first check's
        self.flags = {
            step: list(dict.fromkeys(_write_flag(one, wrote[step]) for one in ones))
            for step, ones in self.steps.items()
        }


def _decide_lines(lines: Sequence[CheckLine], index: StepIndex | None) -> list[CheckLine]:
    decided = list(lines)
    for place, line in enumerate(lines[:MAX_DECIDED]):
        if line.status != "skipped":
            named = read_named_values(line.name, "" if line.is_good else line.message)
            found = find_deciding_steps(named, index, failed=not line.is_good) if index else ()
            decided[place] = replace(line, compared=named.expectations, decided=found)
    return decided


def _write_flag(one: DecidingStep, checks: int) -> str:
    """What was found of a step; one that wrote what several checks failed on says that instead."""
    wrote_several = checks > 1 and one.rule in (Rule.WROTE, Rule.LAST_WRITE)
    return f"wrote what failed {checks} checks" if wrote_several else one.words


# --- how it ended, in a sentence --------------------------------------------------------------------------------


def write_ending(trial: Trial, attempt: Attempt | None, view: VerdictView | None) -> str:
    """How a trial ended and why. Without a full stop."""
    if attempt is None:
        return "Not started yet"
    match attempt.status:
        case "running":
            return "Running now"
        case "interrupted":
            return "Unknown how it ended" if attempt.source_key else "Interrupted before it finished"
        case "infrastructure":
            return "The machine failed, not the agent"
    kind = end_of(attempt.exception_type) if attempt.exception_type else None
    end = _ENDS[kind] if kind else ""
    if view is None or view.verdict.success is None:
        if not end and view and view.verdict.reward is None and len(view.verdict.rewards) > 1:
            end = "several scorers, and nobody named the one that decides"
        return f"No verdict: {end}" if end else "No verdict is recorded"
    count = f"{len(view.failed)} of {view.total} checks failed" if view.total > 1 else "its one check failed"
    if view.verdict.success:
        if view.failed:
            return f"Passed, but {count}: {_name_check(view.failed[0])}"
        total = view.total or trial.checks_total
        if not total:
            return "Passed; the verifier reports no checks"
        return f"All {total} checks passed" if total > 1 else "Its one check passed"
    if not view.total:
        failed = "Failed; the verifier reports no checks"
    elif not view.failed:
        failed = "No check failed, but the score is too low"
    else:
        failed = f"{count[:1].upper()}{count[1:]}: {_describe_failure(view.failed[0])}"
    return f"{end[:1].upper()}{end[1:]}. {failed}" if end else failed


def _describe_failure(check: CheckLine) -> str:
    """What is wrong, with how many values the check says are wrong. It lists the first of them.

    Prefer the mismatch whose value the deciding step prints, so that sentence and step name one number; else the first
    distinctive one."""
    if not check.compared:
        return _name_check(check)
    printed = [step.about for step in check.decided if step.rule is Rule.PRINTS]
    by_step = (each for each in check.compared if any(about.endswith(each.found) for about in printed))
    telling = (each for each in check.compared if is_telling(each.found))
    one = next(by_step, None) or next(telling, check.compared[0])
    label, found, expected = (one_line(value, VALUE_CHARS) for value in (one.label, one.found, one.expected))
    if found in ("none", "nothing") and (file := _A_FILE.match(expected)):
        return f"{file['name']} is missing"
    first = "the first" if one is check.compared[0] else "one"
    item, _, column = label.rpartition(", ")
    if column and " " not in column:  # of a table
        of_item = f" of {item}" if item and check.wrong == 1 else ""
        what = f"{column}{of_item} is {'empty' if found == '(empty)' else found} and should be {expected}"
    else:
        what, first = f"{label or _name_check(check)}: expected {expected}, found {found}", f"{first}:"
    if check.wrong == 1:
        return what
    # A list as long as what is read from a message may be longer in the message.
    return f"{'several' if len(check.compared) == MOST else check.wrong} values are wrong, {first} {what}"


def _name_check(check: CheckLine) -> str:
    """Return a test function's name as words; any other name unchanged."""
    match = _TEST.match(check.name)
    if not match:
        name = one_line(check.name, NAME_CHARS)
        return f"{name[:1].upper()}{name[1:]}" if " " in name and "." not in name.partition(" ")[0] else name
    words = " ".join(match["name"].split("_"))
    return one_line(f"{words[:1].upper()}{words[1:]}{' ' + match['case'] if match['case'] else ''}", NAME_CHARS)
