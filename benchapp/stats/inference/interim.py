"""Evidence on a difference that may be looked at after every cluster: an e-value, which needs no plan of looks.

Under the null of the sign-flip a cluster's difference is as likely with the other sign, whatever its size and whatever came
before. So the product of exp(l d) / cosh(l d) over clusters is a martingale for every l, and a mean over several l is one too. One
that begins at 1 ever reaches 20 in at most 5 % (Ville 1939; Waudby-Smith and Ramdas 2024; mixtures: Howard et al. 2021).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor

import numpy as np

from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.stats.inference.interval import Floats, Ints
from benchapp.stats.inference.sides import Paired, TaskMeans

ENOUGH = 20.0  # 1 / 0.05
MOST = 1_000  # more is told as more than that
# l, over the root mean square so far. Six clusters alike reach 21.8. Of eight such sets one with good power from 10 clusters on;
# the level holds with any.
RATES = (1.0, 2.0)


@dataclass(frozen=True, slots=True)
class InterimEvidence(Shaped):
    """`value`: the most that was reached, after `clusters` of them, divided by `comparisons`, the number planned to be corrected
    together; `is_rise`: what it is evidence for. `now`: the same after the last finished cluster."""

    value: float
    comparisons: int
    is_rise: bool = True
    clusters: int = 0
    now: float = 1.0

    json_shape = JsonShape(
        "evidence=value",
        ("evidence_needed", lambda _: ENOUGH),
        "evidence_over=comparisons",
        "found_at_any_look=is_enough",
        ("evidence_for", lambda found: "rise" if found.is_rise else "drop"),
        "evidence_now=now",
    )

    @classmethod
    def of(cls, added: Floats, comparisons: int) -> InterimEvidence:
        """From what each finished cluster adds to the difference, in the order of the plan."""
        if not len(added):
            return cls(1.0 / comparisons, comparisons, now=1.0 / comparisons)
        rise, drop = weigh_signs(added[np.newaxis])[:, 0]
        both = (rise + drop) / 2
        at = int(both.argmax())
        reached, now = (max(1.0, float(both[at])), float(both[-1]))
        return cls(reached / comparisons, comparisons, bool(rise[at] >= drop[at]), at + 1, now / comparisons)

    @property
    def is_enough(self) -> bool:
        return self.value >= ENOUGH

    @property
    def told(self) -> str:
        return _tell(self.value)

    @property
    def short(self) -> str:
        if self.is_enough:
            return f"evidence for a {self._way}: {self.told}, and {ENOUGH:.0f} is enough"
        return f"evidence {self.told} of {ENOUGH:.0f}"

    def say(self, when: str) -> str:
        """A sentence that begins with `when`."""
        over = f", corrected for {self.comparisons} comparisons" if self.comparisons > 1 else ""
        if not self.is_enough:
            return f"{when}: evidence {self.told} of the {ENOUGH:.0f} that let you stop{over}."
        fell = f" It is {_tell(self.now)} now." if self.now < ENOUGH else ""
        after = f"After {self.clusters} episodes evidence for a {self._way} reached {self.told}"
        return f"{when}, found at any look. {after}{over}; {ENOUGH:.0f} let you stop.{fell}"

    @property
    def _way(self) -> str:
        return "rise" if self.is_rise else "drop"


def _tell(value: float) -> str:
    """Rounded down, so that no 19.96 reads as 20."""
    if value > MOST:
        return f"over {MOST:,}"
    if value < 0.1:
        return "below 0.1"
    return f"{floor(10 * value) / 10:.1f}" if value < ENOUGH else f"{floor(value):,}"


def weigh_evidence(added: Floats) -> Floats:
    """The e-value after each cluster, [k, m], from what clusters add to the difference, [k, m], in an order that no result chose.
    Both signs count the same."""
    return np.asarray(weigh_signs(added).mean(axis=0))


def weigh_signs(added: Floats) -> Floats:
    """The e-values of a rise and of a drop after each cluster, [2, k, m]; each is a mean over the rates.

    A difference is taken over the root mean square of those up to it: its own size may
    be known, its sign may not. A cluster without a difference changes nothing.
    """
    count = np.arange(1, added.shape[1] + 1)
    spread = np.sqrt(np.cumsum(added**2, axis=1) / count)
    standard = added / np.where(spread > 0, spread, 1.0)
    signs = []
    for sign in (1, -1):
        x = np.multiply.outer(sign * np.array(RATES), standard)
        signs.append(np.exp(np.cumsum(x - np.logaddexp(x, -x) + np.log(2), axis=2)).mean(axis=0))
    return np.asarray(signs)


def add_finished(planned: Paired, order: TaskMeans, scored: Paired, *, by_family: bool) -> Floats:
    """What each finished cluster adds to the difference, [finished], in the order of the plan, up to the first that is not finished.

    planned: tasks planned on both sides; its values are the shares of their trials that ended. A cluster is finished where all
    have. order: a number per task that grows along the plan. scored: tasks with a result on both sides, a part of the planned
    ones. Each task adds its difference, or each family the mean of its own, so that later clusters change nothing here.
    """
    ended = np.minimum(planned.own.min(axis=0), planned.other.min(axis=0)) >= 1
    clusters = planned.clusters
    is_finished = np.bincount(planned.cluster, weights=~ended, minlength=clusters) == 0
    first = np.full(clusters, np.inf)
    np.minimum.at(first, planned.cluster, order.value[np.searchsorted(order.task, planned.task)])
    place = planned.cluster[np.searchsorted(planned.task, scored.task)]
    weight = 1 / _count_alike(place, scored) if by_family else np.ones(len(place))
    added = np.bincount(place, weights=scored.delta * weight, minlength=clusters)
    sequence = np.argsort(first, kind="stable")
    return np.asarray(added[sequence][np.logical_and.accumulate(is_finished[sequence])])


def _count_alike(place: Ints, scored: Paired) -> Ints:
    """Of each scored task, [n]: how many of its family its cluster holds. A task without a family is its own."""
    family = np.where(scored.family >= 0, scored.family, -2 - scored.task)
    _, which, counts = np.unique(np.stack((place, family)), axis=1, return_inverse=True, return_counts=True)
    return np.asarray(counts[which.ravel()])
