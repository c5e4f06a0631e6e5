"""The inputs of a whole run's numbers, gathered for many runs at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from benchapp.models import Run
from benchapp.stats.learning.library_sizes import Churn, LibrarySize, read_library_numbers
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
    """Return run pk -> facts; `outcomes`: run pk -> trials. Seven queries at most for any number of runs."""
    libraries, spent = read_library_numbers(runs, as_of), spending_of(runs, as_of)
    return {
        run.pk: RunFacts(
            outcomes[run.pk],
            tuple(library for library in libraries[run.pk].sizes if not library.tainted),
            libraries[run.pk].churn,
            spent[run.pk],
        )
        for run in runs
    }
