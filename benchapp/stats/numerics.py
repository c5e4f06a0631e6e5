"""What statistics take from scipy. It is imported with the first call, because it takes longer than all modules of a
page together, and most pages need none of it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray


def t_share(freedom: float, value: float) -> float:
    """Return the share of Student's t at or below a value, 0..1."""
    from scipy.special import stdtr

    return float(stdtr(freedom, value))


def t_value(freedom: float, share: float) -> float:
    """Return the value of Student's t with this share at or below it."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, share))


def shifted_t_share(freedom: float, shift: float, value: float) -> float:
    """Return the share of the noncentral t at or below a value, 0..1."""
    from scipy.special import nctdtr

    return float(nctdtr(freedom, shift, value))


def binomial_share(most: int, n: int, chance: float) -> float:
    """Return how often n independent tries succeed more than `most` times, 0..1."""
    from scipy.special import bdtrc

    return float(bdtrc(most, n, chance))


def minimise(loss: Callable[[float], float], most: float, precision: float) -> float:
    """Return where in 0..most a loss is least, by Brent's bounded method."""
    from scipy.optimize import minimize_scalar

    return float(minimize_scalar(loss, bounds=(0, most), method="bounded", options={"xatol": precision}).x)


def link(one: NDArray[np.intp], other: NDArray[np.intp], count: int) -> NDArray[np.int64]:
    """Return the label of the component of each of `count` things, [count], where one[i] and other[i] are linked."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(len(one), dtype=np.int8), (one, other)), shape=(count, count))
    return np.asarray(connected_components(graph, directed=False)[1], dtype=np.int64)
