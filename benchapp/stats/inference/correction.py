"""Differences that were declared together, corrected together: by joint sign flips where these can be made, else by Holm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchapp.stats.inference.difference import Difference
from benchapp.stats.inference.holm import holm
from benchapp.stats.inference.joint_flips import flip_jointly


@dataclass(frozen=True, slots=True)
class Correction:
    """The p values of a family in its order, None for what has no p of its own. `joint` is None where Holm decides."""

    holm: tuple[float | None, ...]
    joint: tuple[float | None, ...] | None

    @property
    def decides(self) -> tuple[float | None, ...]:
        return self.holm if self.joint is None else self.joint

    @property
    def counted(self) -> int:
        """How many differences it takes a chance from: by joint flips those with a p value."""
        return len(self.holm) if self.joint is None else sum(p is not None for p in self.joint)

    @property
    def says(self) -> str:
        """What was done, in the middle of a sentence."""
        count = self.counted
        method = "Holm" if self.joint is None else "joint sign-flip"
        return f"corrected for {count} comparison{'' if count == 1 else 's together'} ({method})"


def correct(family: Sequence[Difference | None], *, joint: bool = True) -> Correction:
    """`joint`: whether joint flips may decide. They do where every difference with a p value comes from a sign flip, over
    clusters that no other cuts: known before a result is. One without a p value can never be found, so it takes nothing from
    the others; Holm counts it all the same."""
    corrected = holm({str(place): each.p if each else None for place, each in enumerate(family)})
    by_holm = tuple(corrected[str(place)] for place in range(len(family)))
    return Correction(by_holm, _correct_jointly(family) if joint else None)


def _correct_jointly(family: Sequence[Difference | None]) -> tuple[float | None, ...] | None:
    known = [each for each in family if each is not None and each.p is not None]
    flips = [each.flips for each in known if each.flips is not None]
    if not known or len(flips) < len(known) or (found := flip_jointly(flips)) is None:
        return None
    # Beyond 14 clusters the patterns are random ones: never below the p of the difference alone.
    own = iter(max(each.p or 0.0, p) for each, p in zip(known, found, strict=True))
    return tuple(next(own) if each is not None and each.p is not None else None for each in family)
