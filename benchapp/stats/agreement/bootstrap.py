"""The interval of an alpha: tasks are resampled, with all their items and all reviews of these."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import stdtrit

from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.stats.agreement.alpha import AlphaTally, Unit, alpha_of, disagreements, tally
from benchapp.stats.agreement.distances import A, Distance
from benchapp.stats.inference.interval import TAIL, ZERO, Floats, Interval

RESAMPLES = 3_999  # with the sample itself 4,000, so that both tails hold whole numbers
SEED = 20_011  # any number will do as long as it never changes
MIN_TASKS = 6  # below, no interval
MIN_TASKS_DRAWN = 10  # below, resamples say too little: lab/agreement_coverage.py, docs/explanation/agreement.md


@dataclass(frozen=True, slots=True)
class AgreementEstimate(Shaped):
    """An alpha and the data behind it. None where it cannot be computed; `note` gives the reason.

    units: with two answers or more. clusters: tasks (or what else was drawn together). answers: those that count.
    """

    value: float | None
    interval: Interval | None
    units: int
    clusters: int
    answers: int
    note: str = ""

    json_shape = JsonShape("alpha=value", "interval", "items=units", "tasks=clusters", "answers", "note")


def estimate(units: Sequence[Unit[A]], clusters: Sequence[Hashable], distance: Distance[A]) -> AgreementEstimate:
    """Estimate alpha and its 95 % interval; `clusters` names the task of each unit."""
    found = tally(units, distance, clusters=clusters)
    value = alpha_of(found)
    note = _why_no_value(found) if value is None else _why_no_interval(found)
    interval = None if note else interval_of(found)
    return AgreementEstimate(value, interval, found.units, found.clusters, found.answers, note)


def _why_no_value(found: AlphaTally) -> str:
    if not found.units:
        return "no item has two answers"
    return f"all {found.answers} answers are the same, so nothing shows whether reviewers can distinguish items"


def _why_no_interval(found: AlphaTally) -> str:
    if found.clusters < MIN_TASKS:
        return f"{found.clusters} {'task' if found.clusters == 1 else 'tasks'}, too few for an interval"
    if float(found.apart.sum()) <= ZERO:
        return "nobody disagreed, and drawing agreement again shows nothing else"
    return ""


def interval_of(found: AlphaTally, weights: Floats | None = None) -> Interval:
    """Return bootstrap-t from ten tasks on; with fewer or if it fails, Student's t with the same error.

    weights: how often each cluster counts, in place of the resamples, [k, clusters]. Needs some disagreement, and at
    least two clusters.
    """
    drawn = bootstrap_t(found, weights) if found.clusters >= MIN_TASKS_DRAWN else None
    return drawn or student(found)


def bootstrap_t(found: AlphaTally, weights: Floats | None = None) -> Interval | None:
    """Return the bootstrap-t interval (Efron 1979; Hall 1992, section 3.5) on the scale log(1 - alpha), turned back.

    On this scale alpha is a difference of two logs. Each resample is studentised by its own linearised spread over
    clusters, and no end passes 1. None if resamples without disagreement reach into a tail. weights: how often each
    cluster counts, [k, clusters].
    """
    weights = resamples(found.clusters) if weights is None else weights
    count = len(weights)
    t, centre, error = studentise(found, weights)
    out = round(TAIL * (count + 1))
    ends = np.partition(np.where(np.isnan(t), np.inf, t), (out - 1, count - out))
    low, high = centre - ends[count - out] * error, centre - ends[out - 1] * error
    if not (np.isfinite(low) and np.isfinite(high)):
        return None
    return _back_transform(low, high, f"bootstrap-t over tasks, {count + 1:,} resamples")


def student(found: AlphaTally) -> Interval:
    """Return Student's t on the scale log(1 - alpha) with its linearised error over clusters; nothing is drawn."""
    centre, error = log_and_error(found, np.ones((1, found.clusters)))
    half = float(stdtrit(found.clusters - 1, 1 - TAIL)) * error[0]
    return _back_transform(centre[0] - half, centre[0] + half, "Student's t over tasks, on log(1 - alpha)")


def _back_transform(low: float, high: float, method: str) -> Interval:
    return Interval(float(1 - np.exp(high)), float(1 - np.exp(low)), method=method)


def studentise(found: AlphaTally, weights: Floats) -> tuple[Floats, float, float]:
    """Return t of log(1 - alpha) in each reweighting, [k] (in standard errors); its centre and error in the sample.

    weights: how often each cluster counts, [k, clusters]. A resample without disagreement is at minus infinity, with
    any spread: it counts as the lowest.
    """
    centre, error = log_and_error(found, np.ones((1, found.clusters)))
    values, errors = log_and_error(found, weights)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = (values - centre[0]) / errors
    t = np.where(np.isneginf(values), -np.inf, t)
    return t, float(centre[0]), float(error[0])


def log_and_error(found: AlphaTally, weights: Floats) -> tuple[Floats, Floats]:
    """Return log(1 - alpha) and its standard error over clusters, from the derivative by each cluster's weight.

    weights: how often each cluster counts, [k, clusters]. Both results: [k], on the log scale.
    """
    observed, expected = disagreements(found, weights)
    counts = weights @ found.counts
    total = counts.sum(axis=1, keepdims=True)
    spread = (counts @ found.distances) @ found.counts.T  # [k, clusters]
    whole = (weights * spread).sum(axis=1, keepdims=True)
    size = found.counts.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(observed) - np.log(np.where(expected > ZERO, expected, np.nan))
        slope = size / (total - 1) + found.apart / (weights @ found.apart)[:, np.newaxis] - 2 * spread / whole
        mean = (weights * slope).sum(axis=1, keepdims=True) / found.clusters
        variance = (weights * np.square(slope - mean)).sum(axis=1) * found.clusters / (found.clusters - 1)
    return logs, np.sqrt(variance)


@lru_cache(maxsize=16)
def resamples(clusters: int) -> Floats:
    """Draw how often each cluster occurs in each resample: [RESAMPLES, clusters], rows sum to `clusters`."""
    rng = np.random.default_rng((SEED, clusters))
    return rng.multinomial(clusters, np.full(clusters, 1 / clusters), size=RESAMPLES).astype(float)
