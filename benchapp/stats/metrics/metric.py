"""A metric over trials: the mean of one column over the trials it covers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from benchapp.stats.inference.interval import Floats, share_interval
from benchapp.stats.inference.shares import Rate
from benchapp.stats.inference.sides import TaskMeans, is_rising, weights_of
from benchapp.stats.metrics.outcomes import CORPUS_CODES, JUDGED, Mask, Outcomes
from benchapp.stats.metrics.splits import Piece
from runner.base.types import Phase, Role

NEAR_ZERO = 0.05  # a share below it doubles by one or two passes, so relative changes are left out
MIN_FAMILIES = 6  # a mean over families needs this many for an interval
FIRST_TRIES = (Phase.ACQUISITION, Phase.DEPLOYMENT, Phase.EVALUATION)  # a replay meets its tasks a second time


class MetricUnit(StrEnum):
    """The unit of a metric's recorded values, before they are written for a page."""

    SHARE = "share"  # 0..1, a count of passes, shown in percent
    SCORE = "score"  # 0..1, a mean of grades
    TURNS = "turns"
    TOKENS = "tokens"
    USD = "USD"
    SECONDS = "seconds"
    SKILLS = "skills"
    COUNT = "count"
    OF_HUNDRED = "of 100"  # a judge's


class Better(StrEnum):
    """Which direction of a metric is a gain; NEITHER where more is no better than less."""

    HIGHER = "higher"
    LOWER = "lower"
    NEITHER = ""


class Instances(StrEnum):
    """Which tasks of a family: SkillLearnBench learns from the seed, instance 1 or the first few,
    and holds the others out."""

    ALL = ""
    SEED = "seed"
    HELD_OUT = "held-out"


@dataclass(frozen=True, slots=True)
class TrialMetric:
    """`column` of `Outcomes` averaged over the trials of `phases` (none: every phase) and of `role` (None: every role).

    `meaning` is the definition in one line, `source` says where it comes from (paper section or released code).
    `macro`: mean over a task's samples, then over the tasks of a family, then over families, so that a family with
    many tasks weighs no more than one with few; else the mean over trials. A task without a family is its own.
    """

    key: str
    name: str
    meaning: str
    phases: tuple[Phase, ...] = ()
    role: Role | None = None
    column: str = "success"
    unit: MetricUnit = MetricUnit.SHARE
    better: Better = Better.HIGHER
    source: str = ""
    past_first: bool = False  # without the first task of each episode, and of ordered episodes alone
    instances: Instances = Instances.ALL
    macro: bool = False
    corpora: tuple[str, ...] = ()  # kinds of source material; none: every task, with a corpus or without

    @property
    def is_share(self) -> bool:
        return self.unit is MetricUnit.SHARE

    @property
    def has_better(self) -> bool:
        """Is one of its directions a gain?"""
        return self.better is not Better.NEITHER

    @property
    def is_of_verdicts(self) -> bool:
        """Is it a share of passes? Then the effect of missing verdicts is bounded."""
        return self.is_share and self.column == "success"

    @property
    def is_judged(self) -> bool:
        """Did a judging model give its values? They mean nothing without its name."""
        return self.column.startswith(JUDGED)

    def relate(self, own: float, other: float) -> float | None:
        """Return the relative change from other to own: 0.5 is half as much again. Descriptive, without a test. None
        where other is not above 0 or is a share near 0, and for a judge's scores, whose 0 does not mean none."""
        if other <= 0 or (self.is_share and other < NEAR_ZERO) or self.unit is MetricUnit.OF_HUNDRED:
            return None
        return (own - other) / other

    @property
    def phase(self) -> Phase | None:
        """The only phase it covers; None where it covers several."""
        return self.phases[0] if len(self.phases) == 1 else None

    def covers(self, phase: str, role: str) -> bool:
        return (not self.phases or phase in self.phases) and self.role in (None, role)

    def mask(self, outcomes: Outcomes, phases: tuple[Phase, ...] | None = None) -> Mask:
        """Mark the trials it covers, [n], without tainted episodes; `phases` replace its own."""
        mask = outcomes.covering(self.phases if phases is None else phases, self.role) & ~outcomes.tainted
        if self.past_first:
            mask &= outcomes.ordered & ~outcomes.first
        if self.instances is Instances.SEED:
            mask &= outcomes.seed
        elif self.instances is Instances.HELD_OUT:
            mask &= (outcomes.ordinal > 0) & ~outcomes.seed
        if self.is_judged:
            mask &= outcomes.judgeable(self.column)
        if self.corpora:
            mask &= np.isin(outcomes.corpus, [CORPUS_CODES[kind] for kind in self.corpora])
        return mask

    def select_covered(self, outcomes: Outcomes, phases: tuple[Phase, ...] | None = None) -> Outcomes:
        return outcomes.where(self.mask(outcomes, phases))

    def measure(self, outcomes: Outcomes) -> tuple[Rate, float | None]:
        """Return counts and the mean over trials with a value, None without any. For a share k of n: a trial counts as
        passed where the column is 1."""
        rate, mean = _average(outcomes.column(self.column)[self.mask(outcomes)])
        if self.macro and mean is not None:
            tasks = self.task_means(outcomes)
            mean = float(tasks.value @ weights_of(tasks.task, tasks.family, by_family=True))
        return rate, mean

    def rate(self, outcomes: Outcomes) -> Rate:
        return self.measure(outcomes)[0]

    def mean(self, outcomes: Outcomes) -> float | None:
        return self.measure(outcomes)[1]

    @property
    def counted(self) -> str:
        """What `rate` counts."""
        return "trials"

    def parts(self, outcomes: Outcomes, pieces: Iterable[Piece]) -> Iterator[tuple[int, Rate, float | None]]:
        """Yield (key, counts, mean) of every piece that has a trial. `pieces`: what a split cuts the outcomes into."""
        covered, values = self.mask(outcomes), outcomes.column(self.column)
        for piece in pieces:
            own = values[covered & piece.mask]
            if len(own):
                yield piece.key, *self._measure_piece(piece, own)

    def _measure_piece(self, piece: Piece, values: Floats) -> tuple[Rate, float | None]:
        """Measure one piece. `values`: of its trials that the metric covers."""
        return self.measure(piece.outcomes) if self.macro else _average(values)

    def interval(self, outcomes: Outcomes) -> tuple[float, float] | None:
        """Return Wilson's interval for a share that is k of n, but not where a task has several trials: these are not
        independent. For a mean over families, which is another number, Student's over them."""
        if not self.is_share:
            return None
        if self.macro:
            return family_interval(self.task_means(outcomes))
        return None if self._repeats(outcomes) else self.rate(outcomes).interval

    def _repeats(self, outcomes: Outcomes) -> bool:
        tasks = outcomes.task[self.mask(outcomes)]
        return len(np.unique(tasks)) < len(tasks)

    def task_means(self, outcomes: Outcomes, phases: tuple[Phase, ...] | None = None) -> TaskMeans:
        """Return per task the mean over its samples with a value, [tasks], if any, in the metric's unit."""
        return self.means_of(self.column, outcomes, phases)

    def means_of(self, column: str, outcomes: Outcomes, phases: tuple[Phase, ...] | None = None) -> TaskMeans:
        """Return the same of another column, over the trials that this metric covers."""
        covered, values = self.mask(outcomes, phases), outcomes.column(column)
        known = np.flatnonzero(covered & ~np.isnan(values))
        missing = int(np.count_nonzero(covered)) - len(known)
        tasks = outcomes.task[known]
        if is_rising(tasks):  # one trial of each, as most protocols run them
            return TaskMeans(tasks, outcomes.cluster[known], outcomes.family[known], values[known], missing=missing)
        tasks, first, place = np.unique(tasks, return_index=True, return_inverse=True)
        samples = np.bincount(place, minlength=len(tasks))
        means = np.bincount(place, weights=values[known], minlength=len(tasks)) / samples
        first = known[first]
        return TaskMeans(tasks, outcomes.cluster[first], outcomes.family[first], means, samples, missing)


def _average(values: Floats) -> tuple[Rate, float | None]:
    """Return counts and mean of one value a trial, [n], NaN where there is none."""
    known = values[~np.isnan(values)]
    rate = Rate(int(np.count_nonzero(known >= 1)), len(known), len(values))
    return rate, float(known.mean()) if len(known) else None


def family_interval(tasks: TaskMeans) -> tuple[float, float] | None:
    """Return the interval of a share's mean over families, from six of them on. Families share a library, so several
    tasks or samples of one count once."""
    families = np.unique(np.where(tasks.family >= 0, tasks.family, -2 - tasks.task), return_inverse=True)[1]
    if len(np.unique(families)) < MIN_FAMILIES:
        return None
    means = np.bincount(families, weights=tasks.value) / np.bincount(families)
    return share_interval(means.tolist())
