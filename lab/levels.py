"""How often the one model is wrong where nothing differs, and how often it finds what does: `python lab/levels.py`.

Experiments are drawn, judged as a page judges them, and counted: 182 scenes without any difference, and the power
table of docs/explanation/statistics.md. `--experiments 1000` takes some twenty minutes on two cores; `--scenes power`
draws that table alone.

A trial passes with a chance whose log-odds add up: its task, its family, the library of its episode (drawn anew in each
replicate), and, where a scene says so, what moves a whole replicate: all conditions of it alike (`shared`) or each
its own way (`drift`).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchapp.stats.inference.model import (  # noqa: E402
    ClaimTest,
    claim_rerun,
    claim_run,
    correct,
    estimate_difference,
    measure_run_factor,
)

Floats = NDArray[np.float64]
ALPHA = 0.05
FLOOR = -3.5  # log-odds: about 5 % of trials pass
SOUGHT = 0.137  # shares: the difference whose power is counted
CLAIMS = ("run, blocks", "rerun, no blocks", "rerun, blocks")


@dataclass(frozen=True)
class Scene:
    """middles: log-odds of each condition, all the same where empty. library: SD of what an episode's library adds,
    of each condition. split: half of the episodes gain this much in every condition but the baseline, the other half
    loses it."""

    kind: str
    conditions: int = 5
    replicates: int = 2
    episodes: int = 10
    tasks: int = 15
    middles: tuple[float, ...] = ()
    library: tuple[float, ...] = ()
    shared: float = 0.0
    drift: tuple[float, ...] = ()
    split: float = 0.0
    hard: float = 1.0  # SD of tasks


def scenes() -> Iterator[Scene]:
    sizes = [
        (1, 6),
        (1, 10),
        (1, 20),
        (2, 2),
        (2, 4),
        (2, 6),
        (2, 10),
        (2, 20),
        (3, 6),
        (3, 10),
        (5, 4),
        (5, 10),
        (1, 30),
        (3, 2),
        (3, 4),
    ]
    for conditions, (replicates, episodes) in product((2, 5, 10), sizes):
        yield Scene("plain", conditions, replicates, episodes)
    some = [(replicates, episodes) for replicates in (1, 2, 3) for episodes in (6, 10, 20)]
    for replicates, episodes in some:
        yield Scene("three of five at the floor", 5, replicates, episodes, middles=(0, 0, FLOOR, FLOOR, FLOOR))
        yield Scene("three without a library", 5, replicates, episodes, library=(0.8, 0.8, 0, 0, 0))
    for end, (replicates, episodes) in product((-3.5, 3.5), [*some[:6]]):
        yield Scene("all at the floor or the ceiling", 2, replicates, episodes, middles=(end, end))
    for ratio, (replicates, episodes) in product((0.0, 2.0), [*some[:6], (5, 6)]):
        yield Scene("unequal spread of libraries", 2, replicates, episodes, library=(0.8, ratio))
    for conditions, (replicates, episodes) in product((2, 5), [*some[1:], (5, 10)][:8]):
        yield Scene("what moves a run moves all, SD 0.6", conditions, replicates, episodes, shared=0.6)
    for tasks, (replicates, episodes) in product((1, 2, 5), some):
        yield Scene("1, 2 or 5 tasks an episode", 5, replicates, episodes, tasks)
    for replicates, episodes in [(1, 6), (1, 10), (1, 20), (2, 6), (2, 10), (2, 20)]:
        yield Scene("effects that cancel out", 3, replicates, episodes, split=1.0)
        yield Scene("very unlike tasks", 3, replicates, episodes, hard=2.5)
    for conditions, (replicates, episodes) in product((2, 5, 10), [*some, (5, 10)]):
        yield Scene("each condition drifts, SD 0.3", conditions, replicates, episodes, drift=(0.3,) * conditions)
    for replicates, episodes in [(2, 6), (2, 10), (3, 10), (5, 10)]:
        yield Scene("unlike drift, or SD 0.6", 5, replicates, episodes, drift=(0.6,) * 5)
        yield Scene("unlike drift, or SD 0.6", 5, replicates, episodes, drift=(0.0, 0.6, 0.3, 0.0, 0.3))


def draw(scene: Scene, rng: np.random.Generator, experiments: int, shift: float = 0.0) -> Floats:
    """Mean score of each cell, [experiments, conditions, replicates, episodes].
    shift: of the first condition with skills."""
    whole = (experiments, scene.conditions, scene.replicates, scene.episodes)
    of_arms = (1, scene.conditions, 1, 1)
    chance = rng.normal(0, 1, whole) * np.reshape(scene.library or (0.8,) * scene.conditions, of_arms)
    chance += np.reshape(scene.middles or (0.0,) * scene.conditions, of_arms)
    chance += rng.normal(0, 0.5, (experiments, 1, 1, scene.episodes))
    chance += rng.normal(0, scene.shared, (experiments, 1, scene.replicates, 1))
    if scene.drift:
        chance += rng.normal(0, 1, (*whole[:3], 1)) * np.reshape(scene.drift, of_arms)
    if scene.split:
        chance[:, 1:] += scene.split * np.where(np.arange(scene.episodes) % 2, 1, -1)
    chance[:, 1] += shift
    tasks = rng.normal(0, scene.hard, (experiments, 1, 1, scene.episodes, scene.tasks))
    passed = rng.random((*whole, scene.tasks), dtype=np.float32) < expit(chance[..., np.newaxis] + tasks)
    return np.asarray(passed.mean(axis=-1))


def judge(cells: Floats, tasks: int, claim: str) -> list[ClaimTest | None]:
    """Every condition of one experiment, [conditions, replicates, episodes], against the first."""
    is_block = not claim.endswith("no blocks")
    estimates = [estimate_difference(own, cells[0], 1 / tasks, is_block=is_block) for own in cells[1:]]
    if claim.startswith("run"):
        return [each and claim_run(each) for each in estimates]
    factor = measure_run_factor(list(cells), is_block=is_block)
    return [each and claim_rerun(each, factor) for each in estimates]


def count(scene: Scene, claim: str, experiments: int) -> tuple[float, float]:
    """Of comparisons without a difference the share that is significant alone;
    of experiments the share with such a one after correction for all."""
    middles = scene.middles or (0.0,) * scene.conditions
    alike = [at for at, middle in enumerate(middles[1:]) if middle == middles[0]]
    rng = np.random.default_rng(crc32(repr((scene, claim)).encode()))
    alone = together = total = 0
    for start in range(0, experiments, 250):
        for cells in draw(scene, rng, min(250, experiments - start)):
            ps = [test.p if test else None for test in judge(cells, scene.tasks, claim)]
            alone += sum(ps[at] is not None and ps[at] <= ALPHA for at in alike)
            corrected = correct(ps)
            together += any(corrected[at] is not None and corrected[at] <= ALPHA for at in alike)
            total += len(alike)
    return alone / total, together / experiments


def count_power(scene: Scene, claim: str, experiments: int) -> tuple[float, float]:
    """Share of experiments in which the one true difference is found: alone, and after the correction for all."""
    rng = np.random.default_rng(7)
    found = np.zeros(2)
    for cells in draw(scene, rng, experiments, find_shift(scene)):
        tests = judge(cells, scene.tasks, claim)
        ps = [each.p if each else None for each in tests]
        if tests[0] is not None and tests[0].delta > 0:
            found += [p is not None and p <= ALPHA for p in (ps[0], correct(ps)[0])]
    alone, together = found / experiments
    return float(alone), float(together)


def find_shift(scene: Scene) -> float:
    """Log-odds that make a difference of SOUGHT on average."""
    low, high = 0.0, 3.0
    for _ in range(12):
        middle = (low + high) / 2
        cells = draw(scene, np.random.default_rng(1), 400, middle)
        low, high = (middle, high) if (cells[:, 1] - cells[:, 0]).mean() < SOUGHT else (low, middle)
    return (low + high) / 2


def _count_all(job: tuple[Scene, int]) -> dict[str, tuple[float, float]]:
    scene, experiments = job
    fitting = [claim for claim in CLAIMS if claim == "run, blocks" or scene.replicates > 1]
    return {claim: count(scene, claim, experiments) for claim in fitting}


def _power_all(job: tuple[Scene, int]) -> dict[str, tuple[float, float]]:
    scene, experiments = job
    fitting = [claim for claim in CLAIMS if claim == "run, blocks" or scene.replicates > 1]
    return {claim: count_power(scene, claim, experiments) for claim in fitting}


def print_levels(pool: ProcessPoolExecutor, experiments: int) -> None:
    drawn = list(scenes())
    found = list(pool.map(_count_all, [(scene, experiments) for scene in drawn]))
    print(f"\n{len(drawn)} scenes, {experiments:,} experiments each. Level in percent: least / median / most.\n")
    print(f"| scenes | {' | '.join(CLAIMS)} | any of a family, run |\n|---|---|---|---|---|")
    for kind in dict.fromkeys(scene.kind for scene in drawn):
        own = [each for scene, each in zip(drawn, found, strict=True) if scene.kind == kind]
        cells = [_spread([each[claim][0] for each in own if claim in each]) for claim in CLAIMS]
        print(f"| {kind} ({len(own)}) | {' | '.join(cells)} | {_spread([each['run, blocks'][1] for each in own])} |")


def _spread(shares: Sequence[float]) -> str:
    if not shares:
        return "-"
    return "/".join(f"{100 * each:.1f}" for each in (min(shares), float(np.median(shares)), max(shares)))


def print_power(pool: ProcessPoolExecutor, experiments: int) -> None:
    designs = [(6, 1), (6, 2), (6, 3), (6, 5), (10, 1), (10, 2), (10, 3), (10, 5), (20, 1), (20, 2), (20, 3)]
    jobs = [(replace(Scene("power"), replicates=r, episodes=e), experiments) for e, r in designs]
    found = list(pool.map(_power_all, jobs))
    print(
        f"\nPower for {100 * SOUGHT:.1f} points in percent, five conditions, alone (after correction for four), "
        f"{experiments:,} experiments each.\n"
    )
    print(f"| episodes x replicates | {' | '.join(CLAIMS)} |\n|---|---|---|---|")
    for (episodes, replicates), powers in zip(designs, found, strict=True):
        cells = [_percents(powers[claim]) if claim in powers else "-" for claim in CLAIMS]
        print(f"| {episodes} x {replicates} | {' | '.join(cells)} |")


def _percents(power: tuple[float, float]) -> str:
    return f"{100 * power[0]:.0f} ({100 * power[1]:.0f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--experiments", type=int, default=1_000)
    parser.add_argument("--scenes", choices=["all", "level", "power"], default="all")
    parser.add_argument("--processes", type=int, default=2)
    asked = parser.parse_args()
    with ProcessPoolExecutor(asked.processes) as pool:
        if asked.scenes != "level":
            print_power(pool, asked.experiments)
        if asked.scenes != "power":
            print_levels(pool, asked.experiments)


if __name__ == "__main__":
    main()
