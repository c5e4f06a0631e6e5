"""Level and power of every test that a page may call primary, and of what stands beside or decided before it.

`benchmarks/coverage.py` runs it and prints its tables. Trials as there: log-odds of a task = its difficulty + the effect +
what the library adds, shared by its episode. Under the null both conditions are drawn alike.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, stdtr, stdtrit

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchapp.stats.inference.clusters import swap_many, swap_p_many  # noqa: E402
from benchapp.stats.inference.interim import ENOUGH, weigh_evidence  # noqa: E402
from benchapp.stats.inference.interval import TAIL, Floats  # noqa: E402
from benchapp.stats.inference.random_effects import SPREAD, opine_many, pool_errors  # noqa: E402
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
PATTERNS = 2**12  # of signs, where a family has more than 12 clusters
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
    _, sides = draw_passes(world, clusters, tuple(zip(replicates, (effect, 0.0), strict=True)), k, rng)
    own, other = (_in_episodes(passes, sizes) for passes in sides)
    return own, other, sizes / sizes.sum()


def draw_passes(
    world: World, clusters: int, sides: Sequence[tuple[int, float]], k: int, rng: np.random.Generator
) -> tuple[NDArray[np.float32], list[NDArray[np.bool_]]]:
    """Log-odds of the tasks, [k, 1, n], and passes of each side, [k, replicates, n]. sides: (replicates, effect) each."""
    owner = np.repeat(np.arange(clusters), world.sizes(clusters))
    tasks = _normal(rng, (k, 1, len(owner))) * np.float32(world.task_sd) + np.float32(world.middle)

    def learn(count: int, gain: float) -> NDArray[np.bool_]:
        library = _normal(rng, (k, count, clusters)) * np.float32(world.library_sd)
        chance = expit(tasks + np.float32(gain) + library[..., owner])
        return np.asarray(rng.random(chance.shape, dtype=np.float32) < chance)

    return tasks, [learn(*side) for side in sides]


def _in_episodes(values: NDArray[np.generic], sizes: NDArray[np.int64]) -> Floats:
    """Means of [..., n] in each episode."""
    starts = np.cumsum([0, *sizes[:-1]])
    return np.asarray(np.add.reduceat(values, starts, axis=-1, dtype=np.float64) / sizes)


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
    signs = _draw_signs(m)
    norm = np.linalg.norm(values, axis=2, keepdims=True)
    sizes = np.abs((values / np.where(norm > 0, norm, 1)) @ signs)
    own = (sizes >= sizes[..., :1] - 1e-9).mean(axis=2)
    order = np.argsort(-sizes[..., 0], axis=1, kind="stable")
    sizes = np.take_along_axis(sizes, order[..., np.newaxis], axis=1)
    highest = np.maximum.accumulate(sizes[:, ::-1], axis=1)[:, ::-1]
    joint = np.maximum.accumulate((highest >= sizes[..., :1] - 1e-9).mean(axis=2), axis=1)
    found = {"joint": np.empty((k, count)), "holm": _holm_many(own)}
    np.put_along_axis(found["joint"], order, joint, axis=1)
    return found


def _holm_many(p: Floats) -> Floats:
    """[k, differences] -> corrected, the same."""
    order, found = np.argsort(p, axis=1, kind="stable"), np.empty(p.shape)
    factor = p.shape[1] - np.arange(p.shape[1])
    corrected = np.maximum.accumulate(np.minimum(1, np.take_along_axis(p, order, axis=1) * factor), axis=1)
    np.put_along_axis(found, order, corrected, axis=1)
    return found


def _draw_signs(m: int) -> Floats:
    """[m, patterns], the observed one first: half of all, whose opposites are equally far out, or random ones of many clusters."""
    if 2 ** (m - 1) <= PATTERNS:
        return np.asarray(1.0 - 2 * ((np.arange(2 ** (m - 1)) << 1 >> np.arange(m)[:, np.newaxis]) & 1))
    flipped = np.random.default_rng(m).integers(0, 2, (m, PATTERNS))
    flipped[:, 0] = 0
    return np.asarray(1.0 - 2 * flipped)


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


# --- ranks -------------------------------------------------------------------------------------------------------------

RANKED = {  # what each condition adds to the log-odds
    "alike": lambda count: np.zeros(count),
    "one best": lambda count: np.where(np.arange(count) == 0, EFFECT, 0.0),
    "in steps": lambda count: np.arange(count) * EFFECT / 2,
}


def tabulate_ranks(k: int, seed: int) -> Iterator[str]:
    """Share of comparisons in which some condition's true rank lies outside its range, at the most over worlds and orders / mean
    number of ranks that a range leaves open in "shared", with one best and in steps."""
    yield "| conditions | replicates | 6 clusters | 10 | 20 |"
    yield "|" + "---|" * 5
    for count, replicates in product((3, 5), (1, 3)):
        cells = []
        for clusters in (6, 10, 20):
            rng = np.random.default_rng((seed, count, replicates, clusters))
            found = {
                (world, name): rank_many(WORLDS[world], clusters, replicates, gains(count), k, rng)
                for world, (name, gains) in product(WORLDS, RANKED.items())
            }
            widths = [f"{found['shared', name][1]:.1f}" for name in ("one best", "in steps")]
            cells.append(f"{_percent(max(each[0] for each in found.values()))} / {' / '.join(widths)}")
        yield f"| {count} | {replicates} v {replicates} | {' | '.join(cells)} |"


def rank_many(
    world: World, clusters: int, replicates: int, gains: Floats, k: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Share of k comparisons in which a true rank lies outside, and mean number of ranks left open. Conditions that are equally good
    have all the ranks that they share."""
    least, most = _bound_ranks(gains[:, np.newaxis] < gains)
    sizes, wrong, wide = world.sizes(clusters), [], []
    step = max(1, min(CHUNK, 4_000_000 // (min(PATTERNS, 2 ** (clusters - 1)) * len(gains) ** 2)))
    for start in range(0, k, step):
        sides = [(replicates, gain) for gain in gains]
        _, passes = draw_passes(world, clusters, sides, min(step, k - start), rng)
        low, high = _bound_ranks(find_above([_in_episodes(each, sizes) for each in passes], sizes / sizes.sum()))
        wrong.append(((low > least) | (high < most)).any(axis=1))
        wide.append((high - low + 1).mean(axis=1))
    return float(np.concatenate(wrong).mean()), float(np.concatenate(wide).mean())


def _bound_ranks(above: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """above[..., i, j]: j is above i. -> the best and the worst rank of each, [..., conditions]."""
    return 1 + above.sum(axis=-1), above.shape[-1] - above.sum(axis=-2)


def find_above(means: Sequence[Floats], shares: Floats) -> NDArray[np.bool_]:
    """[k, conditions, conditions], see `_bound_ranks`, as benchapp.stats.comparing.ranks finds it: every pair by the test that decides,
    corrected together by joint flips with one run a side, else by Holm. means: of each condition, [k, replicates, clusters]."""
    k, count = len(means[0]), len(means)
    pairs = [(i, j) for i in range(count) for j in range(i)]
    values = np.stack([(means[j] - means[i]).mean(axis=1) for i, j in pairs], axis=1)
    if means[0].shape[1] == 1:
        corrected = correct_many(values * shares)["joint"]
    else:
        corrected = _holm_many(np.stack([run_tests(means[j], means[i], shares)["decides"] for i, j in pairs], axis=1))
    above = np.zeros((k, count, count), dtype=bool)
    for place, (i, j) in enumerate(pairs):
        is_sure, delta = corrected[:, place] <= REACHED, values[:, place] @ shares
        above[:, i, j], above[:, j, i] = is_sure & (delta > 0), is_sure & (delta < 0)
    return above


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


# --- the second opinion on few episodes --------------------------------------------------------------------------------

ORDINARY = ("shared", "pairs", "uneven")
FEW = (4, 5, 6, 8, 10)
PRIORS = (0.2, SPREAD)  # scales of the prior: tried first, and shown


def tabulate_opinions(k: int, seed: int) -> Iterator[str]:
    """One run a side, effects of 0 and 15 points: lowest coverage over the ordinary worlds / over the others / how often 0 is left
    out where it is true, at the most over all / power for 15 points in "shared"."""
    ways = ("sign-flip", "Student's t", *(f"random effects, {100 * scale:.0f} points" for scale in PRIORS))
    rows: dict[str, list[str]] = {way: [] for way in ways}
    for clusters in FEW:
        rng = np.random.default_rng((seed, clusters))
        found = {place: _judge_opinions(*place, clusters, k, rng) for place in product(WORLDS, (0.0, EFFECT))}
        for way, cells in enumerate(rows.values()):
            ordinary, others = (
                min(each[way][0] for (world, _), each in found.items() if (world in ORDINARY) == is_ordinary)
                for is_ordinary in (True, False)
            )
            level = max(each[way][1] for (_, effect), each in found.items() if not effect)
            numbers = ordinary, others, level, found["shared", EFFECT][way][1]
            cells.append(" / ".join(map(_percent, numbers)))
    yield "| interval | " + " | ".join(map(str, FEW)) + " |"
    yield "|" + "---|" * (1 + len(FEW))
    for name, cells in rows.items():
        yield f"| {name} | {' | '.join(cells)} |"


def _judge_opinions(
    world: str, effect: float, clusters: int, k: int, rng: np.random.Generator
) -> list[tuple[float, float]]:
    """Of each way: coverage of the intervals that were given, and the share of them that leaves out 0."""
    found = []
    for start in range(0, k, CHUNK):
        differences, truth = draw_differences(WORLDS[world], clusters, effect, min(CHUNK, k - start), rng)
        ends = give_intervals(differences, WORLDS[world].sizes(clusters))
        found.append([(low, high, truth) for low, high in ends])
    return [_hold(*map(np.concatenate, zip(*way, strict=True))) for way in zip(*found, strict=True)]


def draw_differences(
    world: World, clusters: int, effect: float, k: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Of one run a side: each task's difference, [k, n], and the truth, [k]."""
    tasks, (own, other) = draw_passes(world, clusters, ((1, effect), (1, 0.0)), k, rng)
    truth = np.zeros(k)
    for x, weight in zip(NODES, WEIGHTS / WEIGHTS.sum(), strict=True):
        odds = tasks[:, 0] + world.library_sd * x
        truth += weight * (expit(odds + effect) - expit(odds)).mean(axis=1)
    return own[:, 0].astype(float) - other[:, 0], truth


def give_intervals(differences: Floats, sizes: NDArray[np.int64]) -> list[tuple[Floats, Floats]]:
    """Low and high ends of the ways, [k] each, from each task's difference, [k, n]."""
    values, m = _in_episodes(differences, sizes), len(sizes)
    low, high, _ = swap_many(values, sizes / sizes.sum())
    added = values * sizes * m / sizes.sum()
    half = stdtrit(m - 1, 1 - TAIL) * added.std(axis=1, ddof=1) / np.sqrt(m)
    errors = pool_errors(((differences - np.repeat(values, sizes, axis=1)) ** 2).sum(axis=1), sizes)
    opinions = [opine_many(values, errors, scale)[1:3] for scale in PRIORS]
    return [(low, high), (added.mean(axis=1) - half, added.mean(axis=1) + half), *opinions]


def _hold(low: Floats, high: Floats, truth: Floats) -> tuple[float, float]:
    given = np.isfinite(low) & (high - low > 1e-9)
    if not given.any():
        return np.nan, np.nan
    held = (low <= truth + 1e-9) & (truth <= high + 1e-9)
    return float(held[given].mean()), float(((low > 0) | (high < 0))[given].mean())


def _percent(share: float) -> str:
    return "-" if np.isnan(share) else f"{100 * share:.1f}"


def tabulate(k: int, seed: int) -> Iterator[str]:
    """All of it; k comparisons a cell."""
    yield "\nHighest level over the worlds, and power:\n"
    yield from tabulate_levels(k, seed)
    yield "\nFamilies:\n"
    yield from tabulate_families(k, seed)
    yield "\nRanks:\n"
    yield from tabulate_ranks(k, seed)
    yield "\nLooks in between, 1 v 1:\n"
    yield from tabulate_looks(k, seed)
    yield "\nLowest coverage of one mean:\n"
    yield from tabulate_means(k, seed)
    yield "\nThe second opinion on few episodes:\n"
    yield from tabulate_opinions(k, seed)
