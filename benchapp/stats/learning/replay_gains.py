"""Replay against acquisition: the same tasks before and after the library was written, as a 2x2 of pass and fail.

A pair is one task and sample of one episode that was scored in both phases. What changes between the two is not the
library alone: the task is met a second time, and a second throw of the dice turns some failures into passes. A placebo,
the no-skill runs' own replay of the same tasks, measures that; without one the numbers include retest noise, and say so.

Source: SkillEvolBench section 4.5 (RSR); recovery, regression and the four counts as its released code's report names them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from benchapp.stats.metrics.outcomes import Mask, Outcomes
from runner.base.types import Phase

RETEST = "includes retest noise"


@dataclass(frozen=True, slots=True)
class ReplayPairs:
    """The replay trials (keys) of each cell, with the acquisition trial of the same place in `first`.

    The first word is acquisition, the second replay. `unpaired`: replay trials without a score on both sides.
    """

    fail_pass: tuple[int, ...] = ()
    pass_pass: tuple[int, ...] = ()
    pass_fail: tuple[int, ...] = ()
    fail_fail: tuple[int, ...] = ()
    unpaired: int = 0

    @property
    def failed_first(self) -> int:
        return len(self.fail_pass) + len(self.fail_fail)

    @property
    def passed_first(self) -> int:
        return len(self.pass_pass) + len(self.pass_fail)

    @property
    def total(self) -> int:
        return self.failed_first + self.passed_first

    @property
    def recovery(self) -> float | None:
        """Share of first failures that replay passed: fail_pass / (fail_pass + fail_fail). None where nothing failed first."""
        return len(self.fail_pass) / self.failed_first if self.failed_first else None

    @property
    def regression(self) -> float | None:
        """Share of first passes that replay failed: pass_fail / (pass_pass + pass_fail). None where nothing passed first."""
        return len(self.pass_fail) / self.passed_first if self.passed_first else None

    @property
    def lift(self) -> float | None:
        """Replay's success rate minus acquisition's over the pairs: (fail_pass - pass_fail) / pairs."""
        return (len(self.fail_pass) - len(self.pass_fail)) / self.total if self.total else None

    def __add__(self, other: ReplayPairs) -> ReplayPairs:
        return ReplayPairs(
            self.fail_pass + other.fail_pass,
            self.pass_pass + other.pass_pass,
            self.pass_fail + other.pass_fail,
            self.fail_fail + other.fail_fail,
            self.unpaired + other.unpaired,
        )


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """Pairs of a condition beside those of a placebo on the same tasks; None where the baseline replayed none of them."""

    own: ReplayPairs
    placebo: ReplayPairs | None = None

    @property
    def label(self) -> str:
        return "minus the baseline's replay of the same tasks" if self.placebo else RETEST

    @property
    def net_recovery(self) -> float | None:
        return _minus(self.own.recovery, self.placebo.recovery) if self.placebo else None

    @property
    def net_regression(self) -> float | None:
        return _minus(self.own.regression, self.placebo.regression) if self.placebo else None

    @property
    def net_lift(self) -> float | None:
        return _minus(self.own.lift, self.placebo.lift) if self.placebo else None


def pairs_of(outcomes: Outcomes, tasks: Iterable[int] | None = None) -> ReplayPairs:
    """The 2x2 of one run, tainted episodes left out; `tasks` (keys) narrows it."""
    wanted = ~outcomes.tainted
    if tasks is not None:
        wanted &= np.isin(outcomes.task, list(tasks))
    before = _read_scored(outcomes, wanted & outcomes.covering((Phase.ACQUISITION,)))
    again = np.flatnonzero(wanted & outcomes.covering((Phase.REPLAY,))).tolist()
    cells: dict[tuple[bool, bool], list[int]] = defaultdict(list)
    unpaired = 0
    for place in again:
        first = before.get(_slot(outcomes, place))
        success = outcomes.success[place]
        if first is None or np.isnan(success):
            unpaired += 1
        else:
            cells[first, bool(success)].append(int(outcomes.trial[place]))
    fail_pass, pass_pass, pass_fail, fail_fail = (
        tuple(cells[place]) for place in ((False, True), (True, True), (True, False), (False, False))
    )
    return ReplayPairs(fail_pass, pass_pass, pass_fail, fail_fail, unpaired)


def replay_of(own: Iterable[Outcomes], baseline: Iterable[Outcomes] = ()) -> ReplayResult | None:
    """Of a group's replicates, beside a baseline group's on the tasks both replayed; None where nothing was replayed.

    With a placebo both sides cover only the tasks that both have a pair for.
    """
    runs, others = list(own), list(baseline)
    shared = find_paired_tasks(runs) & find_paired_tasks(others)
    if shared:
        return ReplayResult(_total(runs, shared), _total(others, shared))
    whole = _total(runs, None)
    return ReplayResult(whole) if whole.total or whole.unpaired else None


def find_paired_tasks(runs: Iterable[Outcomes]) -> set[int]:
    """Tasks with at least one pair in any of these runs."""
    found: set[int] = set()
    for outcomes in runs:
        pairs = pairs_of(outcomes)
        trials = [*pairs.fail_pass, *pairs.pass_pass, *pairs.pass_fail, *pairs.fail_fail]
        found |= set(outcomes.task[np.isin(outcomes.trial, trials)].tolist())
    return found


def _total(runs: Iterable[Outcomes], tasks: Iterable[int] | None) -> ReplayPairs:
    return sum((pairs_of(outcomes, tasks) for outcomes in runs), ReplayPairs())


TrialKey = tuple[int, int, int]


def _slot(outcomes: Outcomes, place: int) -> TrialKey:
    return int(outcomes.episode[place]), int(outcomes.task[place]), int(outcomes.sample[place])


def _read_scored(outcomes: Outcomes, mask: Mask) -> dict[TrialKey, bool]:
    """Slot -> success of the scored trials that the mask [n] keeps."""
    places = np.flatnonzero(mask & ~np.isnan(outcomes.success)).tolist()
    return {_slot(outcomes, place): bool(outcomes.success[place]) for place in places}


def _minus(own: float | None, other: float | None) -> float | None:
    return None if own is None or other is None else own - other
