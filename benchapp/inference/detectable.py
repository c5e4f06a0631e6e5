"""How large a difference would have been found: the other half of "not significant"."""

from __future__ import annotations

from scipy.special import nctdtrinc, ndtri, stdtrit

from benchapp.inference.interval import TAIL

POWER = 0.8


def detectable(error: float, freedom: float, level: float = 2 * TAIL) -> float | None:
    """The true difference that a two-sided t test at `level` finds with 80 % power, in the unit of `error`.

    error: the standard error seen in these data; freedom: its degrees of freedom. Solved on the noncentral t
    distribution, since the usual sum of two quantiles is far off with few degrees of freedom. The chance to reject on
    the wrong side is left out (below 0.001 here). None where the data show no spread.
    """
    if error <= 0 or freedom <= 0:
        return None
    critical = stdtrit(freedom, 1 - level / 2)
    return float(nctdtrinc(freedom, 1 - POWER, critical)) * error


def detectable_by_signs(deviation: float, clusters: int) -> float | None:
    """The same for a test that rejects only where every cluster points the same way, as the sign-flip test of six does.

    deviation: the standard deviation of the clusters, taken as normal. All agree with probability Phi(d / sd)**clusters.
    """
    return float(ndtri(POWER ** (1 / clusters))) * deviation if deviation > 0 else None
