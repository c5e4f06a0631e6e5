"""What charts wait for, as far as it shows without drawing them: a page names it in place of an empty chart."""

from __future__ import annotations

import numpy as np

from benchapp.stats.comparing.author_budgets import budget_of
from benchapp.stats.comparing.choices import NO_SKILL
from benchapp.stats.comparing.group_passes import has_samples
from inspector.charts.sheet import ChartSheet
from runner.protocols.conditions import conditions_without_library

RAW = "raw-trajectory"
WITHOUT_LIBRARY = conditions_without_library()


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
    told = any(bool((~np.isnan(each.output_tokens)).any()) for each in sheet.comparison.outcomes.values())
    return "" if told else "Needs trials that report their tokens."


def lacks_budgets(sheet: ChartSheet) -> str:
    known = any(budget_of(group.condition) for group in sheet.comparison.groups.all)
    return "" if known else "Needs authors with their own token budget."
