"""What a chart draws from: a comparison, the chosen metrics, and the published numbers laid over;
and what it waits for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from urllib.parse import urlencode

import numpy as np
from django.urls import reverse

from benchapp.papers.published_rows import PrintedNumber
from benchapp.stats.comparing.answer import arrange
from benchapp.stats.comparing.author_budgets import budget_of
from benchapp.stats.comparing.choices import NO_SKILL
from benchapp.stats.comparing.comparison import GroupComparison
from benchapp.stats.comparing.group_passes import has_samples
from benchapp.stats.comparing.groups import Group
from benchapp.stats.metrics.metric import TrialMetric
from benchapp.stats.metrics.splits import PLACES, Split
from runner.protocols.conditions import conditions_without_library

RAW = "raw-trajectory"
WITHOUT_LIBRARY = conditions_without_library()


@dataclass(frozen=True, slots=True)
class ChartSheet:
    """`table`: the set of metrics shown, by its key; `metrics`: those of it that the runs have; `metric`: the one
    that charts with one metric show.

    `options`: the chart's own further choices, by name, always one of the values the chart lists. `problems`: one
    sentence per part of the address that was not understood.
    """

    comparison: GroupComparison
    table: str
    metrics: tuple[TrialMetric, ...]
    metric: TrialMetric | None
    printed: tuple[PrintedNumber, ...] = ()
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
        """The list of trials behind a mark: of a group or of a condition in all groups, a metric, and any of
        environment, family, group, task, role, phase (keys) and outcome (passed, failed, unscored)."""
        changes: dict[str, object] = {**group.narrowing} if group else {}
        if condition is not None:
            side = next(
                (each for each in self.comparison.groups.all if each.side and each.condition == condition), None
            )
            changes |= side.narrowing | {"agent_model": ()} if side else {"condition": (condition,)}
        changes |= {"metric": metric.key if metric else "", "published": (), "q": ""}
        pairs = self.comparison.choices.but(**changes).pairs()
        return f"{self.trials_at}?{urlencode([*pairs, *narrower.items()])}"


# --- what charts wait for, as far as it shows without drawing them: a page names it in place of an empty chart ---


def lacks_rivals(sheet: ChartSheet) -> str:
    return "" if len(sheet.groups) != 1 else "Needs a second group to compare with."


def lacks_raw_traces(sheet: ChartSheet) -> str:
    conditions = {group.condition for group in sheet.comparison.groups.all}
    if RAW not in conditions:
        return "Needs a run that shows raw traces, with the same models."
    return "" if conditions - {RAW, NO_SKILL} else "Needs a run with skills and a run with raw traces."


def lacks_samples(sheet: ChartSheet) -> str:
    return "" if has_samples(sheet.comparison) else "Needs two samples per task: try each task twice or more."


def lacks_libraries(sheet: ChartSheet) -> str:
    known = any(group.condition not in WITHOUT_LIBRARY for group in sheet.comparison.groups.all)
    return "" if known else "Needs a run that writes a library."


def lacks_authors(sheet: ChartSheet) -> str:
    written = {(group.condition, group.agent_model, group.first.author) for group in sheet.groups if group.first.author}
    several = len({place[:2] for place in written}) < len(written)
    return "" if several else "Needs a method whose skills several models wrote."


def lacks_settings(sheet: ChartSheet) -> str:
    return "" if sheet.comparison.setups.settings else "Needs runs of a corpus task by task, and for the whole corpus."


def lacks_tokens(sheet: ChartSheet) -> str:
    is_lacking = any(bool((~np.isnan(each.output_tokens)).any()) for each in sheet.comparison.outcomes.values())
    return "" if is_lacking else "Needs trials that report their tokens."


def lacks_budgets(sheet: ChartSheet) -> str:
    known = any(budget_of(group.condition) for group in sheet.comparison.groups.all)
    return "" if known else "Needs authors with their own token budget."
