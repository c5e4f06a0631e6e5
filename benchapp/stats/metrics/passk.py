"""SkillGenBench's pass@k (section 4.1): a task is solved if any of its samples passed.

The unit is the task, so it can be paired, resampled and tested like any success. A task counts after all its planned
samples are scored: one with a missing score and no pass may still be solved, and one with a pass cannot replace it.
Every number comes with how many tasks do not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from benchapp.stats.inference.interval import Floats, Interval, Ints
from benchapp.stats.inference.resampling import MIN_CLUSTERS, by_cluster, by_task
from benchapp.stats.inference.sides import Paired, TaskMeans, pair
from benchapp.stats.metrics.metric import TrialMetric
from benchapp.stats.metrics.outcomes import CODE_CORPORA, DOC_CORPORA, Mask, Outcomes
from benchapp.stats.metrics.passing import PHASES
from benchapp.stats.metrics.rates import Rate
from benchapp.stats.metrics.splits import Piece
from runner.base.types import Phase

PAPER = "SkillGenBench, section 4.1 (pass@3) and Table 2"


@dataclass(frozen=True, slots=True, eq=False)
class Tries:
    """One run's tries by the keys of its tasks; all columns [n]. planned, scored and passed count samples. corpus: the
    key of the task's environment, -1 where there is none."""

    task: Ints
    cluster: Ints
    family: Ints
    corpus: Ints
    planned: Ints
    scored: Ints
    passed: Ints

    @property
    def complete(self) -> Mask:
        """[n]: every planned sample of the task is scored."""
        return np.asarray(self.scored == self.planned)

    @property
    def solved(self) -> Mask:
        """[n]: at least one sample of the task passed."""
        return np.asarray(self.passed > 0)

    def means(self, cluster: Ints) -> TaskMeans:
        """Return 1 where a complete task is solved and 0 where it is not. cluster: [n]."""
        kept = self.complete
        solved, samples = self.solved[kept].astype(float), self.scored[kept]
        missing = int((self.planned - self.scored).sum())
        return TaskMeans(self.task[kept], cluster[kept], self.family[kept], solved, samples, missing)


def tries_of(outcomes: Outcomes) -> Tries:
    """Count the given trials: choose phases and leave tainted episodes out before."""
    task, first, place = np.unique(outcomes.task, return_index=True, return_inverse=True)
    n = len(task)
    scored, passed = ~np.isnan(outcomes.success), outcomes.success == 1
    return Tries(
        task,
        outcomes.cluster[first],
        outcomes.family[first],
        outcomes.environment[first],
        np.bincount(place, minlength=n),
        np.bincount(place[scored], minlength=n),
        np.bincount(place[passed], minlength=n),
    )


@dataclass(frozen=True, slots=True)
class SolvedMetric(TrialMetric):
    """A share of tasks, not of trials: `rate` counts tasks, with all as `planned` and the complete ones as `scored`."""

    def tries(self, outcomes: Outcomes) -> Tries:
        return tries_of(self.select_covered(outcomes))

    def measure(self, outcomes: Outcomes) -> tuple[Rate, float | None]:
        tries = self.tries(outcomes)
        rate = Rate(int((tries.solved & tries.complete).sum()), int(tries.complete.sum()), len(tries.task))
        return rate, rate.value

    def _measure_piece(self, piece: Piece, values: Floats) -> tuple[Rate, float | None]:
        return self.measure(piece.outcomes)

    @property
    def counted(self) -> str:
        return "tasks"

    def _repeats(self, outcomes: Outcomes) -> bool:
        return False  # its unit is the task, for any number of samples

    def task_means(self, outcomes: Outcomes, phases: tuple[Phase, ...] | None = None) -> TaskMeans:
        tries = tries_of(self.select_covered(outcomes, phases))
        return tries.means(tries.cluster)

    def corpus_means(self, outcomes: Outcomes) -> TaskMeans:
        """Return the same with the corpus as the cluster; a task without one is a cluster of its own."""
        tries = self.tries(outcomes)
        return tries.means(np.where(tries.corpus >= 0, tries.corpus, -2 - tries.task))


SOLVED = SolvedMetric(
    "solved",
    "pass@k",
    "tasks with a passing sample, where k is the number of samples run; leaves out tasks with an unscored sample",
    PHASES,
    source=PAPER,
)
SOLVED_CODE = SolvedMetric(
    "solved-code",
    "pass@k, Code",
    "the same over tasks whose source is a repository",
    PHASES,
    source=PAPER,
    corpora=CODE_CORPORA,
)
SOLVED_DOC = SolvedMetric(
    "solved-doc",
    "pass@k, Doc",
    "the same over tasks whose source is documents, of code or of a domain",
    PHASES,
    source=PAPER,
    corpora=DOC_CORPORA,
)
METRICS = (SOLVED, SOLVED_CODE, SOLVED_DOC)


def samples_of(runs: Sequence[Outcomes], metric: SolvedMetric = SOLVED) -> tuple[int, int]:
    """Return (fewest, most) samples planned for a task; (0, 0) where there is no task."""
    planned = [tries.planned for outcomes in runs if len((tries := metric.tries(outcomes)).task)]
    return (int(min(each.min() for each in planned)), int(max(each.max() for each in planned))) if planned else (0, 0)


def name_of(samples: tuple[int, int]) -> str:
    """Return the name of the number: "pass@3" if every task had three samples, else the range of k."""
    fewest, most = samples
    return f"pass@{most}" if fewest == most else f"pass@k, k {fewest} to {most}"


@dataclass(frozen=True, slots=True)
class DrawnMean:
    """A mean over tasks, or a difference of two, with resampled tasks. Shares, -1..1 for a difference.

    tasks: complete in every run it uses; left_out: those complete in some and not in all, or in none. by_corpus:
    corpora drawn whole. notes: why an interval is missing, or should not be trusted.
    """

    value: float
    tasks: int
    left_out: int
    corpora: int
    by_task: Interval | None
    by_corpus: Interval | None
    notes: tuple[str, ...]

    @property
    def is_trusted(self) -> bool:
        """Are the corpora enough for the interval over them?"""
        return self.corpora >= MIN_CLUSTERS


def draw_mean(runs: Sequence[Outcomes], metric: SolvedMetric = SOLVED) -> DrawnMean | None:
    """Return pass@k of the replicates of one group. None where no task is complete in all of them."""
    means = [metric.corpus_means(outcomes) for outcomes in runs]
    paired = pair(means, means[:1])  # against itself: only to align the replicates
    return _draw(paired, paired.own.mean(axis=0), _count_planned(runs, metric)) if paired else None


def draw_difference(
    own: Sequence[Outcomes], other: Sequence[Outcomes], metric: SolvedMetric = SOLVED
) -> DrawnMean | None:
    """Return own minus other, paired by task. None where no task is complete on both sides."""
    sides = [[metric.corpus_means(outcomes) for outcomes in side] for side in (own, other)]
    paired = pair(*sides)
    return _draw(paired, paired.delta, _count_planned([*own, *other], metric)) if paired else None


def _count_planned(runs: Sequence[Outcomes], metric: SolvedMetric) -> int:
    return len(np.unique(np.concatenate([outcomes.task[metric.mask(outcomes)] for outcomes in runs])))


def _draw(paired: Paired, values: Floats, planned: int) -> DrawnMean:
    """Draw intervals. values: one per task of the pair, [n]."""
    corpora = paired.clusters
    tasks, whole = by_task(values), by_cluster(values, paired.cluster)
    return DrawnMean(
        float(values.mean()),
        len(values),
        planned - len(values),
        corpora,
        tasks,
        whole,
        tuple(_notes(corpora, tasks, whole)),
    )


def _notes(corpora: int, tasks: Interval | None, whole: Interval | None) -> Iterator[str]:
    if tasks is None:
        yield "every task shows the same, so drawing tasks again shows nothing else"
    elif whole is None:
        yield "one corpus" if corpora == 1 else "every corpus shows the same"
    if whole is not None and corpora < MIN_CLUSTERS:
        yield f"{corpora} corpora are fewer than {MIN_CLUSTERS}: the interval over corpora is too narrow, not to be trusted"
