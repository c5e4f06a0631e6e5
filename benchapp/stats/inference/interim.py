"""Evidence on a difference before the end. It may be checked after every whole replicate, without a plan of looks."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor

from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.stats.inference.difference import Claim, Difference
from benchapp.stats.inference.model import ENOUGH_EVIDENCE

MOST = 1_000  # larger values are written as "over" this


@dataclass(frozen=True, slots=True)
class InterimEvidence(Shaped):
    """`value`: the e-value of `replicates` whole ones a side, divided by `comparisons`, the number judged together."""

    value: float
    comparisons: int
    replicates: int
    is_rise: bool = True

    json_shape = JsonShape(
        "evidence=value",
        ("evidence_needed", lambda _: ENOUGH_EVIDENCE),
        "evidence_over=comparisons",
        "evidence_replicates=replicates",
        "found_at_any_look=is_enough",
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
        return self.value >= ENOUGH_EVIDENCE

    @property
    def sentence(self) -> str:
        over = f", for {self.comparisons} comparisons together" if self.comparisons > 1 else ""
        after = f"after {self.replicates} whole replicates"
        if self.is_enough:
            way = "rise" if self.is_rise else "drop"
            return f"Evidence for a {way} {after}: {self.number}{over}. {ENOUGH_EVIDENCE:.0f} let you stop."
        return f"Evidence {after}: {self.number} of the {ENOUGH_EVIDENCE:.0f} that let you stop{over}."

    @property
    def short(self) -> str:
        return f"evidence {self.number} of {ENOUGH_EVIDENCE:.0f}"

    @property
    def number(self) -> str:
        """Round down, so that no 19.96 reads as 20."""
        if self.value > MOST:
            return f"over {MOST:,}"
        if self.value < 0.1:
            return "below 0.1"
        return f"{floor(10 * self.value) / 10:.1f}" if self.value < ENOUGH_EVIDENCE else f"{floor(self.value):,}"
