"""pass@k: would at least one of k tries have passed?

Two numbers go by that name. The unbiased estimator (Chen et al. 2021, "Evaluating Large Language Models Trained on Code",
equation 1) asks for the expectation over which k of the n tries one happens to have: 1 - C(n-c, k) / C(n, k). SkillGenBench
(section 4.1) takes the tries it ran, up to three, and counts a task as solved if any of them passed. With n = k the two are the
same number; with fewer tries than k the second still gives one, which is too low.

Limits: pass@k never falls when k grows and rises with every extra try, skill or no skill, so it may be compared only at
equal k and equal tries. It needs a verifier at hand to pick the passing try, and it hides unsteadiness: a task passed
once in three tries counts like one passed three times. Tries that share a library are not independent draws of learning.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import comb

import numpy as np

from benchapp.stats.inference.interval import share_interval
from benchapp.stats.inference.resampling import by_task
from benchapp.stats.inference.shares import MIN_FOR_INTERVAL
from benchapp.stats.metrics.outcomes import Floats, Ints, Outcomes
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
        """95 %: of several runs Student's over their values, of one its tasks resampled, from ten of them on."""
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


def count_solved_within(outcomes: Outcomes, k: int, phases: Sequence[Phase] = PHASES) -> tuple[int, int]:
    """Return SkillGenBench's pass@k: (tasks with a pass in the first k samples, tasks with a scored one among them).

    A task with fewer than k tries counts with those, so with unequal tries this is a lower bound.
    """
    mask = outcomes.covering(phases) & ~outcomes.tainted & (outcomes.sample < k) & ~np.isnan(outcomes.success)
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
