"""A difference between two conditions on tasks that both were scored on: an estimate, two claims, one corrected p.

Also evidence on it before the end, which may be checked after every whole replicate, and the cost of a passed trial."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import exp, floor

from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.stats.inference import model
from benchapp.stats.inference.interval import Interval
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
    run: model.ClaimTest | None
    rerun: model.ClaimTest | None
    factor: model.RunFactor | None = None
    comparisons: int = 1
    p: float | None = None
    bound: float | None = None
    discordant: tuple[int, int] | None = None
    dropped: int = 0
    missing: MissingBounds | None = None

    json_shape = JsonShape(
        "tasks clusters replicates own other delta claim comparisons interval p_holm=p bound_of_difference",
        "rerun_interval discordant dropped missing",
    )

    @property
    def test(self) -> model.ClaimTest | None:
        """Return the test of the deciding claim; None if the data are too few for one."""
        return self.rerun if self.claim is Claim.RERUN else self.run

    @property
    def interval(self) -> Interval | None:
        """The 95 % interval for all comparisons together. Where the correction excludes zero, it stops there."""
        found = self._around(self.test)
        if found is None or self.p is None or self.p > model.ALPHA:
            return found
        low, high = (max(found.low, 0.0), found.high) if self.delta > 0 else (found.low, min(found.high, 0.0))
        return replace(found, low=low, high=high)

    @property
    def rerun_interval(self) -> Interval | None:
        """Return the interval of the second claim, if the run decides."""
        return None if self.claim is Claim.RERUN else self._around(self.rerun)

    @property
    def is_clear(self) -> bool:
        return self.p is not None and self.p <= model.ALPHA

    @property
    def is_hopeless(self) -> bool:
        """Is half of the interval as wide as the largest possible difference? Then nothing could have been clear."""
        return self.test is not None and self.bound is not None and self.test.half_width(self.comparisons) >= self.bound

    @property
    def bound_of_difference(self) -> float | None:
        """Return the farther end of the interval: no difference is larger (two one-sided tests: Schuirmann 1987)."""
        return None if self.test is None else abs(self.delta) + self.test.half_width(self.comparisons)

    def _around(self, test: model.ClaimTest | None) -> Interval | None:
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
    factor: model.RunFactor | None = None,
    measured: float = 0.0,
) -> Difference:
    """Compare two aligned conditions. is_block: see `estimate_difference`. factor: of all conditions of their family,
    for the second claim. measured: how much one trial's value varies when only measuring is repeated, as a variance."""
    own, other, trial = paired.cells(paired.own), paired.cells(paired.other), paired.trial_variance
    estimate = model.estimate_difference(
        own, other, trial if is_share else 0.0, is_block=is_block, measured=2 * measured * trial
    )
    assert estimate is not None  # no cell is missing
    claim = Claim.RUN if is_block else Claim.RERUN
    if min(model.count_runs(own), model.count_runs(other)) < 2:
        claim = Claim.ONE_RUN
    if paired.clusters == 1 and not is_block and estimate.is_replicated:
        rerun = model.claim_run(estimate)  # in one episode, cells are whole runs
    else:
        rerun = model.claim_rerun(estimate, factor)
    discordant = None
    if paired.binary and is_share:
        passed, other_passed = paired.own[0] == 1, paired.other[0] == 1
        discordant = int((passed & ~other_passed).sum()), int((other_passed & ~passed).sum())
    return Difference(
        tasks=len(paired.task),
        clusters=paired.clusters,
        replicates=paired.replicates,
        own=float(own.mean()),
        other=float(other.mean()),
        delta=estimate.delta,
        claim=claim,
        run=_if_any_error(model.claim_run(estimate)),
        rerun=_if_any_error(rerun),
        factor=factor,
        bound=1.0 if is_share else None,
        discordant=discordant,
        dropped=paired.dropped,
    )


def _if_any_error(test: model.ClaimTest | None) -> model.ClaimTest | None:
    """Return no test when an amount is the same everywhere: nothing shows its error."""
    return test if test is not None and test.error > 0 else None


def correct_together(family: Sequence[Difference | None], comparisons: int | None = None) -> list[Difference | None]:
    """Set each corrected p and the interval that holds for all together. comparisons: how many were planned, with those
    not scored."""
    planned = max(len(family), comparisons or 0)
    ps = [each.test.p if each and each.test else None for each in family]
    found = model.correct([*ps, *[None] * (planned - len(family))])
    return [replace(each, comparisons=planned, p=p) if each else None for each, p in zip(family, found, strict=False)]


def difference_of_means(own: Sequence[TaskMeans], other: Sequence[TaskMeans], *, by_family: bool = False) -> float:
    """Return the difference alone, 0 where they share no task."""
    paired = pair(own, other, by_family=by_family)
    return float(paired.delta @ paired.weight) if paired else 0.0


MOST_WRITTEN = 1_000  # larger values are written as "over" this


@dataclass(frozen=True, slots=True)
class InterimEvidence(Shaped):
    """`value`: the e-value of `replicates` whole ones a side, divided by `comparisons`, the number judged together."""

    value: float
    comparisons: int
    replicates: int
    is_rise: bool = True

    json_shape = JsonShape(
        "evidence=value",
        ("evidence_needed", lambda _: model.ENOUGH_EVIDENCE),
        "evidence_over=comparisons evidence_replicates=replicates found_at_any_look=is_enough",
        ("evidence_for", lambda found: "rise" if found.is_rise else "drop"),
    )

    @classmethod
    def of(cls, difference: Difference, comparisons: int) -> InterimEvidence | None:
        """Return None without a test, and with one run on a side; copies of a run are one."""
        if difference.test is None or difference.claim is Claim.ONE_RUN:
            return None
        replicates = min(difference.replicates)
        value = difference.test.evidence(replicates * difference.clusters)
        return cls(value / comparisons, comparisons, replicates, difference.delta > 0)

    @property
    def is_enough(self) -> bool:
        return self.value >= model.ENOUGH_EVIDENCE

    @property
    def sentence(self) -> str:
        over = f", for {self.comparisons} comparisons together" if self.comparisons > 1 else ""
        after = f"after {self.replicates} whole replicates"
        if self.is_enough:
            way = "rise" if self.is_rise else "drop"
            return f"Evidence for a {way} {after}: {self.number}{over}. {model.ENOUGH_EVIDENCE:.0f} let you stop."
        return f"Evidence {after}: {self.number} of the {model.ENOUGH_EVIDENCE:.0f} that let you stop{over}."

    @property
    def short(self) -> str:
        return f"evidence {self.number} of {model.ENOUGH_EVIDENCE:.0f}"

    @property
    def number(self) -> str:
        """Round down, so that no 19.96 reads as 20."""
        if self.value > MOST_WRITTEN:
            return f"over {MOST_WRITTEN:,}"
        if self.value < 0.1:
            return "below 0.1"
        return f"{floor(10 * self.value) / 10:.1f}" if self.value < model.ENOUGH_EVIDENCE else f"{floor(self.value):,}"


@dataclass(frozen=True, slots=True)
class SolvedCost(Shaped):
    """per_trial, per_solved: in the unit of what was spent, on `tasks` whose trials all report it. interval: of
    per_solved, None with too little data."""

    per_trial: float
    per_solved: float
    tasks: int
    interval: Interval | None


def divide_by_passes(
    spent: Sequence[TaskMeans], passed: Sequence[TaskMeans], *, by_family: bool = False
) -> SolvedCost | None:
    """Divide spent by passed: replicates of one condition, in one order. None where either is zero. A ratio's logarithm
    varies like the difference of its parts over their means (delta method), and the parts of a cell are a pair: the
    error is that of any difference of pairs, from replicates within episodes."""
    paired = pair(spent, passed, by_family=by_family)
    if paired is None:
        return None
    top, bottom = paired.cells(paired.own), paired.cells(paired.other)
    per_trial, share = float(top.mean()), float(bottom.mean())
    if not per_trial or not share:
        return None
    estimate = model.estimate_difference(top / per_trial, bottom / share, 0.0, is_block=True)
    claim = model.claim_run(estimate) if estimate else None
    ratio, interval = per_trial / share, None
    if claim and claim.error:
        half = claim.half_width()
        interval = Interval(ratio * exp(-half), ratio * exp(half), method="t of the logarithm")
    return SolvedCost(per_trial, ratio, len(paired.task), interval)
