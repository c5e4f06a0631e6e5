"""All that the numbers of a whole run are computed from, gathered for many runs at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean

from benchapp.models import Run
from benchapp.stats.learning.library_sizes import Churn, LibrarySize, churn, final_libraries
from benchapp.stats.metrics.metric import RunValue
from benchapp.stats.metrics.outcomes import Outcomes
from benchapp.stats.metrics.spending import RunSpending, spending_of


@dataclass(frozen=True, slots=True)
class RunFacts:
    """One run. `libraries`: of its episodes that own one and are not tainted."""

    outcomes: Outcomes
    libraries: tuple[LibrarySize, ...]
    churn: Churn
    spending: RunSpending


def facts_of(
    runs: Sequence[Run], outcomes: Mapping[int, Outcomes], as_of: datetime | None = None
) -> dict[int, RunFacts]:
    """run pk -> facts; `outcomes`: run pk -> trials. Six queries at most, whatever the number of runs."""
    changed = churn(runs, as_of)  # first: it reads the histories, which tell the final libraries too
    libraries, spent = final_libraries(runs, as_of), spending_of(runs, as_of)
    return {
        run.pk: RunFacts(
            outcomes[run.pk],
            tuple(library for library in libraries[run.pk] if not library.tainted),
            changed[run.pk],
            spent[run.pk],
        )
        for run in runs
    }


def mean_of(values: Sequence[RunValue]) -> RunValue:
    """Of the replicates of one group: the mean of those that have a value, what they rest on added up, and why others have none."""
    known = [value for value in values if value.value is not None]
    notes = "; ".join(dict.fromkeys(value.note for value in values if value.note))
    if not known:
        return RunValue(None, note=notes or "no run")
    if len(known) < len(values):
        notes = f"{len(known)} of {len(values)} replicates tell it" + (f"; {notes}" if notes else "")
    mean = fmean(value.value for value in known if value.value is not None)
    return RunValue(mean, sum(value.over for value in known), known[0].of, notes)
