"""The one model behind every difference between conditions: its error comes from replicates within episodes.

A cell is the mean of one replicate in one episode; an episode is what learns on its own. Two claims are possible.
"Run": these conditions, run like this, differ. "Rerun": they would also differ if all was learned again; it scales
the variance by how much whole runs differ beyond their cells.

Sources: error strata (Yates 1935), degrees of freedom (Satterthwaite 1946; Box 1954), steps (Holm 1979, with Sidak
1967), evidence at any look (Lindon, Ham, Tingley and Bojinov 2022). How often it was right:
docs/explanation/statistics.md, lab/levels.py.

Shapes: cells are [replicates, episodes], NaN where there is no cell. Shares are 0..1, other metrics in their own
unit; estimates and errors are in the same unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchapp.stats.inference.interval import LEVEL, Floats
from benchapp.stats.numerics import t_share, t_value

ALPHA = 1 - LEVEL
LEAST_FREEDOM = 1.0  # with less there is no test: its interval would be wider than any result
FEWEST_EPISODES = 3  # with this many degrees of freedom, of one run a side
SECOND_REPLICATES = 0.75  # of the episodes need a second replicate before replicates determine the error
ENOUGH_EVIDENCE = 20.0  # 1 / ALPHA
SAME = 1e-12  # replicates that differ by no more are copies of one run
TINY = 1e-30


@dataclass(frozen=True, slots=True)
class Estimate:
    """A difference D of two conditions, whose variance is `variance / count`, on `freedom` degrees of freedom.

    `variance`: of a difference of cells, W. `least`: its value if one trial of all had ended differently, or by
    measuring alone. `is_replicated`: it comes from replicates within episodes, not from one run over episodes.
    """

    delta: float
    variance: float
    freedom: float
    count: float
    least: float
    is_replicated: bool


@dataclass(frozen=True, slots=True)
class RunFactor:
    """How much more whole runs vary than their cells predict: `phi` is 1 where episodes of a run are independent.

    `freedom`: of phi. `variance`: the mean W of a pair of these conditions.
    """

    phi: float
    freedom: float
    variance: float


@dataclass(frozen=True, slots=True)
class ClaimTest:
    """One claim: a difference's standard error, its degrees of freedom, and the two-sided p before any correction."""

    delta: float
    error: float
    freedom: float

    @property
    def p(self) -> float:
        return 2 * t_share(self.freedom, -abs(self.delta) / self.error) if self.error else float(not self.delta)

    def half_width(self, comparisons: int = 1) -> float:
        """Return half of the 95 % interval that holds for this many comparisons together."""
        each = 1 - LEVEL ** (1 / comparisons)
        return t_value(self.freedom, 1 - each / 2) * self.error

    def evidence(self, cells: float) -> float:
        """Return the e-value against no difference: at least 20 in at most 5 % of nulls, at any whole replicate.

        `cells`: replicates x episodes. A mixture of t statistics over normal effects (Lindon et al. 2022, theorem 3.1).
        """
        spread = cells / 4
        squared = (self.delta / self.error) ** 2 if self.error else 0.0
        ratio = (1 + squared / self.freedom) / (1 + squared / (self.freedom * (1 + spread)))
        return float((1 + spread) ** -0.5 * ratio ** ((self.freedom + 1) / 2))


def estimate_difference(
    own: Floats, other: Floats, trial: float, *, is_block: bool, measured: float = 0.0
) -> Estimate | None:
    """Estimate the difference, None where no episode has a cell on both sides.

    own: [r, e], other: [s, e]. trial: a cell's variance over one trial's, 1 / tasks where all are alike; 0 for metrics
    other than shares. is_block: replicate r of both sides ran interleaved, so r equals s and cells are compared in
    pairs. measured: a difference's variance from measuring alone, part of the spread and its least value.
    """
    replicates = min(count_runs(own), count_runs(other))
    is_whole = not (np.isnan(own).any() or np.isnan(other).any())
    if is_block and not is_whole:
        own, other = np.where(np.isnan(other), np.nan, own), np.where(np.isnan(own), np.nan, other)
    if not is_whole:
        used = ~np.isnan(own).all(axis=0) & ~np.isnan(other).all(axis=0)
        own, other = own[:, used], other[:, used]
    episodes = own.shape[1]
    if not episodes:
        return None
    mean, total = (np.mean, np.sum) if is_whole else (np.nanmean, np.nansum)  # those for NaN take several times as long
    differences = mean(own, axis=0) - mean(other, axis=0)
    sides = [own - other] if is_block else [own, other]
    freedoms = [_count_cells(side) - episodes for side in sides]
    least = max(measured, _vary_by_one_trial(own, trial) + _vary_by_one_trial(other, trial))
    delta = float(differences.mean())
    if replicates > 1 and min(freedoms) >= SECOND_REPLICATES * episodes:
        rates = [float((1 / (~np.isnan(side)).sum(axis=0)).mean() / episodes) for side in sides]
        pooled = [float(total((side - mean(side, axis=0)) ** 2)) for side in sides]
        parts = [rate * squares / freedom for rate, squares, freedom in zip(rates, pooled, freedoms, strict=True)]
        welch = sum(parts) ** 2 / max(sum(p * p / n for p, n in zip(parts, freedoms, strict=True)), TINY)
        count = len(sides) / sum(rates)
        return Estimate(delta, max(sum(parts) * count, least), max(min(freedoms), welch), count, least, True)
    variance = float(differences.var(ddof=1)) if episodes > 1 else np.nan
    return Estimate(delta, max(variance, least), episodes - 1, episodes, least, False)


def measure_run_factor(conditions: Sequence[Floats], *, is_block: bool) -> RunFactor | None:
    """Measure over all conditions with replicates, [replicates, episodes] each. None below two replicates or episodes.

    The mean square of condition x replicate over that of cells. In blocks, what all conditions of a replicate share
    drops out, which takes two conditions.
    """
    several = [cells for cells in conditions if count_runs(cells) > 1]
    if not several:
        return None
    # [conditions, most replicates, e], NaN below those with fewer
    most = max(map(len, several))
    cells = np.stack([np.pad(each, ((0, most - len(each)), (0, 0)), constant_values=np.nan) for each in several])
    cells = cells[:, (~np.isnan(cells)).any(axis=2).all(axis=0)]
    cells = cells[:, :, ~np.isnan(cells).any(axis=(0, 1))]
    count, replicates, episodes = cells.shape
    free = count - bool(is_block)
    if free < 1 or replicates < 2 or episodes < 2:
        return None
    left = cells - cells.mean(axis=1, keepdims=True)
    if is_block:
        left = left - left.mean(axis=0)
    freedom = episodes * (replicates - 1)
    covariance = np.einsum("cre,dre->cd", left, left) / freedom
    if not is_block:
        covariance = np.diag(np.diag(covariance))
    total, squares = float(np.trace(covariance)), float((covariance**2).sum())
    if total <= SAME:
        return None
    # Unbiased for the sum of squares of the true covariance (Box 1954).
    if is_block:
        squares = freedom**2 / ((freedom - 1) * (freedom + 2)) * (squares - total**2 / freedom)
    else:
        squares *= freedom / (freedom + 2)
    between = episodes * float((left.mean(axis=2) ** 2).sum()) / (replicates - 1)
    dimension = float(np.clip(total**2 / max(squares, TINY), 1, free))
    return RunFactor(between / total, (replicates - 1) * dimension, 2 * total / free)


def claim_run(estimate: Estimate) -> ClaimTest | None:
    """Test with these conditions, run like this. None where there are too few cells."""
    freedom = estimate.freedom - 0.5  # so that the level holds with few cells of 0 and 1
    if freedom < LEAST_FREEDOM:
        return None
    return ClaimTest(estimate.delta, float(np.sqrt(estimate.variance / estimate.count)), freedom)


def claim_rerun(estimate: Estimate, factor: RunFactor | None) -> ClaimTest | None:
    """Test as if all was learned again. None without replicates, or where nothing shows what reruns add."""
    run = claim_run(estimate)
    if run is None or factor is None or not estimate.is_replicated:
        return None
    own = estimate.variance
    widened = max(factor.phi * own, own + (factor.phi - 1) * factor.variance, estimate.least)
    freedom = 1 / (1 / factor.freedom + 1 / run.freedom)
    return replace(run, error=float(np.sqrt(widened / estimate.count)), freedom=freedom)


def correct(ps: Sequence[float | None]) -> list[float | None]:
    """Apply Holm's steps with Sidak's level to differences judged together. Those without p count too."""
    corrected: list[float | None] = [None] * len(ps)
    last = 0.0
    for place, at in enumerate(sorted((at for at, p in enumerate(ps) if p is not None), key=lambda at: ps[at] or 0.0)):
        last = corrected[at] = max(last, 1 - (1 - (ps[at] or 0.0)) ** (len(ps) - place))
    return corrected


def count_runs(cells: Floats) -> int:
    """Count replicates with a cell, [r, e]. Copies of one run count once, unless all trials passed or none did."""
    missing = np.isnan(cells)
    is_whole = not missing.any()
    if not is_whole:
        cells = cells[~missing.all(axis=1)][:, ~missing.all(axis=0)]
    if len(cells) < 2 or not cells.size:
        return len(cells) if cells.size else 0
    mean = cells.mean() if is_whole else np.nanmean(cells)
    if min(abs(mean), abs(mean - 1)) <= SAME:
        return len(cells)
    spread = np.ptp(cells, axis=0) if is_whole else np.nanmax(cells, axis=0) - np.nanmin(cells, axis=0)
    return 1 if spread.max() < SAME else len(cells)


def _count_cells(cells: Floats) -> int:
    return int(np.count_nonzero(~np.isnan(cells)))


def _vary_by_one_trial(cells: Floats, trial: float) -> float:
    """Return the variance of a cell if one trial of all had ended differently: q(1 - q) / tasks."""
    if not trial:
        return 0.0
    other = 1 / (_count_cells(cells) / trial + 2)
    return other * (1 - other) * trial
