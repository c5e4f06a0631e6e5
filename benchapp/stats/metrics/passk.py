"""pass@k: would at least one of k tries have passed?

Two numbers go by that name. The unbiased estimator (Chen et al. 2021, "Evaluating Large Language Models Trained on
Code", equation 1) asks for the expectation over which k of the n tries one happens to have: 1 - C(n-c, k) / C(n, k).
SkillGenBench (section 4.1) takes the tries it ran, up to three, and counts a task as solved if any of them passed. With
n = k the two are the same number; with fewer tries than k the second still gives one, which is too low.

SkillGenBench's unit is the task, so it can be paired, resampled and tested like any success. A task counts after all
its planned samples are scored: one with a missing score and no pass may still be solved, and one with a pass cannot
replace it. Every number comes with how many tasks do not count.

Limits: pass@k never falls when k grows and rises with every extra try, skill or no skill, so it may be compared only at
equal k and equal tries. It needs a verifier at hand to pick the passing try, and it hides unsteadiness: a task passed
once in three tries counts like one passed three times. Tries that share a library are not independent draws of
learning.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import comb

import numpy as np

from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.stats.inference.interval import MIN_CLUSTERS, Floats, Ints, by_cluster, by_task, share_interval
from benchapp.stats.inference.shares import MIN_FOR_INTERVAL, Rate
from benchapp.stats.inference.sides import Paired, TaskMeans, pair
from benchapp.stats.metrics.metric import TrialMetric
from benchapp.stats.metrics.outcomes import CODE_CORPORA, DOC_CORPORA, Mask, Outcomes
from benchapp.stats.metrics.splits import Piece
from runner.base.types import Phase

# Phases that try out a finished library: acquisition comes before it, so its trials are not results of the library.
PHASES = (Phase.DEPLOYMENT, Phase.EVALUATION)

LIMITS = (
    "pass@k rises with every extra try: compare it only at equal k and equal numbers of tries.",
    "It assumes that somebody can identify the passing try; a task passed once counts like one passed always.",
    "Tries that share a library are not independent: they say nothing about another replicate.",
)


def pass_at_k(n: int, c: int, k: int) -> float:
    """Return the chance that k of n tries with c passes hold a pass: 1 - C(n-c, k) / C(n, k). NaN where n < k."""
    if not 0 <= c <= n or k < 1:
        raise ValueError(f"pass_at_k({n}, {c}, {k}): expected 0 <= c <= n and k >= 1")
    return float("nan") if n < k else 1 - comb(n - c, k) / comb(n, k)


@dataclass(frozen=True, slots=True)
class PassPoint:
    """`value`: mean over `tasks` of pass@k, a share; NaN where no task has k scored tries. `samples`: scored tries of
    these tasks. `left_out`: tasks with a scored try, but fewer than k. `parts`: the values behind the mean, of one
    run's tasks or of several `runs`."""

    k: int
    value: float
    tasks: int
    samples: int
    left_out: int
    parts: tuple[float, ...] = ()
    runs: int = 1

    @property
    def interval(self) -> tuple[float, float] | None:
        """Return the 95 % interval: of several runs Student's over their values, of one its tasks resampled, from ten
        of them on."""
        if self.runs > 1:
            return share_interval(self.parts)
        drawn = by_task(np.array(self.parts)) if len(self.parts) >= MIN_FOR_INTERVAL else None
        return (drawn.low, drawn.high) if drawn else None


def pass_curve(
    outcomes: Outcomes | Iterable[Outcomes], ks: Sequence[int] = (1, 2, 3), phases: Sequence[Phase] = PHASES
) -> list[PassPoint]:
    """Return pass@k of one run: a task's scored samples are its tries; unscored ones do not count. Tainted episodes are
    left out. Of several runs (replicates): the mean of their values, tasks and samples added up."""
    if isinstance(outcomes, Outcomes):
        tries, passes = _tries(outcomes, phases)
        return [_point(tries, passes, k) for k in ks]
    curves = [pass_curve(run, ks, phases) for run in outcomes]
    return [_mean(k, [curve[place] for curve in curves]) for place, k in enumerate(ks)]


def count_solved_within(outcomes: Outcomes, k: int) -> tuple[int, int]:
    """Return SkillGenBench's pass@k: (tasks with a pass in the first k samples, tasks with a scored one among them).

    A task with fewer than k tries counts with those, so with unequal tries this is a lower bound.
    """
    mask = outcomes.covering(PHASES) & ~outcomes.tainted & (outcomes.sample < k) & ~np.isnan(outcomes.success)
    tasks = outcomes.task[mask]
    return len(np.unique(tasks[outcomes.success[mask] == 1])), len(np.unique(tasks))


def _tries(outcomes: Outcomes, phases: Sequence[Phase]) -> tuple[Ints, Floats]:
    """Return per task the scored samples, and how many of them passed, [tasks] each."""
    mask = outcomes.covering(phases) & ~outcomes.tainted & ~np.isnan(outcomes.success)
    _, place = np.unique(outcomes.task[mask], return_inverse=True)
    return np.bincount(place).astype(np.int64), np.bincount(place, weights=outcomes.success[mask]).astype(np.float64)


def _point(tries: Ints, passes: Floats, k: int) -> PassPoint:
    """Compute from the tries and passes per task, [tasks] each."""
    enough = tries >= k
    values = [pass_at_k(int(n), int(c), k) for n, c in zip(tries[enough], passes[enough], strict=True)]
    value = float(np.mean(values)) if values else float("nan")
    return PassPoint(k, value, len(values), int(tries[enough].sum()), int((~enough).sum()), tuple(values))


def _mean(k: int, points: Sequence[PassPoint]) -> PassPoint:
    known = [point.value for point in points if point.tasks]
    return PassPoint(
        k,
        float(np.mean(known)) if known else float("nan"),
        sum(point.tasks for point in points),
        sum(point.samples for point in points),
        sum(point.left_out for point in points),
        points[0].parts if len(points) == 1 else tuple(known),
        len(points),
    )


PAPER = "SkillGenBench, section 4.1 (pass@3) and Table 2"


class Tries:
    """One run's tries by the keys of its tasks; all columns [n]. planned, scored and passed count samples. corpus: the
    key of the task's environment, -1 where there is none."""

    def __init__(self, outcomes: Outcomes) -> None:
        """Count the given trials: choose phases and leave tainted episodes out before."""
        self.task, first, place = np.unique(outcomes.task, return_index=True, return_inverse=True)
        n = len(self.task)
        scored, passed = ~np.isnan(outcomes.success), outcomes.success == 1
        self.cluster, self.family = outcomes.cluster[first], outcomes.family[first]
        self.corpus = outcomes.environment[first]
        self.planned = np.bincount(place, minlength=n)
        self.scored = np.bincount(place[scored], minlength=n)
        self.passed = np.bincount(place[passed], minlength=n)

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


@dataclass(frozen=True, slots=True)
class SolvedMetric(TrialMetric):
    """A share of tasks, not of trials: `rate` counts tasks, with all as `planned` and the complete ones as `scored`."""

    def tries(self, outcomes: Outcomes) -> Tries:
        return Tries(self.select_covered(outcomes))

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
        tries = Tries(self.select_covered(outcomes, phases))
        return tries.means(tries.cluster)

    def corpus_means(self, outcomes: Outcomes) -> TaskMeans:
        """Return the same with the corpus as the cluster; a task without one is a cluster of its own."""
        tries = self.tries(outcomes)
        return tries.means(np.where(tries.corpus >= 0, tries.corpus, -2 - tries.task))


ANY = "tasks with a passing sample, where k is the number of samples run; leaves out tasks with an unscored sample"
CODE = "the same over tasks whose source is a repository"
DOC = "the same over tasks whose source is documents, of code or of a domain"
METRICS = SOLVED, SOLVED_CODE, SOLVED_DOC = tuple(
    SolvedMetric(key, name, meaning, PHASES, source=PAPER, corpora=corpora)
    for key, name, meaning, corpora in (
        ("solved", "pass@k", ANY, ()),
        ("solved-code", "pass@k, Code", CODE, CODE_CORPORA),
        ("solved-doc", "pass@k, Doc", DOC, DOC_CORPORA),
    )
)


def samples_of(runs: Sequence[Outcomes]) -> tuple[int, int]:
    """Return (fewest, most) samples planned for a task; (0, 0) where there is no task."""
    planned = [tries.planned for outcomes in runs if len((tries := SOLVED.tries(outcomes)).task)]
    return (int(min(each.min() for each in planned)), int(max(each.max() for each in planned))) if planned else (0, 0)


def name_of(samples: tuple[int, int]) -> str:
    """Return the name of the number: "pass@3" if every task had three samples, else the range of k."""
    fewest, most = samples
    return f"pass@{most}" if fewest == most else f"pass@k, k {fewest} to {most}"


class DrawnMean(Shaped):
    """A mean over tasks, or a difference of two, with resampled tasks. Shares, -1..1 for a difference.

    tasks: complete in every run it uses; left_out: those complete in some and not in all, or in none. by_corpus:
    corpora drawn whole. notes: why an interval is missing, or should not be trusted.
    """

    json_shape = JsonShape("value tasks left_out corpora by_task by_corpus notes")

    def __init__(self, paired: Paired, values: Floats, planned: int) -> None:
        """values: one per task of the pair, [n]."""
        self.value = float(values.mean())
        self.tasks = len(values)
        self.left_out = planned - self.tasks
        self.corpora = paired.clusters
        self.is_trusted = self.corpora >= MIN_CLUSTERS  # the corpora are enough for the interval over them
        self.by_task, self.by_corpus = by_task(values), by_cluster(values, paired.cluster)
        self.notes = []
        if self.by_task is None:
            self.notes.append("every task shows the same, so drawing tasks again shows nothing else")
        elif self.by_corpus is None:
            self.notes.append("one corpus" if self.corpora == 1 else "every corpus shows the same")
        if self.by_corpus is not None and not self.is_trusted:
            few = f"{self.corpora} corpora are fewer than {MIN_CLUSTERS}"
            self.notes.append(f"{few}: the interval over corpora is too narrow, not to be trusted")


def draw_mean(runs: Sequence[Outcomes], metric: SolvedMetric = SOLVED) -> DrawnMean | None:
    """Return pass@k of the replicates of one group. None where no task is complete in all of them."""
    means = [metric.corpus_means(outcomes) for outcomes in runs]
    paired = pair(means, means[:1])  # against itself: only to align the replicates
    return DrawnMean(paired, paired.own.mean(axis=0), _count_planned(runs, metric)) if paired else None


def draw_difference(
    own: Sequence[Outcomes], other: Sequence[Outcomes], metric: SolvedMetric = SOLVED
) -> DrawnMean | None:
    """Return own minus other, paired by task. None where no task is complete on both sides."""
    sides = [[metric.corpus_means(outcomes) for outcomes in side] for side in (own, other)]
    paired = pair(*sides)
    return DrawnMean(paired, paired.delta, _count_planned([*own, *other], metric)) if paired else None


def _count_planned(runs: Sequence[Outcomes], metric: SolvedMetric) -> int:
    return len(np.unique(np.concatenate([outcomes.task[metric.mask(outcomes)] for outcomes in runs])))
