"""What a chart draws from: a comparison, the chosen metrics, and the published numbers laid over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from urllib.parse import urlencode

from django.urls import reverse

from benchapp.papers.published_rows import PrintedNumber
from benchapp.stats.comparing.answer import arrange
from benchapp.stats.comparing.comparison import GroupComparison
from benchapp.stats.comparing.groups import Group
from benchapp.stats.metrics.metric import TrialMetric
from benchapp.stats.metrics.splits import PLACES, Split


@dataclass(frozen=True, slots=True)
class ChartSheet:
    """`table`: the set of metrics shown, by its key; `metrics`: those of it that the runs have; `metric`: the one that charts with one metric show.

    `options`: the chart's own further choices, by name, always one of the values the chart lists. `problems`: one sentence
    per part of the address that was not understood.
    """

    comparison: GroupComparison
    table: str
    metrics: tuple[TrialMetric, ...]
    metric: TrialMetric | None
    published: tuple[PrintedNumber, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    trials_at: str = field(default_factory=partial(reverse, "compare-trials"))  # a page links there a hundred times

    @property
    def groups(self) -> tuple[Group, ...]:
        """All groups in the order of every list and chart: by condition, never by value."""
        return tuple(arrange(self.comparison.groups.all))

    @property
    def split(self) -> Split:
        """What the chart's option `by` splits trials by; by environment without one."""
        return self.comparison.split(self.options.get("by", PLACES[0]))

    def trials_url(
        self,
        group: Group | None = None,
        /,
        *,
        metric: TrialMetric | None = None,
        condition: str | None = None,
        **narrower: str,
    ) -> str:
        """The list of trials behind a mark: of a group or of a condition in all groups, a metric, and any of environment,
        family, group, task, role, phase (keys) and outcome (passed, failed, unscored)."""
        changes: dict[str, object] = {**group.narrowing} if group else {}
        if condition is not None:
            side = next(
                (each for each in self.comparison.groups.all if each.side and each.condition == condition), None
            )
            changes |= side.narrowing | {"agent_model": ()} if side else {"condition": (condition,)}
        changes |= {"metric": metric.key if metric else "", "published": (), "q": ""}
        pairs = self.comparison.choices.but(**changes).pairs()
        return f"{self.trials_at}?{urlencode([*pairs, *narrower.items()])}"
