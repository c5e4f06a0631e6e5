"""Level and power of every test that a page may call primary, and of what stands beside or decided before it.

`benchmarks/coverage.py` runs it and prints its tables. Trials as there: log-odds of a task = its difficulty + the effect +
what the library adds, shared by its episode. Under the null both conditions are drawn alike.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, stdtr, stdtrit

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchapp.stats.inference.clusters import swap_p_many  # noqa: E402
from benchapp.stats.inference.interim import ENOUGH, weigh_evidence  # noqa: E402
from benchapp.stats.inference.interval import TAIL, Floats  # noqa: E402
from benchapp.stats.inference.replicates import welch_parts  # noqa: E402

LEVEL = 2 * TAIL
EFFECT = 0.8
REACHED = LEVEL + 1e-12
CHUNK = 500
OVER_CLUSTERS = ((1, 1), (1, 3), (1, 10))
OVER_REPLICATES = ((2, 2), (3, 3), (5, 5), (10, 10), (2, 10), (4, 10), (5, 10))
CLUSTERS = (4, 5, 6, 8, 10, 12, 20, 30)
SOME = (4, 6, 10, 20)  # of one run against ten, which takes most of the time
FEWER = (4, 10, 30)  # where replicates decide, clusters only make means finer
FAMILIES = ((2, 1), (4, 1), (4, 4))  # conditions x metrics
FAMILY_CLUSTERS = (6, 8, 10, 12)
UNEVEN = (20, 10, 5, 3, 2, 1)
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(9)


@dataclass(frozen=True, slots=True)
class World:
    """How hard tasks are (mean log-odds, SD), what an episode's library adds (SD), and how many tasks an episode has: several
    numbers are taken in turn."""

    middle: float = -0.4
    task_sd: float = 1.0
    library_sd: float = 0.8
    tasks: tuple[int, ...] = (15,)

    def sizes(self, clusters: int) -> NDArray[np.int64]:
        return np.resize(np.array(self.tasks), clusters)


WORLDS = {
    "shared": World(),
    "heavy": World(library_sd=3.0, tasks=(3,)),  # an episode's tasks mostly pass or fail together
    "pairs": World(middle=0.0, task_sd=0.0, tasks=(2,)),
    "rare": World(middle=-3.5, tasks=(3,)),
    "floor": World(middle=-4.0, library_sd=2.0),  # nearly all fail, and a library now and then lets many pass
    "uneven": World(tasks=UNEVEN),
}


def draw_means(
    world: World, clusters: int, replicates: tuple[int, int], effect: float, k: int, rng: np.random.Generator
) -> tuple[Floats, Floats, Floats]:
    """Means of each episode and replicate on both sides, [k, replicates, clusters] each, and what an episode weighs, [clusters]."""
    sizes = world.sizes(clusters)
    owner, starts = np.repeat(np.arange(clusters), sizes), np.cumsum([0, *sizes[:-1]])
    tasks = _normal(rng, (k, 1, len(owner))) * np.float32(world.task_sd) + np.float32(world.middle)

    def learn(count: int, gain: float) -> Floats:
        library = _normal(rng, (k, count, clusters)) * np.float32(world.library_sd)
        passes = rng.random((k, count, len(owner)), dtype=np.float32) < expit(
            tasks + np.float32(gain) + library[..., owner]
        )
        return np.asarray(np.add.reduceat(passes, starts, axis=2, dtype=np.float64) / sizes)

    return learn(replicates[0], effect), learn(replicates[1], 0.0), sizes / sizes.sum()


def _normal(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float32]:
    return rng.standard_normal(shape, dtype=np.float32)


def run_tests(own: Floats, other: Floats, shares: Floats) -> dict[str, Floats]:
    """p of every test on k comparisons, [k] each. "decides": the rule of benchapp.stats.inference.difference. "before": what it
    replaced. "t": Student's over what clusters add."""
    values = own.mean(axis=1) - other.mean(axis=1)
    flipped = swap_p_many(values, shares)
    if min(own.shape[1], other.shape[1]) > 1:
        estimate, error, freedom = welch_parts(own @ shares, other @ shares)
        parts = [side.var(axis=1, ddof=1) / side.shape[1] for side in (own @ shares, other @ shares)]
        full = _satterthwaite(parts, (own.shape[1] - 1, other.shape[1] - 1))
        return {
            "decides": np.where(error > 1e-12, _two_sided(estimate, error, freedom), flipped),
            "before": np.where(error > 1e-12, _two_sided(estimate, error, full), flipped),
        }
    added = values * shares * len(shares)
    error = added.std(axis=1, ddof=1) / np.sqrt(len(shares))
    found = {
        "decides": flipped,
        "t": np.where(error > 1e-12, _two_sided(added.mean(axis=1), error, len(shares) - 1), flipped),
    }
    if own.shape[1] != other.shape[1]:
        swapped = swap_p_many(np.swapaxes(own - other, 1, 2), shares)
        found |= {"decides": np.maximum(flipped, swapped), "before": flipped, "swap": swapped}
    return found


def _two_sided(estimate: Floats, error: Floats, freedom: Floats | float) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(2 * stdtr(freedom, -np.abs(estimate) / error))


def _satterthwaite(parts: list[Floats], freedoms: tuple[int, int]) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(
            sum(parts) ** 2 / sum(part**2 / freedom for part, freedom in zip(parts, freedoms, strict=True))
        )


def reject(
    world: World, clusters: int, replicates: tuple[int, int], effect: float, k: int, rng: np.random.Generator
) -> dict[str, float]:
    """Share of comparisons that each test calls different."""
    found: dict[str, list[Floats]] = {}
    for start in range(0, k, CHUNK):
        sides = draw_means(world, clusters, replicates, effect, min(CHUNK, k - start), rng)
        for name, p in run_tests(*sides).items():
            found.setdefault(name, []).append(p)
    return {name: float((np.concatenate(p) <= REACHED).mean()) for name, p in found.items()}


def tabulate_levels(k: int, seed: int) -> Iterator[str]:
    """Per replicates and clusters: the highest level over the worlds, and the power in "shared" and in "uneven"."""
    yield "| replicates | clusters | level: decides | before | t | power: decides | before | t | uneven: decides | before | t |"
    yield "|" + "---|" * 11
    for replicates in (*OVER_CLUSTERS, *OVER_REPLICATES):
        for clusters in _choose_clusters(replicates):
            rng = np.random.default_rng((seed, clusters, *replicates))
            levels = [reject(world, clusters, replicates, 0.0, k, rng) for world in WORLDS.values()]
            powers = [reject(WORLDS[name], clusters, replicates, EFFECT, k // 2, rng) for name in ("shared", "uneven")]
            cells = [_percent(max((each[name] for each in levels if name in each), default=np.nan)) for name in TESTS]
            cells += [_percent(each.get(name, np.nan)) for each in powers for name in TESTS]
            yield f"| {replicates[0]} v {replicates[1]} | {clusters} | {' | '.join(cells)} |"


TESTS = ("decides", "before", "t")


def _choose_clusters(replicates: tuple[int, int]) -> tuple[int, ...]:
    if replicates not in OVER_CLUSTERS:
        return FEWER
    return SOME if max(replicates) > 3 else CLUSTERS


# --- families ----------------------------------------------------------------------------------------------------------


def draw_family(
    world: World, clusters: int, family: tuple[int, int], gains: Floats, k: int, rng: np.random.Generator
) -> Floats:
    """Differences of conditions x metrics to one baseline, [k, conditions * metrics, clusters]: metrics have tasks of their own and
    share the library of the episode. gains: [conditions]."""
    conditions, metrics = family
    tasks = _normal(rng, (k, 1, clusters, metrics, world.tasks[0])) * np.float32(world.task_sd) + np.float32(
        world.middle
    )
    library = _normal(rng, (k, conditions + 1, clusters, 1, 1)) * np.float32(world.library_sd)
    gain = np.concatenate(([0.0], gains)).astype(np.float32).reshape(1, -1, 1, 1, 1)
    chance = expit(tasks + library + gain)
    means = (rng.random(chance.shape, dtype=np.float32) < chance).mean(axis=4)
    found = np.moveaxis(means[:, 1:] - means[:, :1], 3, 2)
    return np.asarray(found.reshape(k, conditions * metrics, clusters), dtype=np.float64)


def correct_many(values: Floats) -> dict[str, Floats]:
    """Corrected p of k families, [k, differences] each: by joint flips as benchapp.stats.inference.joint_flips makes them of
    equal clusters, and by Holm. values: [k, differences, clusters]."""
    k, count, m = values.shape
    signs = 1.0 - 2 * ((np.arange(2 ** (m - 1)) << 1 >> np.arange(m)[:, np.newaxis]) & 1)
    norm = np.linalg.norm(values, axis=2, keepdims=True)
    sizes = np.abs((values / np.where(norm > 0, norm, 1)) @ signs)
    own = (sizes >= sizes[..., :1] - 1e-9).mean(axis=2)
    order = np.argsort(-sizes[..., 0], axis=1, kind="stable")
    sizes = np.take_along_axis(sizes, order[..., np.newaxis], axis=1)
    highest = np.maximum.accumulate(sizes[:, ::-1], axis=1)[:, ::-1]
    joint = np.maximum.accumulate((highest >= sizes[..., :1] - 1e-9).mean(axis=2), axis=1)
    by_p = np.argsort(own, axis=1, kind="stable")
    factor = count - np.arange(count)
    holm = np.maximum.accumulate(np.minimum(1, np.take_along_axis(own, by_p, axis=1) * factor), axis=1)
    found = {"joint": np.empty((k, count)), "holm": np.empty((k, count))}
    np.put_along_axis(found["joint"], order, joint, axis=1)
    np.put_along_axis(found["holm"], by_p, holm, axis=1)
    return found


def find_any(
    world: World, clusters: int, family: tuple[int, int], gains: Floats, k: int, rng: np.random.Generator
) -> dict[str, tuple[float, float]]:
    """By each correction: share of families with a false finding, and with a true one."""
    true = np.repeat(gains != 0, family[1])
    wrong: dict[str, list[Floats]] = {}
    right: dict[str, list[Floats]] = {}
    step = max(1, min(CHUNK, 2_000_000 // (2 ** (clusters - 1) * len(true))))
    for start in range(0, k, step):
        values = draw_family(world, clusters, family, gains, min(step, k - start), rng)
        for name, p in correct_many(values).items():
            found = p <= REACHED
            wrong.setdefault(name, []).append(found[:, ~true].any(axis=1))
            right.setdefault(name, []).append(found[:, true].any(axis=1))
    return {
        name: (float(np.concatenate(wrong[name]).mean()), float(np.concatenate(right[name]).mean())) for name in wrong
    }


def tabulate_families(k: int, seed: int) -> Iterator[str]:
    """Highest level over worlds without and with one true effect; power to find any with one, and with all, in "shared"."""
    yield "| family | clusters | level: joint | Holm | power, one: joint | Holm | power, all: joint | Holm |"
    yield "|" + "---|" * 8
    for family, clusters in product(FAMILIES, FAMILY_CLUSTERS):
        rng = np.random.default_rng((seed, clusters, *family))
        nothing, every = np.zeros(family[0]), np.full(family[0], EFFECT)
        one = np.where(np.arange(family[0]) == 0, EFFECT, 0.0)
        worlds = [world for name, world in WORLDS.items() if name != "uneven"]
        levels = [find_any(world, clusters, family, nothing, k, rng) for world in worlds]
        single, whole = (find_any(WORLDS["shared"], clusters, family, gains, k, rng) for gains in (one, every))
        cells = [max(each[name][0] for each in (*levels, single)) for name in ("joint", "holm")]
        cells += [each[name][1] for each in (single, whole) for name in ("joint", "holm")]
        yield f"| {family[0]} x {family[1]} | {clusters} | {' | '.join(map(_percent, cells))} |"


# --- looking again, and intervals of one mean --------------------------------------------------------------------------


def tabulate_looks(k: int, seed: int) -> Iterator[str]:
    """Share of true nulls in which a look after each episode, from the sixth on, ever finds something; and power for EFFECT. The
    e-value is looked at from the first episode on: it cannot reach 20 before the sixth."""
    yield "| | " + " | ".join(f"{name}: looks to 20 | to 30" for name in WORLDS) + " |"
    yield "|" + "---|" * (1 + 2 * len(WORLDS))
    rows = [_look(world, 0.0, k, seed) for world in WORLDS.values()]
    for name in ("test, every look", "test, one look", "evidence"):
        yield f"| {name} | " + " | ".join(_percent(found[name][at].mean()) for found in rows for at in (20, 30)) + " |"
    yield "\n| power | " + " | ".join(f"{name}, {m}" for name in ("shared", "uneven") for m in LOOKS) + " |"
    yield "|" + "---|" * (1 + 2 * len(LOOKS))
    rows = [_look(WORLDS[name], EFFECT, k, seed + 1) for name in ("shared", "uneven")]
    for name in ("test, one look", "evidence"):
        yield f"| {name} | " + " | ".join(_percent(found[name][m].mean()) for found in rows for m in LOOKS) + " |"


LOOKS = (6, 10, 20, 30)


def _look(world: World, effect: float, k: int, seed: int) -> dict[str, dict[int, Floats]]:
    """By way of looking and number of episodes: which of k comparisons found something by then, [k]."""
    parts: list[dict[str, dict[int, Floats]]] = []
    rng = np.random.default_rng(seed)
    for start in range(0, k, CHUNK):
        own, other, shares = draw_means(world, 30, (1, 1), effect, min(CHUNK, k - start), rng)
        values, sizes = own[:, 0] - other[:, 0], shares
        # Fewer patterns beyond 11 episodes: 30 planned ones are looked at 25 times.
        p = {m: swap_p_many(values[:, :m], sizes[:m] / sizes[:m].sum(), most=2_048) for m in range(6, 31)}
        ever = np.logical_or.accumulate([each <= REACHED for each in p.values()], axis=0)
        reached = np.maximum.accumulate(weigh_evidence(values * sizes), axis=1) >= ENOUGH
        parts.append(
            {
                "test, every look": {m: ever[m - 6] for m in p},
                "test, one look": {m: p[m] <= REACHED for m in p},
                "evidence": {m: reached[:, m - 1] for m in p},
            }
        )
    return {name: {m: np.concatenate([part[name][m] for part in parts]) for m in parts[0][name]} for name in parts[0]}


def tabulate_means(k: int, seed: int) -> Iterator[str]:
    """Lowest coverage over worlds of the mean over families (corpora) of one run: Student's t over them, and the percentile
    bootstrap that draws them again. The truth: these tasks, in expectation over the learning."""
    counts = (5, 6, 8, 10, 20, 30)
    rows: dict[str, list[str]] = {"Student's t": [], "percentile bootstrap": []}
    for families in counts:
        rng = np.random.default_rng((seed, families))
        found = [_cover(replace(WORLDS[name], tasks=(5,)), families, k, rng) for name in ("shared", "pairs", "rare")]
        for place, cells in enumerate(rows.values()):
            cells.append(_percent(min(each[place] for each in found)))
    yield "| families or corpora | " + " | ".join(map(str, counts)) + " |"
    yield "|" + "---|" * (1 + len(counts))
    for name, cells in rows.items():
        yield f"| {name} | {' | '.join(cells)} |"


def _cover(world: World, families: int, k: int, rng: np.random.Generator) -> tuple[float, float]:
    tasks = rng.normal(world.middle, world.task_sd, (k, families, world.tasks[0]))
    library = rng.normal(0, world.library_sd, (k, families, 1))
    means = (rng.random(tasks.shape) < expit(tasks + library)).mean(axis=2)
    weights = WEIGHTS / WEIGHTS.sum()
    truth = sum(w * expit(tasks + world.library_sd * x).mean(axis=(1, 2)) for x, w in zip(NODES, weights, strict=True))
    half = stdtrit(families - 1, 1 - TAIL) * means.std(axis=1, ddof=1) / np.sqrt(families)
    drawn = means @ (rng.multinomial(families, np.full(families, 1 / families), size=1000).T / families)
    low, high = np.quantile(drawn, (TAIL, 1 - TAIL), axis=1)
    given = np.ptp(means, axis=1) > 0
    covered = np.abs(means.mean(axis=1) - truth) <= half, (low <= truth) & (truth <= high)
    return float(covered[0][given].mean()), float(covered[1][given].mean())


def _percent(share: float) -> str:
    return "-" if np.isnan(share) else f"{100 * share:.1f}"


def tabulate(k: int, seed: int) -> Iterator[str]:
    """All of it; k comparisons a cell."""
    yield "\nHighest level over the worlds, and power:\n"
    yield from tabulate_levels(k, seed)
    yield "\nFamilies:\n"
    yield from tabulate_families(k, seed)
    yield "\nLooks in between, 1 v 1:\n"
    yield from tabulate_looks(k, seed)
    yield "\nLowest coverage of one mean:\n"
    yield from tabulate_means(k, seed)
