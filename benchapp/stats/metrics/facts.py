"""All that the numbers of a whole run are computed from, gathered for many runs at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from benchapp.models import Run
from benchapp.stats.learning.library_sizes import Churn, LibrarySize, count_churn, read_final_libraries
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
    """run pk -> facts; `outcomes`: run pk -> trials. Seven queries at most, whatever the number of runs."""
    changed = count_churn(runs, as_of)  # first: it reads the histories, which tell the final libraries too
    libraries, spent = read_final_libraries(runs, as_of), spending_of(runs, as_of)
    return {
        run.pk: RunFacts(
            outcomes[run.pk],
            tuple(library for library in libraries[run.pk] if not library.tainted),
            changed[run.pk],
            spent[run.pk],
        )
        for run in runs
    }
