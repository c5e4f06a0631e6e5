"""Rows of tables as drawings as wide as their cell.

The answer of a comparison is a table that is its chart: a row per group, its interval on one axis, other metrics as
columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, floor, log10

from django.utils.html import escape
from django.utils.safestring import SafeString

from benchapp.analysis.failures.run_endings import read_endings
from benchapp.record.visible import visible
from benchapp.stats.comparing.answer import Answer, JudgedGroup, can_have_verdict, judge_groups
from benchapp.stats.comparing.comparison import MetricCell
from benchapp.stats.comparing.condition_names import SEPARATOR, name_condition
from benchapp.stats.comparing.groups import Group
from benchapp.stats.inference.shares import half_up
from benchapp.stats.metrics.amounts import render_metric, render_relative, render_signed
from benchapp.stats.metrics.catalogue import RUN_TABLES, name_metric
from benchapp.stats.metrics.metric import TrialMetric
from benchapp.stats.metrics.run_metrics import RunMetric
from inspector.charts.drawing.arms import arms_of
from inspector.charts.drawing.forest_rows import list_published_rows
from inspector.charts.sheet import ChartSheet

TICKS = 5  # about this many on an axis
ROOM_OF_WORD = 0.2  # of the axis, between the middles of the baseline's word and of a number
ROOM = 0.06  # of the axis, free on either side
FEW = 10  # scored trials: below it k of n, since a percentage would pretend to know more
BAR_HEIGHT = 26  # px


class PointAxis:
    """From `low` to `high` in the unit of the difference: points for shares. Wide enough for every value, with about
    five round ticks: 1, 2 or 5 times a power of ten apart."""

    def __init__(self, values: Sequence[float]) -> None:
        low, high = min(values), max(values)
        about, step = (high - low) / TICKS, 1.0
        if about > 0:
            power = 10.0 ** floor(log10(about))
            step = next(power * part for part in (1, 2, 5, 10) if power * part >= about * 0.999)
        room = ROOM * (high - low) or 1.0
        self.low, self.high = low - room, high + room
        self.ticks = [step * place for place in range(ceil(self.low / step), floor(self.high / step) + 1)]

    def share(self, value: float) -> float:
        """Return a value's place in percent of the width."""
        return round(100 * (value - self.low) / (self.high - self.low), 2)

    def place(self, value: float) -> str:
        """Return it as text for an attribute of an SVG."""
        return f"{self.share(value):.2f}%"


def _say_missing(group: Group) -> str:
    return "not yet" if group.is_unfinished else "unknown"


def draw_share(condition: str, share: float, ends: tuple[float, float] | None, label: str) -> SafeString:
    """Draw a share as a bar on a scale of 0 to 1; `ends` of its interval as a thin line over the bar."""
    parts = [f'<line class="grid-line" x1="{at}%" x2="{at}%" y1="0" y2="{BAR_HEIGHT}"/>' for at in (0, 25, 50, 75, 100)]
    parts.append(draw_bar(0, 100 * share, f"c-{name_condition(condition).colour or 'ink'}"))
    if ends:
        line = f'x1="{100 * ends[0]:.2f}%" x2="{100 * ends[1]:.2f}%" y1="{BAR_HEIGHT / 2:g}" y2="{BAR_HEIGHT / 2:g}"'
        parts += [f'<line class="halo" {line}/>', f'<line class="whisker" {line}/>']
    return draw_lane(parts, label)


def draw_bar(start: float, end: float, kind: str) -> str:
    """Draw a bar from `start` to `end`, in percent of the width."""
    width = max(0.0, end - start)
    return f'<rect class="bar {kind}" x="{start:.2f}%" width="{width:.2f}%" y="6" height="{BAR_HEIGHT - 12}"/>'


def draw_lane(parts: Sequence[str], label: str, height: int = BAR_HEIGHT, role: str = "img") -> SafeString:
    """Return the drawing of one row; `label` is for readers who cannot see it."""
    size = f'width="100%" height="{height}" role="{role}" aria-label="{escape(label)}"'
    return SafeString(f'<svg class="lane" {size}>{"".join(parts)}</svg>')


class ForestBuilder:
    """Builds the rows of these groups, in this order.
    The axis is that of all groups, so that every page of a list has the same."""

    def __init__(self, sheet: ChartSheet, answer: Answer, groups: Sequence[Group]) -> None:
        self.sheet, self.comparison, self.metric = sheet, sheet.comparison, answer.metric
        self.scale = 100 if self.metric.is_share else 1
        self.groups = groups
        self.covered = [group for group in groups if self.comparison.cell(group, self.metric).rate.planned]
        self.judged = {each.group.identity: each for each in answer.judged}
        self.printed = self._list_printed() if self.judged else {}
        self.axis = PointAxis([0.0, *self._list_ends()])
        self.are_uneven = len({group.replicates for group in self.comparison.groups.all}) > 1
        self.endings = read_endings(run for group in self.covered for run in group.runs)
        self.others = {
            metric: {each.group.identity: each for each in judge_groups(self.comparison, metric)}
            if can_have_verdict(self.comparison, metric)
            else {}
            for metric in sheet.metrics
            if metric != sheet.metric
        }
        self.of_runs = list_run_metrics(sheet)

    def build(self) -> dict[str, object]:
        """Return what `_forest.html` shows.

        `sections`: lanes under a title, the model where there are several. `ticks`: place in the width, and words.
        `heads`: the other metrics; `query` moves one into the chart. `left_out`: groups that the metric does not
        cover."""
        arms = arms_of(self.covered)
        if len(arms) > 1:
            sections = [(arm.title, [self._build_lane(group, headed=True) for group in arm.groups]) for arm in arms]
        else:
            sections = [("", [self._build_lane(group, headed=False) for group in self.covered])]
        choices = self.comparison.choices
        heads = [
            {"name": name_metric(each), "metric": each, "query": choices.query(metric=each.key)} for each in self.others
        ]
        return {
            "sections": sections,
            "ticks": list(self._write_ticks()),
            "unit": "points" if self.metric.is_share else self.metric.unit.value,
            "heads": [*heads, *({"name": name_metric(each), "metric": each} for each in self.of_runs)],
            "left_out": [group for group in self.groups if group not in self.covered],
            "papers": list(dict.fromkeys(row.paper for row in self.sheet.printed)) if self.printed else [],
            "has_dots": bool(self.judged) and any(group.replicates > 1 for group in self.covered),
        }

    def _build_lane(self, group: Group, *, headed: bool) -> dict[str, object]:
        """Return one group's row.

        `solved` and `count`: its value and k of n. `lines`: what it is beyond its condition. `cells`: its other
        metrics, as the heads of the forest name them. `drawn`: interval, mark, replicates and papers' differences as
        one SVG. `headed`: leave out of its lines what the title of its section says."""
        comparison, metric = self.comparison, self.metric
        cell, judged = comparison.cell(group, metric), self.judged.get(group.identity)
        rate = cell.rate
        shared = comparison.shared_value(group, metric)
        value = cell.value if shared is None else shared
        solved = _say_missing(group) if value is None else render_metric(value, metric.unit)
        if metric.is_share and value is not None:
            solved = f"{half_up(100 * value)} %"
        missing = f" of {rate.planned}" if rate.missing else ""
        count = f"{rate.passed}/{rate.scored}{missing}" if metric.is_share and rate.scored else ""
        if count and shared not in (None, cell.value):
            count += " of all trials"
        delta = around = ""
        if judged:
            interval = judged.difference.interval
            ends = (interval.low, interval.high) if interval else ()
            around = " to ".join(_write_change(self.scale * end, metric) for end in ends) or "no interval"
            delta = _write_change(self.scale * judged.difference.delta, metric)
        heading = (group.agent_model, group.harness, group.first.experiment.name) if headed else ()
        if self.judged:
            drawn = self._draw_lane(group, cell, judged, f"{solved}, {delta}, {around}".strip(", "))
        elif metric.is_share and cell.value is not None:  # nothing to compare with: the value as a bar
            drawn = draw_share(group.condition, cell.value, cell.spread, f"{solved} {count}")
        else:
            drawn = SafeString("")
        return {
            "group": group,
            "name": name_condition(group.condition),
            "url": self.sheet.trials_url(group, metric=metric),
            "solved": solved,
            "count": count,
            "is_baseline": comparison.groups.is_baseline(group),
            "lines": [line for line in self._describe(group) if line not in heading],
            "cells": [
                *(self.write_cell(group, each, of.get(group.identity)) for each, of in self.others.items()),
                *(self._write_run_cell(group, each) for each in self.of_runs),
            ],
            "judged": judged,
            "delta": delta,
            "around": around,
            "drawn": drawn,
        }

    def _draw_lane(self, group: Group, cell: MetricCell, judged: JudgedGroup | None, words: str) -> SafeString:
        """Draw a lane as wide as its cell: grid, printed differences, interval, mark, and below them a dot per
        replicate that links to its run."""
        axis, name = self.axis, name_condition(group.condition)
        colour, is_baseline = f"c-{name.colour or 'ink'}", self.comparison.groups.is_baseline(group)
        zero = axis.place(0)
        grid = [("grid-line", axis.place(tick)) for tick in axis.ticks] + [("zero-line", zero)]
        parts = [f'<line class="{kind}" x1="{at}" x2="{at}" y1="0" y2="36"/>' for kind, at in grid]
        dots: list[str] = []
        if judged or is_baseline:
            for delta, text in self.printed.get(group.condition, ()):
                at = axis.place(delta)
                parts.append(
                    f'<line class="printed-mark" x1="{at}" x2="{at}" y1="5" y2="24"><title>{escape(visible(text))}</title></line>'  # noqa: E501
                )
            base = judged.difference.other if judged else cell.value
            if judged and (interval := judged.difference.interval):
                low, high = axis.place(self.scale * interval.low), axis.place(self.scale * interval.high)
                parts.append(f'<line class="range {colour}" x1="{low}" x2="{high}" y1="14" y2="14"/>')
            for run, mean in zip(group.runs, cell.replicates, strict=True) if group.replicates > 1 else ():
                if mean is not None and base is not None:
                    at = axis.place(min(axis.high, max(axis.low, self.scale * (mean - base))))
                    text = escape(f"replicate {run.replicate}: {render_metric(mean, self.metric.unit)}")
                    dots.append(
                        f'<a href="{run.get_absolute_url()}" aria-label="{text}">'
                        f'<circle class="replicate {colour}" r="2.6" cx="{at}" cy="27"><title>{text}</title></circle></a>'  # noqa: E501
                    )
            at = axis.place(self.scale * judged.difference.delta if judged else 0)
            hollow = " open" if judged and not judged.effect.is_clear else ""
            mark = f'<use href="#shape-{name.shape}" class="point {colour}{hollow}" x="{at}" y="14"/>'
            parts += [*dots, mark]
        return draw_lane(parts, words, 36, "group") if dots else draw_lane(parts, words, 28)

    def _describe(self, group: Group) -> Iterator[str]:
        """Return what the label says beyond the condition, and what a reader must know before trusting the row."""
        yield from group.label.split(SEPARATOR)[1:]
        tally = self.comparison.tally(group)
        if not tally.is_over:
            cancelled = "" if group.is_unfinished else "cancelled: "
            yield f"{cancelled}{tally.done:,} of {tally.total:,} trials ended"
        if group.replicates > 1:
            if self.are_uneven:
                yield f"{group.replicates} replicates"
            if len({run.setup_digest for run in group.runs}) > 1:
                yield "of different setups"
        baseline = self.comparison.groups.baseline_of(group)
        if baseline is not None and not group.side and baseline.first.experiment_id != group.first.experiment_id:
            yield f"baseline of {baseline.first.experiment.name}"
        if alike := sum(self.endings[run.pk].equals_no_skill for run in group.runs):
            which = "" if alike == group.replicates else f" in {alike} of {group.replicates} replicates"
            yield f"equals no-skill{which}: no skill in any library"

    def write_cell(self, group: Group, metric: TrialMetric, judged: JudgedGroup | None) -> dict[str, str]:
        """Write another metric of the group: whole percent, since the difference to the baseline is next to it, and k
        of n for few trials. `mark`: of a clear effect, since colour alone would not do."""
        cell, name = self.comparison.cell(group, metric), name_metric(metric).short
        if cell.value is None:
            return {
                "name": name,
                "text": "not judged" if metric.is_judged else _say_missing(group) if cell.rate.planned else "–",
            }
        shared = self.comparison.shared_value(group, metric)
        value = cell.value if shared is None else shared
        text = str(half_up(100 * value)) if metric.is_share else render_metric(value, metric.unit)
        if metric.is_share and shared is None and not metric.macro and cell.rate.scored < FEW:
            text = f"{cell.rate.passed}/{cell.rate.scored}"
        found = {"name": name, "text": text, "url": self.sheet.trials_url(group, metric=metric)}
        baseline = self.comparison.groups.baseline_of(group)
        both = self.comparison.paired_values(group, baseline, metric) if baseline else None
        if both is None:
            return found
        part = None if metric.is_share else metric.relate(*both)
        tone = judged.effect.tone if judged and judged.words else ""
        return {
            **found,
            "change": _write_change((100 if metric.is_share else 1) * (both[0] - both[1]), metric),
            "relative": render_relative(part) if part else "",
            "says": judged.sentence if judged else "",
            "tone": tone,
            "mark": judged.effect.glyph if judged and tone else "",
        }

    def _write_run_cell(self, group: Group, metric: RunMetric) -> dict[str, str]:
        """Write a number of whole runs.
        It is not a mean over tasks and cannot be paired with the baseline's, so it is shown unpaired."""
        found = self.comparison.run_value(group, metric)
        text = _say_missing(group) if found.value is None else render_metric(found.value, metric.unit)
        return {"name": name_metric(metric).short, "text": text, "says": found.note}

    def _list_ends(self) -> Iterator[float]:
        """Yield every value that the axis must show; a paper's only where the record has its condition."""
        for each in self.judged.values():
            interval = each.difference.interval
            ends = (interval.low, interval.high) if interval else ()
            yield from (self.scale * value for value in (each.difference.delta, *ends))
        for condition in {group.condition for group in self.covered} & self.printed.keys():
            yield from (delta for delta, _ in self.printed[condition])

    def _list_printed(self) -> dict[str, list[tuple[float, str]]]:
        """Return condition -> the differences that papers print, each with its sentence."""
        found: dict[str, list[tuple[float, str]]] = {}
        for row in list_published_rows(self.sheet.printed, self.metric.key, self.comparison.groups.baseline):
            found.setdefault(row.condition, []).append((row.delta, f"{row.label}: {row.sentence}"))
        return found

    def _write_ticks(self) -> Iterator[tuple[str, str]]:
        """Return the baseline's word at 0 and the numbers that fit next to it; percent if nothing is compared."""
        if not self.judged:
            yield from ((f"{tick}%", f"{tick} %") for tick in (0, 25, 50, 75, 100) if self.metric.is_share)
            return
        groups, axis = self.comparison.groups, self.axis
        baseline = name_condition(groups.baseline).short.lower() if groups.compares_with_no_skill else "baseline"
        digits = 0 if all(float(each).is_integer() for each in axis.ticks) else 2
        for tick in axis.ticks:
            if tick == 0:
                yield axis.place(0), baseline
            elif abs(tick) >= ROOM_OF_WORD * (axis.high - axis.low):
                yield axis.place(tick), render_signed(tick, digits)


def list_run_metrics(sheet: ChartSheet) -> list[RunMetric]:
    """List the metrics of whole runs that belong to the table and that some group has.
    Those of replay have a page of their own."""
    comparison = sheet.comparison
    return [
        metric
        for metric in (RUN_TABLES[sheet.table] if sheet.table != "success" else ())
        if any(comparison.run_value(group, metric).value is not None for group in comparison.groups.all)
    ]


def _write_change(value: float, metric: TrialMetric) -> str:
    """Format a change in whole points for shares; other units keep the digits they need."""
    if metric.is_share:
        return render_signed(value, 0)
    return render_signed(value, 0 if abs(value) >= 100 else 1 if abs(value) >= 1 else 4)
