"""The ledger: for each decision that changed a library, what became of the later trials that read what it wrote.

A trial counts for a decision while at least one line that the decision wrote stands in the library the trial was given,
and read means that it read a skill in which such a line stands. So a trial counts for several decisions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchapp.analysis.lineage.attribution import (
    NOTE,
    Baseline,
    Ended,
    LaterTrials,
    count_later_trials,
    list_trials_with_lines,
    split_by_family,
)
from benchapp.analysis.lineage.line_history import Lineage
from benchapp.record.json_shape import JsonShape, Shaped
from runner.base.types import Phase


@dataclass(frozen=True, slots=True)
class LedgerRow(Shaped):
    """`written`: lines it wrote; `standing`: of those, lines of the library's last state. Families are the tasks'."""

    state: int
    written: int
    standing: int
    all: LaterTrials
    same_family: Ended
    other_families: Ended
    deployment: Mapping[str, Ended]  # by role

    json_shape = JsonShape(
        *("lines_written=written", "lines_standing=standing", NOTE, "all=all.total"),
        *("same_family", "other_families"),
        ("deployment", lambda row: {role or "no role": ended for role, ended in row.deployment.items()}),
    )


def count_ledger_row(lineage: Lineage, state: int, family: int | None, baseline: Baseline) -> LedgerRow:
    """The row of the decision or seeding that made this state. `family`: the one that it was made for."""
    trials = list_trials_with_lines(lineage, lambda at: lineage.holding[at].get(state, frozenset()), born=state)
    found = count_later_trials(trials, baseline)
    written = [line for line in lineage.blame.lines if line.born == state]
    return LedgerRow(
        state,
        len(written),
        sum(line.last == len(lineage.snapshots) - 1 for line in written),
        found,
        *split_by_family(trials, family, baseline),
        {role: ended for (phase, role), ended in found.groups.items() if phase == Phase.DEPLOYMENT},
    )
