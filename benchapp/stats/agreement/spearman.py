"""Spearman's rank correlation, with ties at the mean of their ranks. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchapp.stats.inference.interval import Floats


def spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return Pearson's correlation of the ranks of n pairs, -1..1. None below two pairs or for a constant side."""
    if len(first) != len(second):
        raise ValueError(f"{len(first)} and {len(second)} values: expected pairs")
    if len(first) < 2:
        return None
    x, y = _ranks(first), _ranks(second)
    x, y = x - x.mean(), y - y.mean()
    scale = float(np.sqrt((x * x).sum() * (y * y).sum()))
    return float((x * y).sum()) / scale if scale else None


def _ranks(values: Sequence[float]) -> Floats:
    """Return ranks from 1, [n] -> [n]; equal values share their mean rank."""
    _, place, counts = np.unique(np.asarray(values, dtype=float), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[place])
