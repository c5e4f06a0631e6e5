"""Coverage and level of every interval and test of benchapp/stats/inference, by simulation.

    OPENBLAS_NUM_THREADS=1 nice -n 10 python benchmarks/coverage.py [--repeats N] [--seed S] [--csv FILE]

The model: a task's log-odds of a pass = its difficulty (SD 1) + the condition's effect + what the condition's library
adds in this episode and replicate (SD 0.5 or 0.8, shared by the whole episode) + what it adds in this family and
replicate (SD 0.5). The truth that an interval has to cover is the difference of the two pass probabilities, averaged
over *these* tasks, in expectation over the learning: what endless reruns of both conditions on these tasks would show.
docs/explanation/statistics.md judges what comes out.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
from scipy.special import expit, stdtr, stdtrit
from scipy.stats import binom

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchapp.stats.inference.clusters import swap_many  # noqa: E402
from benchapp.stats.inference.interval import TAIL, Floats  # noqa: E402
from benchapp.stats.inference.proportions import newcombe_paired, pairs  # noqa: E402
from benchapp.stats.inference.replicates import stratified_parts, welch_parts  # noqa: E402
from benchapp.stats.inference.resampling import family_draws  # noqa: E402
from benchapp.stats.inference.shares import wilson  # noqa: E402
from benchmarks import levels  # noqa: E402

FAMILY_SD = 0.5
TRIAL_SD = 0.6  # of a single amount, on the log scale
HARM = 2.5  # what a collapsed library costs
MIDDLE = -0.4  # mean log-odds of the tasks: a little under half are solved
CHUNK = 400
GIVEN = "family bootstrap, libraries given"
STRESS = ("collapse", "drift", "amounts")
FAMILIES = 5
CLUSTERS = (6, 10, 20, 30)
REPLICATES = ((1, 1), (2, 2), (3, 3), (5, 5), (1, 3))
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(9)


@dataclass(frozen=True, slots=True)
class Learning:
    """What a condition's libraries add to the log-odds. sd: shared by an episode; family_sd: by a family; drift: by all
    episodes of one replicate; collapse: chance that an episode's library costs 2.5 on top.

    amounts: the log-odds are a log mean instead, and what is measured is an amount with a long right tail around it.
    """

    sd: float
    family_sd: float = FAMILY_SD
    drift: float = 0.0
    collapse: float = 0.0
    amounts: bool = False


@dataclass(frozen=True, slots=True)
class Scene:
    """One cell of the simulation. tasks: per family, five families an episode.

    kind: "plain"; "opposing", where the effect has another sign in every second episode; "unlearned", where the other
    side is a condition without a library, which shares nothing between trials. Two break what the cluster methods assume:
    "collapse", where one library in seven of the own side does harm; "drift", where all episodes of a replicate share
    an effect (SD 0.3). And "amounts": a metric like tokens, lognormal in tasks, episodes and trials.
    """

    clusters: int
    replicates: tuple[int, int]
    tasks: int
    sd: float
    effect: float
    kind: str = "plain"

    @property
    def total(self) -> int:
        return self.clusters * FAMILIES * self.tasks

    @property
    def null(self) -> bool:
        return self.effect == 0 and self.kind in ("plain", "drift", "amounts")

    @property
    def learning(self) -> tuple[Learning, Learning]:
        plain = Learning(self.sd)
        if self.kind == "unlearned":
            return plain, Learning(0.0, 0.0)
        if self.kind == "collapse":
            return Learning(self.sd, collapse=1 / 7), plain
        if self.kind == "amounts":
            return (Learning(self.sd, amounts=True),) * 2
        return (Learning(self.sd, drift=0.3),) * 2 if self.kind == "drift" else (plain, plain)


@dataclass(frozen=True, slots=True, eq=False)
class Draws:
    """k simulated comparisons. own, other: passes [k, replicates, clusters, families, tasks]. truth: [k];
    truth_own: [k], the own side's mean pass probability; given: [k], the truth given the libraries that were drawn."""

    own: Floats
    other: Floats
    truth: Floats
    truth_own: Floats
    given: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Ends:
    """Interval ends and p values of one method on k comparisons; NaN where it gives none."""

    low: Floats
    high: Floats
    p: Floats


def scenes() -> Iterator[Scene]:
    for clusters, replicates in product(CLUSTERS, REPLICATES):
        for tasks, sd, effect in product((3, 1), (0.5, 0.8), (0.0, 0.8)):
            yield Scene(clusters, replicates, tasks, sd, effect)
        yield Scene(clusters, replicates, 3, 0.8, 0.8, "opposing")
        yield Scene(clusters, replicates, 3, 0.8, 0.8, "unlearned")
        yield Scene(clusters, replicates, 3, 0.8, 0.8, "collapse")
        yield Scene(clusters, replicates, 3, 0.5, 0.0, "drift")
    for clusters, replicates, effect in product(CLUSTERS, REPLICATES, (0.0, 0.3)):
        yield Scene(clusters, replicates, 3, 0.5, effect, "amounts")


def draw(scene: Scene, k: int, rng: np.random.Generator) -> Draws:
    """k comparisons, each with tasks of its own."""
    difficulty = rng.normal(MIDDLE, 1, size=(k, scene.clusters, FAMILIES, scene.tasks))
    effect = np.full((scene.clusters, 1, 1), scene.effect)
    if scene.kind == "opposing":
        effect[1::2] *= -1
    logits = difficulty + effect, difficulty
    given = scene.kind == "plain" and scene.replicates == (1, 1)
    (own, given_own), (other, given_other) = (
        _passes(logit, count, learning, given, rng)
        for logit, count, learning in zip(logits, scene.replicates, scene.learning, strict=True)
    )
    truth = [_expected(logit, learning) for logit, learning in zip(logits, scene.learning, strict=True)]
    return Draws(own, other, truth[0] - truth[1], truth[0], given_own - given_other)


def _passes(
    logit: Floats, replicates: int, learning: Learning, given: bool, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Passes or amounts, and (where asked for, else NaN) the mean pass probability given the libraries: [k]."""
    k, clusters, families, _ = logit.shape
    shared = rng.normal(0, 1, size=(k, replicates, clusters, 1, 1)) * learning.sd
    shared += rng.normal(0, 1, size=(k, replicates, 1, 1, 1)) * learning.drift
    shared -= HARM * (rng.random(shared.shape) < learning.collapse)
    family = rng.normal(0, 1, size=(k, replicates, clusters, families, 1)) * learning.family_sd
    base = logit[:, np.newaxis] + shared
    if learning.amounts:
        return np.exp(base + family + rng.normal(0, TRIAL_SD, size=(*base.shape[:2], *logit.shape[1:]))), np.full(
            k, np.nan
        )
    chance = expit(base + family)
    expected = _averaged(base, learning.family_sd).mean(axis=(1, 2, 3, 4)) if given else np.full(k, np.nan)
    return (rng.random(chance.shape) < chance).astype(float), expected


def _expected(logit: Floats, learning: Learning) -> Floats:
    """Mean over the tasks of the pass probability in expectation over the learning: [k]."""
    sd = float(np.linalg.norm((learning.sd, learning.family_sd, learning.drift)))
    if learning.amounts:
        return np.asarray(np.exp(logit + (sd**2 + TRIAL_SD**2) / 2).mean(axis=(1, 2, 3)))
    mean = _averaged(logit, sd) * (1 - learning.collapse)
    if learning.collapse:
        mean += _averaged(logit - HARM, sd) * learning.collapse
    return np.asarray(mean.mean(axis=(1, 2, 3)))


def _averaged(logit: Floats, sd: float) -> Floats:
    """E[expit(logit + N(0, sd))] by Gauss-Hermite quadrature."""
    mean = np.zeros_like(logit)
    for node, weight in zip(NODES, WEIGHTS / WEIGHTS.sum(), strict=True):
        mean += weight * expit(logit + sd * node)
    return mean


def methods(scene: Scene, draws: Draws) -> dict[str, Ends]:
    """Every interval that the pages could show for such data, and some that they do not."""
    own, other = draws.own.mean(axis=(3, 4)), draws.other.mean(axis=(3, 4))  # [k, replicates, clusters]
    values = own.mean(axis=1) - other.mean(axis=1)
    found = {
        "sign-flip": Ends(*swap_many(values)),
        "t on clusters": _student(
            values.mean(axis=1), values.std(axis=1, ddof=1) / np.sqrt(values.shape[1]), values.shape[1] - 1
        ),
        "family bootstrap": _family(scene, draws),
    }
    if min(scene.replicates) > 1:
        found["Welch"] = _student(*welch_parts(own.mean(axis=2), other.mean(axis=2)))
        weights = np.full(scene.clusters, 1 / scene.clusters)
        found["stratified"] = _student(*stratified_parts(own, other, weights))
    if 1 in scene.replicates and max(scene.replicates) > 1:
        found["swap"] = Ends(*swap_many(np.swapaxes(own - other, 1, 2)))
    found["primary"] = _primary(found)
    if scene.replicates == (1, 1) and scene.kind != "amounts":
        found |= _counts(scene, draws)
    return found


def _primary(found: dict[str, Ends]) -> Ends:
    """The rule of benchapp.stats.inference.difference, fallbacks included."""
    if "swap" in found:
        return _widest(found["swap"], found["sign-flip"])
    return _first(found["Welch"], found["sign-flip"]) if "Welch" in found else found["sign-flip"]


def _first(wanted: Ends, instead: Ends) -> Ends:
    given = ~np.isnan(wanted.low)
    parts = zip((wanted.low, wanted.high, wanted.p), (instead.low, instead.high, instead.p), strict=True)
    return Ends(*(np.where(given, a, b) for a, b in parts))


def _widest(one: Ends, other: Ends) -> Ends:
    return Ends(np.minimum(one.low, other.low), np.maximum(one.high, other.high), np.maximum(one.p, other.p))


def _student(estimate: Floats, error: Floats, freedom: Floats | float) -> Ends:
    error = np.where(error > 1e-12, error, np.nan)
    half = stdtrit(freedom, 1 - TAIL) * error
    return Ends(estimate - half, estimate + half, 2 * stdtr(freedom, -np.abs(estimate) / error))


def _family(scene: Scene, draws: Draws) -> Ends:
    delta = (draws.own.mean(axis=1) - draws.other.mean(axis=1)).sum(axis=3)  # [k, clusters, families]
    owner = np.repeat(np.arange(scene.clusters), FAMILIES)
    weights = family_draws(tuple(owner.tolist()), (scene.tasks,) * len(owner))
    drawn = delta.reshape(len(delta), -1) @ weights.T
    low, high = np.quantile(drawn, (TAIL, 1 - TAIL), axis=1)
    return Ends(low, high, np.full(len(delta), np.nan))


def _counts(scene: Scene, draws: Draws) -> dict[str, Ends]:
    """What treats tasks as independent: Newcombe (paired), McNemar's exact test, two Wilson intervals squared and added."""
    own, other = draws.own.reshape(len(draws.own), -1), draws.other.reshape(len(draws.other), -1)
    cells = [pairs(a, b) for a, b in zip(own, other, strict=True)]
    intervals = [newcombe_paired(cell) for cell in cells]
    discordant = np.array([cell.discordant for cell in cells])
    mcnemar = np.minimum(1.0, 2 * binom.cdf(discordant.min(axis=1), discordant.sum(axis=1), 0.5))
    low, high = (np.array([getattr(interval, end) for interval in intervals]) for end in ("low", "high"))
    nothing = np.full(len(own), np.nan)
    table = np.array([wilson(count, scene.total) for count in range(scene.total + 1)])
    ends = [table[side.sum(axis=1).astype(int)].T for side in (own, other)]
    p = [side.mean(axis=1) for side in (own, other)]
    unpaired_low = p[0] - p[1] - np.hypot(p[0] - ends[0][0], ends[1][1] - p[1])
    unpaired_high = p[0] - p[1] + np.hypot(ends[0][1] - p[0], p[1] - ends[1][0])
    return {
        "Newcombe paired": Ends(low, high, nothing),
        "McNemar": Ends(nothing, nothing, mcnemar),
        "two Wilsons": Ends(unpaired_low, unpaired_high, nothing),
        "Wilson, one rate": Ends(ends[0][0], ends[0][1], nothing),
    }


@dataclass(frozen=True, slots=True)
class Row:
    """One method in one scene. coverage: of the intervals given; given: share of comparisons with one; width: median;
    level: share of p <= 0.05, or of intervals without 0 where the method has no p, under a true null; else NaN.
    power: the same where there is an effect."""

    scene: Scene
    method: str
    coverage: float
    given: float
    width: float
    level: float
    power: float


def measure(scene: Scene, repeats: int, rng: np.random.Generator) -> list[Row]:
    collected: dict[str, list[tuple[Floats, ...]]] = {}
    for start in range(0, repeats, CHUNK):
        draws = draw(scene, min(CHUNK, repeats - start), rng)
        found = methods(scene, draws)
        if not np.isnan(draws.given).any():
            found[GIVEN] = found["family bootstrap"]
        for name, ends in found.items():
            truth = {"Wilson, one rate": draws.truth_own, GIVEN: draws.given}.get(name, draws.truth)
            collected.setdefault(name, []).append((ends.low, ends.high, ends.p, truth))
    return [_row(scene, name, *map(np.concatenate, zip(*parts, strict=True))) for name, parts in collected.items()]


def _row(scene: Scene, name: str, low: Floats, high: Floats, p: Floats, truth: Floats) -> Row:
    given = np.isfinite(low) & np.isfinite(high)
    covered = (low[given] <= truth[given] + 1e-9) & (truth[given] - 1e-9 <= high[given])
    rejected = (low > 0) | (high < 0) if np.isnan(p).all() else p <= 2 * TAIL + 1e-12
    if name in ("Wilson, one rate", GIVEN):
        rejected = np.full(len(low), np.nan)
    share = float(np.mean(rejected))
    return Row(
        scene,
        name,
        float(covered.mean()) if given.any() else float("nan"),
        float(given.mean()),
        float(np.median(high[given] - low[given])) if given.any() else float("nan"),
        share if scene.null else float("nan"),
        share if scene.effect and scene.kind == "plain" else float("nan"),
    )


def summary(rows: list[Row]) -> Iterator[str]:
    """Per clusters, replicates and method: lowest and mean coverage, highest and mean level, median width."""
    yield "| clusters | replicates | method | coverage: lowest | mean | level: highest | mean | width | power | given |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    groups: dict[tuple[int, tuple[int, int], str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.scene.clusters, row.scene.replicates, row.method), []).append(row)
    for (clusters, replicates, method), group in groups.items():
        coverage = np.array([row.coverage for row in group])
        level = np.array([row.level for row in group if row.scene.null] or [np.nan])
        power = np.array([row.power for row in group if not np.isnan(row.power)] or [np.nan])
        cells = [_percent(part) for part in (coverage.min(), coverage.mean(), level.max(), level.mean())]
        cells += [_percent(float(np.mean([row.width for row in group]))), _percent(power.mean())]
        cells += [_percent(min(row.given for row in group))]
        yield f"| {clusters} | {replicates[0]} v {replicates[1]} | {method} | {' | '.join(cells)} |"


def stress(rows: list[Row]) -> Iterator[str]:
    """Lowest coverage in the kinds set apart, one column per kind and number of clusters."""
    columns = list(product(STRESS, CLUSTERS))
    yield "| replicates | method | " + " | ".join(f"{kind} {clusters}" for kind, clusters in columns) + " |"
    yield "|---|---|" + "---|" * len(columns)
    found: dict[tuple[object, ...], float] = {}
    for row in rows:
        key = row.scene.replicates, row.method, row.scene.kind, row.scene.clusters
        found[key] = min(row.coverage, found.get(key, 1.0))
    for replicates, method in dict.fromkeys((row.scene.replicates, row.method) for row in rows):
        cells = [_percent(found.get((replicates, method, kind, clusters), float("nan"))) for kind, clusters in columns]
        yield f"| {replicates[0]} v {replicates[1]} | {method} | " + " | ".join(cells) + " |"


def _percent(share: float) -> str:
    return "-" if np.isnan(share) else f"{100 * share:.1f}"


def write(rows: list[Row], path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(
            "clusters own other tasks_per_family sd effect kind method coverage given width level power".split()
        )
        for row in rows:
            scene = row.scene
            place = [scene.clusters, *scene.replicates, scene.tasks, scene.sd, scene.effect, scene.kind, row.method]
            writer.writerow([*place, row.coverage, row.given, row.width, row.level, row.power])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--repeats", type=int, default=2000, help="simulated comparisons per scene; twice as many for levels"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", help="only scenes of this kind, with the numbers they have in a full run")
    parser.add_argument("--csv", type=Path, help="also write one row per scene and method")
    asked = parser.parse_args()
    started, rows = time.monotonic(), []
    for index, scene in enumerate(scenes()):
        if asked.kind not in (None, scene.kind):
            continue
        rows += measure(scene, asked.repeats, np.random.default_rng((asked.seed, index)))
    error = np.sqrt(TAIL * 2 * (1 - TAIL * 2) / asked.repeats)
    print("\n".join(summary([row for row in rows if row.scene.kind not in STRESS])))
    print("\nLowest coverage elsewhere:\n")
    print("\n".join(stress([row for row in rows if row.scene.kind in STRESS])))
    print(
        f"\n{asked.repeats} comparisons per scene, seed {asked.seed}, {time.monotonic() - started:.0f} s; all numbers in percent,"
    )
    print(
        f"widths in points. Monte-Carlo error (1 SE) of a coverage or level near 95 or 5 %: {100 * error:.2f} points."
    )
    if asked.kind is None:
        for line in levels.tabulate(2 * asked.repeats, asked.seed):
            print(line, flush=True)
    if asked.csv:
        write(rows, asked.csv)


if __name__ == "__main__":
    main()
