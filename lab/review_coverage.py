"""Coverage of the intervals of a failure taxonomy (benchapp/review/results/population_shares.py), by simulation.

    OPENBLAS_NUM_THREADS=1 nice -n 10 python lab/review_coverage.py [--repeats N] [--seed S]

The model: failed trials come in clusters (episodes that share a library, or runs of one task) of 3 to 9. The log-odds
that a trial carries a code = a constant + what its cluster adds (normal, SD 0.8; the second half of the table: 1.5).
From the trials some are drawn and coded: all, three in ten, or ten each of four conditions of very unequal size and
of unequal frequency.

Two truths, one for each interval: the frequency over endless clusters of this kind, and the share among just these
trials if all of them were coded. docs/explanation/taxonomy.md judges what comes out.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
from scipy.special import expit, logit

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchapp.review.results.population_shares import CodedSample, Share, shares  # noqa: E402
from benchapp.stats.inference.interval import Floats, Interval, Ints  # noqa: E402

FREQUENCIES = (0.03, 0.1, 0.3)
CLUSTERS = (6, 10, 20, 40)
DESIGNS = ("all", "3 in 10", "stratified")
SPREADS = (0.8, 1.5)
STRATA = 4
SHIFTS = (-0.6, -0.2, 0.2, 0.6)  # of the log-odds, by condition
PER_STRATUM = 10
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(41)


@dataclass(frozen=True, slots=True)
class Scene:
    clusters: int
    design: str
    spread: float


@dataclass(slots=True)
class Count:
    """Of one frequency in one scene: intervals that were given, that held the truth, and how wide they were."""

    given: int = 0
    held: int = 0
    width: float = 0.0

    def add(self, interval: Interval | None, truth: float) -> None:
        if interval is None:
            return
        self.given += 1
        self.held += interval.low - 1e-12 <= truth <= interval.high + 1e-12
        self.width += interval.high - interval.low


@dataclass(frozen=True, slots=True, eq=False)
class Population:
    """carried: [N, frequencies], 0 or 1; clusters and strata: [N]."""

    carried: Floats
    clusters: Ints
    strata: Ints


def population(scene: Scene, rng: np.random.Generator) -> Population:
    sizes = rng.integers(3, 10, size=scene.clusters)
    clusters = np.repeat(np.arange(scene.clusters), sizes)
    # conditions are properties of clusters, the first one has half of them
    strata = np.minimum(np.arange(scene.clusters) * 8 // scene.clusters, 6)
    strata = np.array([0, 0, 0, 0, 1, 2, 3])[strata][clusters]
    shift = np.array(SHIFTS)[strata] if scene.design == "stratified" else 0.0
    added = rng.normal(0, scene.spread, size=scene.clusters)[clusters] + shift
    chance = expit(logit(np.array(FREQUENCIES))[np.newaxis] + np.asarray(added)[:, np.newaxis])
    return Population((rng.random(chance.shape) < chance).astype(float), clusters, strata)


def truths(scene: Scene) -> Floats:
    """The frequency over endless clusters of this kind, one for each constant."""
    place = logit(np.array(FREQUENCIES))
    shifts = np.zeros(1)
    weights = np.ones(1)
    if scene.design == "stratified":
        counts = np.bincount(
            np.array([0, 0, 0, 0, 1, 2, 3])[np.minimum(np.arange(scene.clusters) * 8 // scene.clusters, 6)]
        )
        shifts, weights = np.array(SHIFTS)[: len(counts)], counts / counts.sum()
    normal = WEIGHTS / WEIGHTS.sum()
    values = expit(place[:, None, None] + shifts[None, :, None] + scene.spread * NODES[None, None, :])
    return np.asarray((values * weights[None, :, None] * normal[None, None, :]).sum(axis=(1, 2)))


def coded(scene: Scene, people: Population, rng: np.random.Generator) -> list[Share]:
    total = len(people.clusters)
    strata = people.strata if scene.design == "stratified" else np.zeros(total, dtype=np.int64)
    taken, weights = [], []
    for stratum in np.unique(strata):
        members = np.flatnonzero(strata == stratum)
        wanted = {"all": len(members), "3 in 10": round(0.3 * len(members)), "stratified": PER_STRATUM}[scene.design]
        drawn = rng.choice(members, size=min(wanted, len(members)), replace=False)
        taken.append(drawn)
        weights.append(np.full(len(drawn), len(members) / len(drawn)))
    kept = np.concatenate(taken)
    _, numbers = np.unique(people.clusters[kept], return_inverse=True)
    names, places = np.unique(strata[kept], return_inverse=True)
    sizes = np.array([np.count_nonzero(strata == name) for name in names], dtype=float)
    return shares(CodedSample(np.concatenate(weights), places, numbers, sizes), people.carried[kept])


def simulate(scene: Scene, repeats: int, rng: np.random.Generator) -> Iterator[tuple[float, Count, Count]]:
    between, drawn = [Count() for _ in FREQUENCIES], [Count() for _ in FREQUENCIES]
    frequencies = truths(scene)
    for _ in range(repeats):
        people = population(scene, rng)
        for place, share in enumerate(coded(scene, people, rng)):
            between[place].add(share.interval, float(frequencies[place]))
            drawn[place].add(share.sampling, float(people.carried[:, place].mean()))
    yield from zip(frequencies, between, drawn, strict=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=7)
    asked = parser.parse_args()
    started = time.process_time()
    print("| clusters | coded | SD | frequency | over clusters | width | of this population | width |")
    print("|---|---|---|---|---|---|---|---|")
    for spread, clusters, design in product(SPREADS, CLUSTERS, DESIGNS):
        scene = Scene(clusters, design, spread)
        rng = np.random.default_rng((asked.seed, clusters, DESIGNS.index(design), round(10 * spread)))
        for frequency, between, drawn in simulate(scene, asked.repeats, rng):
            print(f"| {clusters} | {design} | {spread} | {frequency:.3f} | {_said(between)} | {_said(drawn)} |")
    print(f"\n{asked.repeats} repeats a line; {time.process_time() - started:.0f} s of CPU")


def _said(count: Count) -> str:
    if not count.given:
        return "none given | -"
    return f"{count.held / count.given:.3f} | {count.width / count.given:.3f}"


if __name__ == "__main__":
    main()
