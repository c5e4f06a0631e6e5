"""Replay against acquisition: the same tasks before and after the library was written, as a 2x2 of pass and fail.

A pair is one task and sample of one episode that was scored in both phases. Not only the library changes between the
two: the task is met a second time, and chance turns some failures into passes. A placebo, the no-skill runs' own replay
of the same tasks, measures that; without one the numbers include retest noise, and say so.

Source: SkillEvolBench section 4.5 (RSR); recovery, regression and the four counts as in its released code's report.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np

from benchapp.stats.inference.interval import Floats, Ints
from benchapp.stats.metrics.outcomes import PHASE_CODES, Mask, Outcomes, label_rows
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
        """Share of first failures that replay passed: fail_pass / (fail_pass + fail_fail). None without any."""
        return len(self.fail_pass) / self.failed_first if self.failed_first else None

    @property
    def regression(self) -> float | None:
        """Share of first passes that replay failed: pass_fail / (pass_pass + pass_fail).
        None where nothing passed first."""
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
    """Pairs of a condition, and of a placebo on the same tasks; None where the baseline replayed none of them."""

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


@dataclass(frozen=True, slots=True, eq=False)
class _Retries:
    """The replay trials of one run, without tainted episodes: [n] each. `first`: the success of the acquisition trial
    of the same place, `again`: its own; NaN: missing or not scored."""

    trial: Ints
    task: Ints
    first: Floats
    again: Floats

    @property
    def paired(self) -> Mask:
        """[n]"""
        return ~np.isnan(self.first) & ~np.isnan(self.again)

    def count(self, tasks: Collection[int] | None = None) -> ReplayPairs:
        """Count the pairs. `tasks` (keys) narrows them."""
        wanted = np.ones(len(self.trial), dtype=bool) if tasks is None else np.isin(self.task, list(tasks))
        cells = ((0, 1), (1, 1), (1, 0), (0, 0))
        fail_pass, pass_pass, pass_fail, fail_fail = (
            tuple(self.trial[wanted & (self.first == first) & (self.again == again)].tolist()) for first, again in cells
        )
        unpaired = int((wanted & ~self.paired).sum())
        return ReplayPairs(fail_pass, pass_pass, pass_fail, fail_fail, unpaired)


def _read_retries(outcomes: Outcomes) -> _Retries:
    wanted = ~outcomes.tainted & outcomes.covering((Phase.ACQUISITION, Phase.REPLAY))
    again = (outcomes.phase == PHASE_CODES[Phase.REPLAY])[wanted]
    trial, task, success = outcomes.trial[wanted], outcomes.task[wanted], outcomes.success[wanted]
    slots = label_rows(outcomes.episode[wanted], task, outcomes.sample[wanted])
    first = np.full(len(slots), np.nan)  # by slot
    scored = ~again & ~np.isnan(success)
    first[slots[scored]] = success[scored]
    return _Retries(trial[again], task[again], first[slots[again]], success[again])


def pairs_of(outcomes: Outcomes) -> ReplayPairs:
    """Count the 2x2 of one run, without tainted episodes."""
    return _read_retries(outcomes).count()


def replay_of(own: Iterable[Outcomes], baseline: Iterable[Outcomes] = ()) -> ReplayResult | None:
    """Return a group's pairs, with a baseline group's on the tasks both replayed; None where nothing was replayed.

    With a placebo both sides cover only the tasks that both have a pair for.
    """
    runs, others = list(map(_read_retries, own)), list(map(_read_retries, baseline))
    shared = _find_paired_tasks(runs) & _find_paired_tasks(others)
    if shared:
        return ReplayResult(_total(runs, shared), _total(others, shared))
    whole = _total(runs, None)
    return ReplayResult(whole) if whole.total or whole.unpaired else None


def _find_paired_tasks(runs: Iterable[_Retries]) -> set[int]:
    """Return tasks with at least one pair in any of these runs."""
    return {task for retries in runs for task in retries.task[retries.paired].tolist()}


def _total(runs: Iterable[_Retries], tasks: Collection[int] | None) -> ReplayPairs:
    return sum((retries.count(tasks) for retries in runs), ReplayPairs())


def _minus(own: float | None, other: float | None) -> float | None:
    return None if own is None or other is None else own - other
