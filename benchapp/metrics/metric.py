"""What a metric over trials is: the mean of one column over the trials it covers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from benchapp.inference.sides import TaskMeans
from benchapp.metrics.outcomes import Mask, Outcomes
from benchapp.metrics.rates import Rate
from runner.types import Phase, Role


class Unit(StrEnum):
    SHARE = "share"  # 0..1, shown in percent
    TURNS = "turns"
    TOKENS = "tokens"
    USD = "USD"
    SECONDS = "seconds"
    SKILLS = "skills"
    COUNT = "count"


class Better(StrEnum):
    HIGHER = "higher"
    LOWER = "lower"
    NEITHER = ""


@dataclass(frozen=True, slots=True)
class Metric:
    """`column` of `Outcomes` averaged over the trials of `phases` (none: every phase) and of `role` (None: every role).

    `meaning` is the definition in one line, `source` says where it comes from (paper section or released code).
    """

    key: str
    name: str
    meaning: str
    phases: tuple[Phase, ...] = ()
    role: Role | None = None
    column: str = "success"
    unit: Unit = Unit.SHARE
    better: Better = Better.HIGHER
    source: str = ""
    past_first: bool = False  # leaves out the first task of every episode, which no experience can help

    @property
    def is_share(self) -> bool:
        return self.unit is Unit.SHARE

    @property
    def phase(self) -> Phase | None:
        """The only phase it covers; None where it covers several."""
        return self.phases[0] if len(self.phases) == 1 else None

    def covers(self, phase: str, role: str) -> bool:
        return (not self.phases or phase in self.phases) and self.role in (None, role)

    def mask(self, outcomes: Outcomes, phases: tuple[Phase, ...] | None = None) -> Mask:
        """The trials it is about, tainted episodes left out; `phases` stand in for its own."""
        mask = outcomes.covering(self.phases if phases is None else phases, self.role) & ~outcomes.tainted
        return mask & (outcomes.position > 0) if self.past_first else mask

    def covered(self, outcomes: Outcomes, phases: tuple[Phase, ...] | None = None) -> Outcomes:
        return outcomes.where(self.mask(outcomes, phases))

    def rate(self, outcomes: Outcomes) -> Rate:
        """k of n for a share: a trial counts as passed where the column is 1."""
        values = outcomes.column(self.column)[self.mask(outcomes)]
        return Rate(int((values >= 1).sum()), int((~np.isnan(values)).sum()), len(values))

    def mean(self, outcomes: Outcomes) -> float | None:
        """Over the trials that have a value; None where none has."""
        values = outcomes.column(self.column)[self.mask(outcomes)]
        known = values[~np.isnan(values)]
        return float(known.mean()) if len(known) else None

    def task_means(self, outcomes: Outcomes, phases: tuple[Phase, ...] | None = None) -> TaskMeans:
        """Per task the mean over its samples that have a value; tasks without one are left out."""
        values = outcomes.column(self.column)
        known = np.flatnonzero(self.mask(outcomes, phases) & ~np.isnan(values))
        tasks, first, place = np.unique(outcomes.task[known], return_index=True, return_inverse=True)
        means = np.bincount(place, weights=values[known]) / np.bincount(place) if len(tasks) else np.empty(0)
        return TaskMeans(tasks, outcomes.cluster[known][first], outcomes.family[known][first], means)
