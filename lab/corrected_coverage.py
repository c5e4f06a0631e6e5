"""Coverage of a judge's rates after correction (benchapp/review/results/population_shares.py), by simulation.

    OPENBLAS_NUM_THREADS=1 nice -n 10 python lab/corrected_coverage.py [--repeats N] [--seed S]

The model: items come in clusters of 3 to 9. The log-odds that an item carries the code = a constant + what its
cluster adds (normal, SD 0.8). The judge reads all of them and errs at rates of its own, whose log-odds also have a
part of each cluster (SD 0.8). People settle some: at random, or ten each of four conditions of unequal size, frequency
and judge's error.

The truth is the frequency over endless clusters of this kind. Each cell: coverage of a 95 % interval and its mean
width, of the judge alone (Wilson), of people alone (as in Results), of Rogan-Gladen with the delta method, of the
share that Skillglass shows with the delta method, and of that with the interval it shows.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
from scipy.special import expit, logit
from scipy.stats import t as student

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchapp.review.results.population_shares import (  # noqa: E402
    CodedSample,
    Flags,
    correct_share,  # noqa: E402
    count_effective,
    shares,
    wilson_of_share,
)
from benchapp.stats.inference.interval import Floats  # noqa: E402

JUDGES = {"good": (0.9, 0.97), "fair": (0.75, 0.9), "poor": (0.5, 0.75)}  # TPR, TNR of a middle cluster
FREQUENCIES = (0.05, 0.15, 0.4)
CLUSTERS = (10, 20, 40)
SETTLED = ("30 %", "60 %", "10 a stratum")
SPREAD = 0.8
SHIFTS = np.array([-0.6, -0.2, 0.2, 0.6])  # of the log-odds, by condition
WAYS = ("judge alone", "people alone", "Rogan-Gladen", "delta", "as shown")
Ends = tuple[float, float] | None
ENDLESS = 400_000  # items that the truth is taken from


@dataclass(frozen=True, slots=True)
class Scene:
    judge: str
    frequency: float
    clusters: int
    settled: str


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """[n]: what each item carries, what the judge says, its cluster and condition."""

    carried: Flags
    judged: Flags
    clusters: np.ndarray
    strata: np.ndarray


def draw_world(scene: Scene, clusters: int, rng: np.random.Generator) -> World:
    of = np.repeat(np.arange(clusters), rng.integers(3, 10, size=clusters))
    strata = np.array([0, 0, 0, 0, 1, 1, 2, 3])[(np.arange(clusters) * 8 // clusters)][of]
    shift = SHIFTS[strata] if scene.settled == SETTLED[-1] else 0.0
    finds, leaves = JUDGES[scene.judge]
    effects = rng.normal(0, SPREAD, size=(3, clusters))[:, of]
    carried = rng.random(len(of)) < expit(logit(scene.frequency) + effects[0] + shift)
    found = rng.random(len(of)) < expit(logit(finds) + effects[1] - shift)
    left = rng.random(len(of)) < expit(logit(leaves) + effects[2] - shift)
    return World(carried, np.where(carried, found, ~left), of, strata)


def settle(scene: Scene, world: World, rng: np.random.Generator) -> Flags:
    settled = np.zeros(len(world.carried), dtype=bool)
    for stratum in np.unique(world.strata) if scene.settled == SETTLED[-1] else [None]:
        members = np.flatnonzero(world.strata == stratum) if stratum is not None else np.arange(len(settled))
        wanted = 10 if stratum is not None else round(len(members) * float(scene.settled[:2]) / 100)
        settled[rng.choice(members, size=min(wanted, len(members)), replace=False)] = True
    return settled


def sample_of(scene: Scene, world: World) -> CodedSample:
    strata = world.strata if scene.settled == SETTLED[-1] else np.zeros_like(world.strata)
    return CodedSample(np.ones(len(strata)), strata, world.clusters, np.bincount(strata).astype(float))


def say_people(sample: CodedSample, world: World, settled: Flags) -> Ends:
    whole = np.bincount(sample.strata)
    weights = (whole / np.maximum(np.bincount(sample.strata, settled), 1))[sample.strata][settled]
    _, clusters = np.unique(sample.clusters[settled], return_inverse=True)
    small = CodedSample(weights, sample.strata[settled], clusters, whole.astype(float))
    interval = shares(small, world.carried[settled][:, None].astype(float))[0].interval
    return (interval.low, interval.high) if interval else None


def say_judge(sample: CodedSample, world: World) -> Ends:
    return wilson_of_share(float(world.judged.mean()), count_effective(sample.weights))


def say_by_delta(sample: CodedSample, world: World, settled: Flags, *, gladen: bool) -> Ends:
    """The estimate and its linearised standard error over clusters, with Student's quantile."""
    whole = np.bincount(sample.strata)
    weights = settled * (whole / np.maximum(np.bincount(sample.strata, settled), 1))[sample.strata]
    judged, carried, rate = world.judged.astype(float), world.carried.astype(float), world.judged.mean()
    given = (world.carried, ~world.carried) if gladen else (world.judged, ~world.judged)
    sums = [float(weights[part].sum()) for part in given]
    if min(sums) <= 0:
        return None
    seen = judged if gladen else carried
    yes, no = (float(weights[part] @ seen[part]) / total for part, total in zip(given, sums, strict=True))
    left = [
        np.where(part, weights * (seen - mean) / total, 0)
        for part, mean, total in zip(given, (yes, no), sums, strict=True)
    ]
    if gladen:
        youden = yes - no
        if youden <= 0.05:
            return None
        value = (rate - no) / youden
        adds = ((judged - rate) / len(judged) - value * left[0] - (1 - value) * left[1]) / youden
    else:
        value = rate * yes + (1 - rate) * no
        adds = (judged - rate) / len(judged) * (yes - no) + rate * left[0] + (1 - rate) * left[1]
    count = len(np.unique(sample.clusters))
    error = float(np.sqrt(np.square(np.bincount(sample.clusters, adds)).sum() * count / (count - 1)))
    half = float(student.ppf(0.975, len(np.unique(sample.clusters[settled])) - 1)) * error
    return max(0.0, value - half), min(1.0, value + half)


def say_all(scene: Scene, rng: np.random.Generator) -> list[Ends]:
    world = draw_world(scene, scene.clusters, rng)
    settled, sample = settle(scene, world, rng), sample_of(scene, world)
    shown = correct_share(sample, world.judged, settled, world.carried).interval
    return [
        say_judge(sample, world),
        say_people(sample, world, settled),
        say_by_delta(sample, world, settled, gladen=True),
        say_by_delta(sample, world, settled, gladen=False),
        (shown.low, shown.high) if shown else None,
    ]


def simulate(scene: Scene, repeats: int, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """[ways]: how often an interval was given, how often such a one held the truth, and its mean width."""
    endless = draw_world(scene, ENDLESS // 6, rng)
    truth = float(endless.carried.mean())
    found = np.full((repeats, len(WAYS), 2), np.nan)
    for number in range(repeats):
        for place, ends in enumerate(say_all(scene, rng)):
            if ends:
                found[number, place] = ends
    given = ~np.isnan(found[:, :, 0])
    held = (found[:, :, 0] <= truth + 1e-12) & (truth <= found[:, :, 1] + 1e-12)
    counts = np.maximum(given.sum(axis=0), 1)
    return (
        given.mean(axis=0),
        (held & given).sum(axis=0) / counts,
        np.nansum(found[:, :, 1] - found[:, :, 0], axis=0) / counts,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=11)
    asked = parser.parse_args()
    started = time.process_time()
    print(f"| judge | clusters | settled | frequency | {' | '.join(WAYS)} |")
    print("|---" * (4 + len(WAYS)) + "|")
    for place, values in enumerate(product(JUDGES, CLUSTERS, SETTLED, FREQUENCIES)):
        judge, clusters, settled, frequency = values
        scene = Scene(judge, frequency, clusters, settled)
        given, held, width = simulate(scene, asked.repeats, np.random.default_rng((asked.seed, place)))
        cells = [
            f"{100 * held[way]:.1f}, {width[way]:.2f}"
            + ("" if given[way] > 0.995 else f" ({100 * given[way]:.0f} % given)")
            for way in range(len(WAYS))
        ]
        print(f"| {judge} | {clusters} | {settled} | {frequency} | {' | '.join(cells)} |", flush=True)
    print(f"\n{asked.repeats} repeats a line; {time.process_time() - started:.0f} s of CPU")


if __name__ == "__main__":
    main()
