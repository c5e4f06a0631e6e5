"""Count trials by SQL: how many there are, how many ended, how many were scored, how many passed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from django.db.models import Count, Q, QuerySet

from benchapp.models import Run, Trial
from benchapp.record.json_shape import Shaped
from benchapp.stats.inference.shares import Rate
from benchapp.stats.learning.computed_runs import RunCache, has_ended
from benchapp.stats.metrics.outcomes import Outcomes


@dataclass(frozen=True, slots=True)
class TrialTally(Shaped):
    """How many trials are planned (`total`), have ended (`done`, the skipped ones too), are scored, and passed."""

    total: int = 0
    done: int = 0
    scored: int = 0
    passed: int = 0

    def __add__(self, other: TrialTally) -> TrialTally:
        total, done = self.total + other.total, self.done + other.done
        return TrialTally(total, done, self.scored + other.scored, self.passed + other.passed)

    @classmethod
    def of(cls, outcomes: Outcomes) -> TrialTally:
        """Count a run's trials, given as columns."""
        scored = ~np.isnan(outcomes.success)
        return cls(len(outcomes), int(outcomes.ended.sum()), int(scored.sum()), int((outcomes.success == 1).sum()))

    @property
    def unscored(self) -> int:
        """Return the trials that ended without a score."""
        return max(0, self.done - self.scored)

    @property
    def is_over(self) -> bool:
        """Has every planned trial ended?"""
        return self.done == self.total

    @property
    def rate(self) -> Rate:
        return Rate(self.passed, self.scored, self.total)


def tally_by(trials: QuerySet[Trial], *fields: str) -> dict[Any, TrialTally]:
    """Return value of the field (a lookup such as "episode__run"), or tuple of several fields' values -> tally.

    One grouped query, without a join per count.
    """
    counts = {
        "in_all": Count("pk"),
        "ended": Count("pk", filter=Q(is_done=True) | Q(status=Trial.Status.SKIPPED)),
        "with_score": Count("pk", filter=Q(success__isnull=False)),
        "passing": Count("pk", filter=Q(success=True)),
    }
    rows, width = trials.order_by().values_list(*fields).annotate(**counts), len(fields)
    return {row[0] if width == 1 else row[:width]: TrialTally(*row[width:]) for row in rows}


KEPT: RunCache[dict[str, TrialTally]] = RunCache(20_000)  # of finished runs


def tally_by_phase(runs: Iterable[Run]) -> dict[int, dict[str, TrialTally]]:
    """Return run pk -> phase -> tally, for every run. One grouped query for all that are not cached."""
    return KEPT.read_all(runs, _read_tallies, has_ended)


def _read_tallies(runs: list[Run]) -> dict[int, dict[str, TrialTally]]:
    read: defaultdict[int, dict[str, TrialTally]] = defaultdict(dict)
    trials = Trial.objects.filter(episode__run__in=[run.pk for run in runs])
    for (run, phase), tally in tally_by(trials, "episode__run", "phase").items():
        read[run][phase] = tally
    return {run.pk: read[run.pk] for run in runs}
