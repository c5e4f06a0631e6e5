"""A second opinion on few episodes: their differences as draws around a mean, with a stated prior of how far they spread.

It decides nothing. Normal-normal random effects (Röver 2020, bayesmeta): the difference of an episode is d ~ N(theta, s²), with
theta ~ N(mu, tau²); flat prior on mu, half-normal prior on tau (Gelman 2006). How often its intervals were right:
docs/explanation/statistics.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.stats.inference.interval import TAIL, Floats, Ints
from benchapp.stats.inference.sides import Paired

SPREAD = 0.4  # scale of the half-normal prior of tau: shares, so 40 points
EPISODES = range(4, 10)  # for which it was simulated, and may say more than a test
GRID = 100  # values of tau
HALVINGS = 40  # of a range at most some 20 wide


@dataclass(frozen=True, slots=True)
class SecondOpinion(Shaped):
    """What a random-effects model makes of a difference of shares. mean, low, high: of mu given the data, -1..1, with 95 % between
    the ends. above: chance that mu is above 0, 0..1."""

    mean: float
    low: float
    high: float
    above: float
    episodes: int

    json_shape = JsonShape("mean", "low", "high", "above", "episodes")


def opine(paired: Paired) -> SecondOpinion | None:
    """Of shares, one run a side, over few episodes; None elsewhere, and where all tasks differ alike: data without any spread made it
    far too sure."""
    if paired.clusters not in EPISODES or paired.replicates != (1, 1) or np.ptp(paired.delta) == 0:
        return None
    counts = np.bincount(paired.cluster)
    within = paired.delta - (np.bincount(paired.cluster, paired.delta) / counts)[paired.cluster]
    errors = pool_errors(np.array([within @ within]), counts)
    found = opine_many(paired.cluster_means[np.newaxis], errors)
    mean, low, high, above = (float(each[0]) for each in found)
    return SecondOpinion(mean, max(-1.0, low), min(1.0, high), above, paired.clusters)


def pool_errors(squares: Floats, counts: Ints) -> Floats:
    """Standard error of the difference in each episode, [k, m]: squares [k], the sum of squares of tasks' differences around the
    mean of their episode; counts [m], tasks. One variance for all episodes, with one more pair of tasks of which one differs: three
    ties do not make an episode infinitely sure."""
    variance = (squares + 0.5) / (counts.sum() - len(counts) + 1)
    return np.asarray(np.sqrt(variance[:, np.newaxis] / counts))


def opine_many(values: Floats, errors: Floats, spread: float = SPREAD) -> tuple[Floats, Floats, Floats, Floats]:
    """Mean, low and high end of mu, and the chance that it is above 0, of k comparisons, [k] each. values, errors: [k, m], shares.

    Given tau, mu is normal; tau takes values that are equally likely by its prior, so their weights are the likelihoods.
    """
    tau = spread * ndtri(0.5 + (np.arange(GRID) + 0.5) / (2 * GRID))
    variance = errors[:, np.newaxis] ** 2 + tau[:, np.newaxis] ** 2  # [k, GRID, m]
    total = (1 / variance).sum(axis=2)
    centre = (values[:, np.newaxis] / variance).sum(axis=2) / total
    misfit = ((values[:, np.newaxis] - centre[..., np.newaxis]) ** 2 / variance).sum(axis=2)
    fit = -0.5 * (np.log(variance).sum(axis=2) + np.log(total) + misfit)
    weight = np.exp(fit - fit.max(axis=1, keepdims=True))
    weight /= weight.sum(axis=1, keepdims=True)
    error = 1 / np.sqrt(total)
    low, high = (_find_quantile(share, weight, centre, error) for share in (TAIL, 1 - TAIL))
    return (weight * centre).sum(axis=1), low, high, (weight * ndtr(centre / error)).sum(axis=1)


def _find_quantile(share: float, weight: Floats, centre: Floats, error: Floats) -> Floats:
    """Of mixtures of normals, [k], by halving: weight, centre, error [k, GRID]."""
    low, high = (centre - 5 * error).min(axis=1), (centre + 5 * error).max(axis=1)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        is_below = (weight * ndtr((middle[:, np.newaxis] - centre) / error)).sum(axis=1) < share
        low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
    return np.asarray((low + high) / 2)
