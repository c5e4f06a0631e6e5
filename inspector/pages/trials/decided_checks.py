"""A verdict with the steps that most likely decided its checks, and what each step is flagged with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from benchapp.analysis.deciding.deciding_steps import DecidingStep, Rule, StepIndex, choose_chief, find_deciding_steps
from benchapp.analysis.deciding.named_values import read_named_values
from inspector.pages.trials.verdict import CheckLine, CheckSection, VerdictView

MAX_CHECKS = 60  # failed checks, and as many passed ones, that get a deciding step
TRAIL = 4  # steps above the page


@dataclass(frozen=True, slots=True)
class DecidedVerdict:
    """`trail`: the steps that led to the failed checks, in order. `chief`: the one to read first. `flags`: of every deciding
    step its words. `steps`: of every step all that was found."""

    verdict: VerdictView | None
    trail: tuple[DecidingStep, ...] = ()
    chief: DecidingStep | None = None
    flags: dict[int, list[str]] = field(default_factory=dict)
    steps: dict[int, list[DecidingStep]] = field(default_factory=dict)


def decide_checks(view: VerdictView | None, index: StepIndex | None) -> DecidedVerdict:
    if view is None:
        return DecidedVerdict(None)
    groups = tuple(_decide_group(group, index) for group in sorted(view.groups, key=_is_passed))
    # The first failed check shows its comparisons: what the others found mostly follows from it.
    first = next((line for group in groups for line in group.open), None)
    groups = tuple(
        replace(group, open=tuple(line if line is first else replace(line, rows=1) for line in group.open))
        for group in groups
    )
    decided = replace(view, groups=groups)
    failed = decided.failed
    found = [one for check in failed for one in check.decided if one.rule is not Rule.SUBMIT]
    chiefs = [chief for check in failed if (chief := choose_chief(check.decided))]
    trail = {one.step: one for one in reversed(found)}
    steps: dict[int, list[DecidingStep]] = {}
    for one in dict.fromkeys(found):
        steps.setdefault(one.step, []).append(one)
    return DecidedVerdict(
        verdict=decided,
        trail=tuple(sorted(trail.values(), key=lambda one: one.step))[:TRAIL],
        chief=_choose_main(chiefs),
        flags={step: list(_word_flags(step, ones, chiefs)) for step, ones in steps.items()},
        steps=steps,
    )


def _is_passed(group: CheckSection) -> bool:
    """Put groups with a failed check first."""
    return all(check.status == "skipped" for check in group.open)


def _decide_group(group: CheckSection, index: StepIndex | None) -> CheckSection:
    return replace(
        group,
        open=tuple(_decide_line(line, index, place) for place, line in enumerate(group.open)),
        good=tuple(_decide_line(line, index, place) for place, line in enumerate(group.good)),
    )


def _decide_line(line: CheckLine, index: StepIndex | None, place: int) -> CheckLine:
    if place >= MAX_CHECKS or line.status == "skipped":
        return line
    named = read_named_values(line.name, "" if line.is_good else line.message)
    found = find_deciding_steps(named, index, failed=not line.is_good) if index else ()
    return replace(line, compared=named.expectations, decided=found)


def _choose_main(chiefs: Sequence[DecidingStep]) -> DecidingStep | None:
    """The chief step of most failed checks; of equals the first check's."""
    counts = Counter(one.step for one in chiefs)
    return max(chiefs, key=lambda one: counts[one.step], default=None)


def _word_flags(step: int, found: Iterable[DecidingStep], chiefs: Sequence[DecidingStep]) -> Iterable[str]:
    """What was found of a step, each once; a step that wrote what several checks failed on says that instead."""
    checks = sum(one.step == step for one in chiefs)
    words = (
        f"wrote what failed {checks} checks" if checks > 1 and one.rule in (Rule.WROTE, Rule.LAST_WRITE) else one.words
        for one in found
    )
    return dict.fromkeys(words)
