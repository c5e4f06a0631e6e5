"""Power as the planner predicts it (benchapp/stats/planning), against comparisons that are drawn and tested one by one.

    OPENBLAS_NUM_THREADS=1 nice -n 10 python benchmarks/planner.py [--repeats N] [--pilots N] [--seed S]

What is drawn knows nothing of the planner: tasks are random ones, and beside normal log-odds there are libraries
that are mostly good or mostly bad, libraries that now and then do harm, and a side without libraries. The test is
`benchapp.stats.inference.difference.primary`, called once for each comparison. The planner is told the four spreads: as the
scene has them ("known"), or as a pilot shows them, a run of the same design in which the difference is the same. docs/explanation/statistics.md
judges what comes out.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchapp.stats.inference.difference import primary  # noqa: E402
from benchapp.stats.inference.interval import TAIL, Floats  # noqa: E402
from benchapp.stats.inference.sides import Paired  # noqa: E402
from benchapp.stats.planning.power import Design, predict_power  # noqa: E402
from benchapp.stats.planning.spread import Spread, measure_pairs  # noqa: E402
from benchmarks.levels import WORLDS, World  # noqa: E402

REACHED = 2 * TAIL + 1e-12
DRAWN = 4_000  # comparisons from which the spreads of a scene and its true difference are computed
HARM = 2.5  # what a collapsed library costs, on the log-odds


@dataclass(frozen=True, slots=True)
class PlannedScene:
    """world: of benchmarks/levels.py. gain: of the own side on the log-odds. drift: SD of what a whole rerun shares. beta: a
    library is mostly good or mostly bad, by a beta distribution with this shape. collapse: chance that an
    own library does harm. bare: the other side has no libraries."""

    name: str
    world: World
    clusters: int
    replicates: tuple[int, int]
    gain: float
    samples: int = 1
    drift: float = 0.0
    beta: float = 0.0
    collapse: float = 0.0
    bare: bool = False

    @property
    def sizes(self) -> NDArray[np.int64]:
        return self.world.sizes(self.clusters)

    @property
    def owner(self) -> NDArray[np.int64]:
        return np.repeat(np.arange(self.clusters), self.sizes)

    @property
    def design(self) -> Design:
        return Design(tuple(self.sizes.tolist()), self.replicates, self.samples)


def scenes() -> Iterator[PlannedScene]:
    shared, heavy, pairs, rare, floor, uneven = WORLDS.values()
    flat = World(middle=-0.6, task_sd=0.7, library_sd=0.0, tasks=(6,))
    yield PlannedScene("shared", shared, 6, (1, 1), 2.0)
    yield PlannedScene("shared", shared, 10, (1, 1), 1.2)
    yield PlannedScene("shared", shared, 20, (1, 1), 0.8)
    yield PlannedScene("heavy", heavy, 12, (1, 1), 4.0)
    yield PlannedScene("pairs", pairs, 30, (1, 1), 0.9)
    yield PlannedScene("rare", rare, 30, (1, 1), 1.5)
    yield PlannedScene("uneven", uneven, 20, (1, 1), 1.2)
    yield PlannedScene("good or bad", flat, 16, (1, 1), 0.9, beta=0.5)
    yield PlannedScene("shared", shared, 10, (1, 3), 0.9)
    yield PlannedScene("rare", rare, 20, (1, 3), 1.5)
    yield PlannedScene("uneven", uneven, 12, (1, 10), 1.2)
    yield PlannedScene("shared", shared, 4, (2, 2), 2.0)
    yield PlannedScene("uneven", uneven, 10, (2, 2), 1.5)
    yield PlannedScene("shared", shared, 4, (3, 3), 1.0)
    yield PlannedScene("rare", rare, 10, (3, 3), 1.5)
    yield PlannedScene("pairs", pairs, 10, (3, 3), 0.8, samples=3)
    yield PlannedScene("collapse", shared, 10, (3, 3), 1.0, collapse=1 / 7)
    yield PlannedScene("no libraries", shared, 10, (3, 3), 0.7, bare=True)
    yield PlannedScene("good or bad", flat, 8, (5, 5), 0.7, beta=0.5)
    yield PlannedScene("uneven", uneven, 6, (5, 5), 0.7)
    yield PlannedScene("drift", shared, 20, (5, 5), 0.5, drift=0.3)
    yield PlannedScene("floor", floor, 10, (4, 10), 1.0)
    yield PlannedScene("good or bad", flat, 6, (3, 5), 1.2, beta=0.5)
    yield PlannedScene("shared", shared, 30, (10, 10), 0.15)
    yield PlannedScene("rare", rare, 4, (10, 10), 1.3)


def draw_chances(
    scene: PlannedScene,
    tasks: Floats,
    k: int,
    replicates: tuple[int, int],
    gains: tuple[float, float],
    rng: np.random.Generator,
) -> list[Floats]:
    """Chances to pass of both sides, [k, replicates, tasks]. tasks: log-odds, [tasks]."""
    return [
        _learn(scene, tasks + gain, (k, count, scene.clusters), rng, harms=place == 0)
        for place, (gain, count) in enumerate(zip(gains, replicates, strict=True))
    ]


def draw_tasks(scene: PlannedScene, rng: np.random.Generator) -> Floats:
    """The suite of a scene: [tasks], log-odds."""
    return rng.normal(scene.world.middle, scene.world.task_sd, len(scene.owner))


def _learn(
    scene: PlannedScene, tasks: Floats, shape: tuple[int, int, int], rng: np.random.Generator, *, harms: bool
) -> Floats:
    if scene.bare and not harms:
        return np.broadcast_to(expit(tasks), (*shape[:2], len(tasks)))
    if scene.beta:
        worth = (rng.beta(scene.beta, scene.beta, shape) - 0.5)[..., scene.owner]
        chances = expit(tasks)
        return np.asarray(chances + worth * np.minimum(chances, 1 - chances))  # the mean of every task stays as it is
    library = rng.normal(0, scene.world.library_sd, shape) + rng.normal(0, 1, (*shape[:2], 1)) * scene.drift
    if harms:
        library -= HARM * (rng.random(shape) < scene.collapse)
    return np.asarray(expit(tasks + library[..., scene.owner]))


def describe(scene: PlannedScene, tasks: Floats, rng: np.random.Generator) -> tuple[Spread, float]:
    """The spreads, averaged over both sides, of a scene with half of the gain on both; and the true difference with all of it on
    one. From chances and not from passes."""
    halfway = draw_chances(scene, tasks, DRAWN, (1, 1), (scene.gain / 2, scene.gain / 2), rng)
    task, learning, rerun = np.array([_moments(each[:, 0], scene.owner) for each in halfway]).mean(axis=0)
    parts = np.sqrt(np.maximum(0.0, (task, learning - max(0.0, rerun), rerun)))
    own, other = (float(each.mean()) for each in draw_chances(scene, tasks, DRAWN, (1, 1), (scene.gain, 0.0), rng))
    return Spread((own + other) / 2, *map(float, parts)), own - other


def _moments(chances: Floats, owner: NDArray[np.int64]) -> tuple[float, ...]:
    """Of [k, tasks]: variance between tasks; covariance of two tasks of one library, and of two libraries of one run."""
    same = owner[:, np.newaxis] == owner
    within, across = same & ~np.eye(len(owner), dtype=bool), ~same
    products = np.cov(chances, rowvar=False)
    return float(chances.mean(axis=0).var()), float(products[within].mean()), float(products[across].mean())


def simulate(scene: PlannedScene, tasks: Floats, k: int, rng: np.random.Generator) -> Iterator[Paired]:
    """Comparisons as the pages make them: passes of trials, averaged over the samples of a task."""
    owner, n = scene.owner, len(scene.owner)
    keys, weight = np.arange(n), np.full(n, 1 / n)
    for _ in range(k):
        sides = [each[0] for each in draw_chances(scene, tasks, 1, scene.replicates, (scene.gain, 0.0), rng)]
        own, other = (rng.binomial(scene.samples, each) / scene.samples for each in sides)
        yield Paired(keys, owner, owner, keys, own, other, weight, 0)


def is_found(paired: Paired) -> bool:
    outcome = primary(paired)
    return outcome.p is not None and outcome.p <= REACHED and outcome.estimate > 0


def tabulate(k: int, pilots: int, seed: int) -> Iterator[str]:
    """Power in percent: simulated, predicted from known spreads, and from pilots (mean of all; middle 80 % of them)."""
    yield "| scene | episodes | replicates | points | simulated | known | off | pilots | off | middle 80 % |"
    yield "|" + "---|" * 10
    worst = {"known": 0.0, "pilots": 0.0}
    for place, scene in enumerate(scenes()):
        rng = np.random.default_rng((seed, place))
        tasks = draw_tasks(scene, rng)
        spread, truth = describe(scene, tasks, rng)
        power = float(np.mean([is_found(each) for each in simulate(scene, tasks, k, rng)]))
        known = predict_power(scene.design, spread, truth) or 0.0
        told = [
            predict_power(scene.design, measure_pairs([each]).spread, truth) or 0.0
            for each in simulate(scene, tasks, pilots, rng)
        ]
        off = {"known": known - power, "pilots": float(np.mean(told)) - power}
        worst = {name: max(worst[name], abs(off[name])) for name in worst}
        low, high = np.quantile(told, (0.1, 0.9))
        yield (
            f"| {scene.name} | {scene.clusters} | {scene.replicates[0]} v {scene.replicates[1]} | {100 * truth:.0f} |"
            f" {100 * power:.1f} | {100 * known:.1f} | {100 * off['known']:+.1f} | {100 * np.mean(told):.1f} |"
            f" {100 * off['pilots']:+.1f} | {100 * low:.0f} to {100 * high:.0f} |"
        )
    yield f"\nFarthest off: {100 * worst['known']:.1f} points from known spreads, {100 * worst['pilots']:.1f} on average over pilots."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=4_000, help="comparisons simulated for each design")
    parser.add_argument("--pilots", type=int, default=40)
    parser.add_argument("--seed", type=int, default=11)
    args, start = parser.parse_args(), time.monotonic()
    for line in tabulate(args.repeats, args.pilots, args.seed):
        print(line, flush=True)
    print(f"\n{args.repeats} comparisons a design, {args.pilots} pilots, {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
