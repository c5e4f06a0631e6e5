"""Which change of a library says most: the one after a failure whose later readers did best beside no-skill. Pure.

Association, not effect: it chooses where reading starts, and a page that uses it says by what rule.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from benchapp.analysis.lineage.attribution import Baseline, Ended, count_endings, list_trials_with_lines
from benchapp.analysis.lineage.line_history import Lineage


@dataclass(frozen=True, slots=True)
class TellingChange:
    """`state`: the one the change made. `ended`: later trials of its family that had its lines."""

    state: int
    ended: Ended

    @property
    def gain(self) -> float:
        """Passes of later readers above those that no-skill's rate on the same tasks promises; where no-skill was not
        run, all their passes."""
        ended = self.ended
        if not ended.slots:
            return float(ended.read.passed)
        return ended.own.passed - ended.own.scored * (ended.beside.value or 0.0)


def find_telling_change(
    lineage: Lineage, changes: Iterable[tuple[int, int | None]], baseline: Baseline
) -> TellingChange | None:
    """`changes`: (state, family) of each applied change after a failure. Ties: more readers, then the earlier one. None
    where no later trial of a change's family read its lines and was scored."""
    found = [TellingChange(state, _end_in_family(lineage, state, family, baseline)) for state, family in changes]
    read = [change for change in found if change.ended.read.scored]
    return max(read, key=lambda change: (change.gain, change.ended.read.scored, -change.state), default=None)


def _end_in_family(lineage: Lineage, state: int, family: int | None, baseline: Baseline) -> Ended:
    trials = list_trials_with_lines(lineage, lambda at: lineage.holding[at].get(state, frozenset()), born=state)
    return count_endings((pair for pair in trials if pair[0].family == family), baseline)
