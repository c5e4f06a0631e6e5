"""A difference between two conditions on tasks that both were scored on: an estimate, two claims, one corrected p."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.stats.inference.interval import Interval
from benchapp.stats.inference.model import (
    ALPHA,
    ClaimTest,
    Estimate,
    RunFactor,
    claim_rerun,
    claim_run,
    correct,
    count_runs,
    estimate_difference,
)
from benchapp.stats.inference.sides import Paired, TaskMeans, pair


class Claim(StrEnum):
    """What a difference is claimed about. The plan picks the deciding claim, never the outcome."""

    ONE_RUN = "one run"  # about these episodes: the effect of reruns was not measured
    RUN = "run"  # these conditions, run like this: replicates that ran interleaved
    RERUN = "rerun"  # if all was learned again: replicates that did not


@dataclass(frozen=True, slots=True)
class MissingBounds(Shaped):
    """What trials without a verdict could change in a difference of shares, over all tasks planned on both sides.
    failed, passed: if all of them had. low, high: if those of one side had failed and those of the other passed."""

    trials: int
    failed: float
    passed: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Difference(Shaped):
    """Own minus other on the tasks both were scored on, in the metric's unit (shares: -1..1).

    tasks, clusters (episodes), replicates (own, other): the data behind it; dropped: tasks scored in some replicates
    only. own, other: means over the tasks and all replicates; delta: their difference, which every interval is about.
    claim: the deciding one. run, rerun: both claims, None with too little data. factor: how much runs differ beyond
    their cells. comparisons, p: how many are judged together, and the deciding claim's corrected p (None before
    `correct_together`). bound: the largest possible difference, if any. discordant: tasks that only own passed, that
    only other passed, if both have one pass-or-fail result a task. missing: None if every planned trial has a verdict.
    """

    tasks: int
    clusters: int
    replicates: tuple[int, int]
    own: float
    other: float
    delta: float
    claim: Claim
    run: ClaimTest | None
    rerun: ClaimTest | None
    factor: RunFactor | None = None
    comparisons: int = 1
    p: float | None = None
    bound: float | None = None
    discordant: tuple[int, int] | None = None
    dropped: int = 0
    missing: MissingBounds | None = None

    json_shape = JsonShape(
        *("tasks", "clusters", "replicates", "own", "other", "delta"),
        ("claim", lambda found: found.claim.value),
        "comparisons",
        "interval",
        ("p_holm", lambda found: found.p),
        *("bound_of_difference", "rerun_interval", "discordant", "dropped", "missing"),
    )

    @property
    def test(self) -> ClaimTest | None:
        """The test of the deciding claim; None where the data are too few for one."""
        return self.rerun if self.claim is Claim.RERUN else self.run

    @property
    def interval(self) -> Interval | None:
        """The 95 % interval for all comparisons together. Where the correction excludes zero, it stops there."""
        found = self._around(self.test)
        if found is None or self.p is None or self.p > ALPHA:
            return found
        low, high = (max(found.low, 0.0), found.high) if self.delta > 0 else (found.low, min(found.high, 0.0))
        return replace(found, low=low, high=high)

    @property
    def rerun_interval(self) -> Interval | None:
        """The interval of the second claim, where the run decides."""
        return None if self.claim is Claim.RERUN else self._around(self.rerun)

    @property
    def is_clear(self) -> bool:
        return self.p is not None and self.p <= ALPHA

    @property
    def is_hopeless(self) -> bool:
        """Is half of the interval as wide as the largest possible difference? Then nothing could have been clear."""
        return self.test is not None and self.bound is not None and self.test.half_width(self.comparisons) >= self.bound

    @property
    def bound_of_difference(self) -> float | None:
        """The farther end of the interval: no difference is larger (two one-sided tests: Schuirmann 1987)."""
        return None if self.test is None else abs(self.delta) + self.test.half_width(self.comparisons)

    def _around(self, test: ClaimTest | None) -> Interval | None:
        if test is None:
            return None
        half, bound = test.half_width(self.comparisons), self.bound
        low, high = self.delta - half, self.delta + half
        if bound is not None:
            low, high = max(low, -bound), min(high, bound)
        return Interval(low, high, method="t, jointly over comparisons" if self.comparisons > 1 else "t")


def compare(
    paired: Paired,
    *,
    is_share: bool,
    is_block: bool = False,
    factor: RunFactor | None = None,
    measured: float = 0.0,
) -> Difference:
    """Compare two aligned conditions. is_block: see `estimate_difference`. factor: of all conditions of their family,
    for the second claim. measured: how much one trial's value varies when only measuring is repeated, as a variance."""
    own, other, trial = paired.cells(paired.own), paired.cells(paired.other), paired.trial_variance
    estimate = estimate_difference(
        own, other, trial if is_share else 0.0, is_block=is_block, measured=2 * measured * trial
    )
    assert estimate is not None  # no cell is missing
    claim = Claim.RUN if is_block else Claim.RERUN
    if min(count_runs(own), count_runs(other)) < 2:
        claim = Claim.ONE_RUN
    both = paired.binary and is_share
    return Difference(
        tasks=len(paired.task),
        clusters=paired.clusters,
        replicates=paired.replicates,
        own=float(own.mean()),
        other=float(other.mean()),
        delta=estimate.delta,
        claim=claim,
        run=_if_any_error(claim_run(estimate)),
        rerun=_if_any_error(_claim_rerun(estimate, paired, factor, is_block=is_block)),
        factor=factor,
        bound=1.0 if is_share else None,
        discordant=_count_discordant(paired) if both else None,
        dropped=paired.dropped,
    )


def _claim_rerun(estimate: Estimate, paired: Paired, factor: RunFactor | None, *, is_block: bool) -> ClaimTest | None:
    if paired.clusters == 1 and not is_block and estimate.is_replicated:
        return claim_run(estimate)  # in one episode, cells are whole runs
    return claim_rerun(estimate, factor)


def _if_any_error(test: ClaimTest | None) -> ClaimTest | None:
    """Return no test when an amount is the same everywhere: nothing shows its error."""
    return test if test is not None and test.error > 0 else None


def _count_discordant(paired: Paired) -> tuple[int, int]:
    own, other = paired.own[0] == 1, paired.other[0] == 1
    return int((own & ~other).sum()), int((other & ~own).sum())


def correct_together(family: Sequence[Difference | None], comparisons: int | None = None) -> list[Difference | None]:
    """Set each corrected p and the interval that holds for all together. comparisons: how many were planned, with those
    not scored."""
    planned = max(len(family), comparisons or 0)
    ps = [each.test.p if each and each.test else None for each in family]
    found = correct([*ps, *[None] * (planned - len(family))])
    return [replace(each, comparisons=planned, p=p) if each else None for each, p in zip(family, found, strict=False)]


def difference_of_means(own: Sequence[TaskMeans], other: Sequence[TaskMeans], *, by_family: bool = False) -> float:
    """Return the difference alone, 0 where they share no task."""
    paired = pair(own, other, by_family=by_family)
    return float(paired.delta @ paired.weight) if paired else 0.0
