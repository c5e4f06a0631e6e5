"""Coverage of the interval of Krippendorff's alpha (benchapp/stats/agreement), by simulation, and of three that lost.

    OPENBLAS_NUM_THREADS=1 nice -n 10 python lab/agreement_coverage.py [--datasets N] [--resamples N] [--seed S]

The model: six codes of very unequal frequency. A task has a code of its own that half of its items show; an item shows
none, one or two codes. A reviewer sees an item rightly with a chance that depends on the task (logit with SD 0.8) and
else misses a code, adds one or takes one for another: so both codes and mistakes cluster by task. Three reviewers leave
out 15 % of the items each. "uneven": the k-th task has its items in proportion to 1/k, so that a few tasks hold most.
The truth an interval has to cover is alpha over 40,000 tasks with the same reviewers.
docs/explanation/agreement.md judges what comes out.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path

import numpy as np
from scipy.special import expit, ndtr, ndtri

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchapp.stats.agreement import (  # noqa: E402  # noqa: E402
    AlphaTally,
    alpha_many,
    bootstrap_t,
    interval_of,
    masi_distance,  # noqa: E402
    student,
)
from benchapp.stats.inference.interval import TAIL, ZERO, Floats, Ints  # noqa: E402

CODES = 6
FREQUENCIES = np.array([0.36, 0.24, 0.16, 0.12, 0.08, 0.04])
OWN, NONE, SECOND, MISSING = 0.5, 0.1, 0.25, 0.15
TASK_SD = 0.8
LEVELS = {"high": 2.2, "middle": 0.7, "low": -0.8}  # log-odds of seeing an item rightly in an average task
SIZES = ((6, 30), (6, 60), (10, 30), (10, 60), (10, 120), (30, 30), (30, 60), (30, 120))  # tasks, items
UNEVEN = ((10, 60), (30, 120))
POPULATION = (40_000, 160_000)
SETS = [frozenset(code for code in range(CODES) if mask >> code & 1) for mask in range(2**CODES)]
DISTANCES = np.array([[masi_distance(one, other) for other in SETS] for one in SETS])

Ends = tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class Scene:
    tasks: int
    items: int
    reviewers: int
    level: str
    uneven: bool = False


def scenes() -> Iterator[Scene]:
    for (tasks, items), reviewers, level in product(SIZES, (2, 3), LEVELS):
        yield Scene(tasks, items, reviewers, level)
    for (tasks, items), reviewers, level in product(UNEVEN, (2, 3), LEVELS):
        yield Scene(tasks, items, reviewers, level, uneven=True)


# --- answers ----------------------------------------------------------------------------------------------------------


def draw(scene: Scene, rng: np.random.Generator) -> AlphaTally:
    """A data set: code sets as bit masks, [items, reviewers], -1 where nobody looked, packed as alpha needs it."""
    task = np.arange(scene.items) % scene.tasks
    if scene.uneven:
        share = 1 / np.arange(1, scene.tasks + 1)
        task = rng.choice(scene.tasks, size=scene.items, p=share / share.sum())
    own = _codes(scene.tasks, rng)
    first = np.where(rng.random(scene.items) < OWN, own[task], _codes(scene.items, rng))
    truth = 1 << first
    truth |= np.where(rng.random(scene.items) < SECOND, 1 << _codes(scene.items, rng), 0)
    truth[rng.random(scene.items) < NONE] = 0
    right = expit(LEVELS[scene.level] + TASK_SD * rng.standard_normal(scene.tasks))[task]
    answers = np.stack([_seen(truth, right, rng) for _ in range(scene.reviewers)], axis=1)
    if scene.reviewers > 2:
        answers[rng.random(answers.shape) < MISSING] = -1
    return pack(answers, task)


def _codes(count: int, rng: np.random.Generator) -> Ints:
    return rng.choice(CODES, size=count, p=FREQUENCIES)


def _seen(truth: Ints, right: Floats, rng: np.random.Generator) -> Ints:
    """Wrong answers, a third each: another code set instead, one code more, the lowest code missed."""
    other = 1 << _codes(len(truth), rng)
    kind = rng.integers(0, 3, len(truth))
    wrong = np.where(kind == 0, other, np.where(kind == 1, truth | other, truth & (truth - 1)))
    return np.where(rng.random(len(truth)) < right, truth, wrong)


def pack(answers: Ints, task: Ints) -> AlphaTally:
    answered = answers >= 0
    paired = answered.sum(axis=1) > 1
    answers, answered, task = answers[paired], answered[paired], task[paired]
    apart = np.zeros(len(answers))
    for one, other in product(range(answers.shape[1]), repeat=2):
        if one != other:
            apart += np.where(answered[:, one] & answered[:, other], DISTANCES[answers[:, one], answers[:, other]], 0.0)
    present, rows = np.unique(task, return_inverse=True)
    values, columns = np.unique(answers[answered], return_inverse=True)
    counts = np.zeros((len(present), len(values)))
    np.add.at(counts, (np.broadcast_to(rows[:, np.newaxis], answered.shape)[answered], columns), 1.0)
    summed = np.bincount(rows, weights=apart / (answered.sum(axis=1) - 1))
    return AlphaTally(counts, summed, DISTANCES[np.ix_(values, values)], len(answers))


# --- intervals --------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=16)
def weights(clusters: int, count: int) -> Floats:
    rng = np.random.default_rng((7, clusters))
    return rng.multinomial(clusters, np.full(clusters, 1 / clusters), size=count).astype(float)


def percentile(tally: AlphaTally, count: int) -> Ends:
    values = alpha_many(tally, weights(tally.clusters, count))
    low, high = np.nanquantile(values, (TAIL, 1 - TAIL))
    return float(low), float(high)


def bca(tally: AlphaTally, count: int) -> Ends:
    """Bias-corrected and accelerated (Efron 1987), acceleration by the jackknife over tasks."""
    m = tally.clusters
    values = alpha_many(tally, weights(m, count))
    values = values[np.isfinite(values)]
    middle = float(alpha_many(tally, np.ones((1, m)))[0])
    left = alpha_many(tally, 1.0 - np.eye(m))
    gap = left.mean() - left
    acceleration = float((gap**3).sum() / (6 * (gap**2).sum() ** 1.5))
    share = ((values < middle).sum() + (values == middle).sum() / 2) / len(values)
    bias = float(ndtri(share))
    tails = bias + ndtri(np.array([TAIL, 1 - TAIL]))
    levels = ndtr(bias + tails / (1 - acceleration * tails))
    if not np.isfinite(levels).all():
        return None
    low, high = np.quantile(values, levels)
    return float(low), float(high)


def students_t(tally: AlphaTally, count: int) -> Ends:
    del count
    ends = student(tally)
    return ends.low, ends.high


def drawn(tally: AlphaTally, count: int) -> Ends:
    ends = bootstrap_t(tally, weights(tally.clusters, count))
    return (ends.low, ends.high) if ends else None


def as_shown(tally: AlphaTally, count: int) -> Ends:
    ends = interval_of(tally, weights(tally.clusters, count))
    return ends.low, ends.high


METHODS: dict[str, Callable[[AlphaTally, int], Ends]] = {
    "percentile": percentile,
    "BCa": bca,
    "bootstrap-t": drawn,
    "Student's t": students_t,
    "as shown": as_shown,
}


# --- the table --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Score:
    below: int = 0  # the whole interval lies below the truth
    above: int = 0
    none: int = 0
    width: float = 0.0
    given: int = 0

    def add(self, ends: Ends, truth: float) -> None:
        if ends is None:
            self.none += 1
            return
        self.given += 1
        self.below += ends[1] < truth
        self.above += ends[0] > truth
        self.width += ends[1] - ends[0]

    def line(self) -> str:
        if not self.given:
            return "none"
        missed = self.below + self.above
        text = f"{100 * (1 - missed / self.given):5.1f} ({self.below}/{self.above}) {self.width / self.given:.2f}"
        return text + (f" none {self.none}" if self.none else "")


def run(scene: Scene, truth: float, *, datasets: int, count: int, seed: int) -> dict[str, Score]:
    """Data sets without any disagreement, or without variation, have no interval; the page gives none either."""
    rng = np.random.default_rng((seed, scene.tasks, scene.items, scene.reviewers, list(LEVELS).index(scene.level)))
    scores = {name: Score() for name in METHODS}
    for _ in range(datasets):
        found = draw(scene, rng)
        plain = found.varies and found.apart.sum() > ZERO
        for name, method in METHODS.items():
            scores[name].add(method(found, count) if plain else None, truth)
    return scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", type=int, default=1000)
    parser.add_argument("--resamples", type=int, default=1999)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    began = time.process_time()
    truths: dict[tuple[int, str], float] = {}
    print("coverage % (below/above) mean width")
    print("tasks items reviewers level alpha | " + " | ".join(METHODS))
    for scene in scenes():
        key = (scene.reviewers, scene.level)
        if key not in truths:
            all_tasks = draw(Scene(*POPULATION, *key), np.random.default_rng((asked.seed, 99)))
            truths[key] = float(alpha_many(all_tasks, np.ones((1, all_tasks.clusters)))[0])
        scores = run(scene, truths[key], datasets=asked.datasets, count=asked.resamples, seed=asked.seed)
        cells = " | ".join(score.line() for score in scores.values())
        name = (scene.tasks, scene.items, scene.reviewers, scene.level, *(["uneven"] if scene.uneven else []))
        print(*name, f"{truths[key]:.3f}", "|", cells, flush=True)
    print(f"{time.process_time() - began:.0f} s of CPU")


if __name__ == "__main__":
    main()
