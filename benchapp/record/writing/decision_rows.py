"""Write decisions: the author's answers, with the libraries around them and the trials it was shown.

Writing has two halves. `pack_decision` stores the patch and counts what changed, which may take long; then
`PackedDecision.save` adds the rows inside the transaction that records the decision.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from benchapp.models import Blob, Compaction, Decision, DecisionEvidence, Snapshot, Trial
from benchapp.record.textual_change import ChangeCounts, measure_change
from runner.base.digests import canonical_json
from runner.base.encoding import encode
from runner.base.text import storable, storable_value
from runner.base.types import Patch

MAX_OPERATION = 32  # characters


@dataclass(frozen=True, slots=True)
class PackedDecision:
    """The stored contents that a decision's row points at."""

    before: Snapshot
    after: Snapshot
    patch: str | None  # digest
    change: ChangeCounts

    def save(self, row: Decision, evidence: Iterable[tuple[Trial, Compaction | None]]) -> Decision:
        """Complete and save the decision, then what its author was shown, in this order."""
        row.before, row.after, row.patch_id = self.before, self.after, self.patch
        row.operation_type = storable(row.operation_type)[:MAX_OPERATION]
        row.summary, row.error = storable(row.summary), storable(row.error)
        row.findings = storable_value(row.findings)
        for name, value in self.change.fields().items():
            setattr(row, name, value)
        row.save(force_insert=True)
        DecisionEvidence.objects.bulk_create(
            DecisionEvidence(decision=row, ordinal=ordinal, trial=trial, compaction=compaction)
            for ordinal, (trial, compaction) in enumerate(evidence)
        )
        return row


def pack_decision(before: Snapshot, after: Snapshot, patch: Patch | None = None) -> PackedDecision:
    change = ChangeCounts() if before == after else measure_change(before.read(), after.read())
    stored = None if patch is None else Blob.objects.put(canonical_json(encode(patch)))
    return PackedDecision(before, after, stored, change)
