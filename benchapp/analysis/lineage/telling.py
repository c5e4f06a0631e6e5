"""Choose the change of a library to show first: after a failure, with the best later readers against no-skill. Pure.

Association, not effect: it chooses where reading starts, and a page that uses it states the rule. The example's probe
takes the same change back (`example_experiment`), so that nobody picks the change that looks best.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from benchapp.analysis.lineage.attribution import Baseline, Ended, count_endings, list_trials_with_lines
from benchapp.analysis.lineage.library_states import LibraryHistory, LibraryStep
from benchapp.analysis.lineage.line_history import Lineage


@dataclass(frozen=True, slots=True)
class TellingChange:
    """`state`: the one the change made. `ended`: later trials of its family that had its lines."""

    state: int
    ended: Ended

    @property
    def gain(self) -> float:
        """Return `Ended.gain`; if no-skill was not run, all passes of later readers."""
        gain = self.ended.gain
        return float(self.ended.read.passed) if gain is None else gain


def rank_telling_changes(history: LibraryHistory, lineage: Lineage, baseline: Baseline) -> list[TellingChange]:
    """Rank the applied changes after a failure that later trials of their family read, by gain. Empty if the library's
    lines are not traced."""
    if lineage.too_big:
        return []
    made = {history.states.index(step.after): step.entry.decision for step in history.steps if _answers_failure(step)}
    return rank_changes(lineage, ((state, each.family_id) for state, each in made.items() if each), baseline)


def _answers_failure(step: LibraryStep) -> bool:
    trial = step.entry.decision.after_trial if step.entry.decision else None
    return step.before is not step.after and trial is not None and trial.success is False


def rank_changes(
    lineage: Lineage, changes: Iterable[tuple[int, int | None]], baseline: Baseline
) -> list[TellingChange]:
    """Rank `changes`, given as (state, family). Ties: more readers, then the earlier one. Changes without a scored
    reader in a later trial of their family are left out."""
    found = [TellingChange(state, _end_in_family(lineage, state, family, baseline)) for state, family in changes]
    read = [change for change in found if change.ended.read.scored]
    return sorted(read, key=lambda change: (-change.gain, -change.ended.read.scored, change.state))


def _end_in_family(lineage: Lineage, state: int, family: int | None, baseline: Baseline) -> Ended:
    trials = list_trials_with_lines(lineage, lambda at: lineage.holding[at].get(state, frozenset()), born=state)
    return count_endings((pair for pair in trials if pair[0].family == family), baseline)
