"""Several comparisons declared together."""

from __future__ import annotations

from collections.abc import Mapping


def holm(ps: Mapping[str, float | None]) -> dict[str, float | None]:
    """Holm's step-down p values (Holm 1979), by the same keys: the family-wise error stays below the level used.

    A hypothesis declared without a p value (too few clusters, nothing scored yet) still counts in the number of
    hypotheses: what was declared is corrected for, not what happened to be testable. Its own value stays None.
    """
    known = sorted((p, key) for key, p in ps.items() if p is not None)
    adjusted: dict[str, float | None] = dict.fromkeys(ps)
    running = 0.0
    for rank, (p, key) in enumerate(known):
        if not 0 <= p <= 1:
            raise ValueError(f"p of {key}: expected 0..1, got {p}")
        running = max(running, min(1.0, (len(ps) - rank) * p))
        adjusted[key] = running
    return adjusted
