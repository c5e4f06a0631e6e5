"""What a row of the forest plot says: one difference to a baseline, own or printed in a paper."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from benchapp.papers.published_rows import PrintedNumber
from benchapp.stats.comparing.answer import AcrossModels, pool_conditions
from benchapp.stats.comparing.condition_names import SEPARATOR
from benchapp.stats.comparing.effects import difference_in_words
from benchapp.stats.comparing.groups import MODEL
from benchapp.stats.comparing.hypotheses import judge_difference
from benchapp.stats.inference.difference import Claim
from benchapp.stats.inference.pooling import pool_models
from benchapp.stats.metrics.metric import TrialMetric
from inspector.charts.drawing.quantities import scale_value
from inspector.charts.sheet import ChartSheet

CLAIMS = {
    Claim.ONE_RUN: "t over episodes of one run",
    Claim.RUN: "t over replicates within episodes, paired",
    Claim.RERUN: "t over replicates within episodes, widened by how much runs differ",
}


@dataclass(frozen=True, slots=True)
class ForestRow:
    """Numbers in the unit shown: percentage points for shares, else the metric's own."""

    label: str
    source: str
    against: str
    metric: str
    delta: float
    # own, other: the two values
    own: float
    other: float
    own_count: str = ""
    other_count: str = ""
    low: float | None = None
    high: float | None = None
    method: str = ""
    p: float | None = None
    tasks: int | None = None
    clusters: int | None = None
    replicates: str = ""
    sentence: str = ""
    url: str = ""
    condition: str = ""

    @property
    def is_own(self) -> bool:
        return self.source == "own"

    @property
    def name(self) -> str:
        """Its unique name: one model may be printed in two papers, and run here too."""
        return self.label if self.is_own else f"{self.label} ({self.source})"


def own_rows(sheet: ChartSheet, metric: TrialMetric) -> list[ForestRow]:
    """One per group that has a baseline and shares a scored task with it, in the order of the comparison."""
    found = []
    for group in sheet.groups:
        difference = judge_difference(sheet.comparison, group, metric)
        baseline = sheet.comparison.groups.baseline_of(group)
        if difference is None or baseline is None:
            continue
        interval = difference.interval
        own, other = difference.replicates
        row = ForestRow(
            label=group.label,
            source="own",
            against=baseline.label,
            metric=metric.key,
            delta=scale_value(metric, difference.delta),
            own=scale_value(metric, difference.own),
            other=scale_value(metric, difference.other),
            own_count=_count(difference.own, difference.tasks * own, metric),
            other_count=_count(difference.other, difference.tasks * other, metric),
            low=scale_value(metric, interval.low) if interval else None,
            high=scale_value(metric, interval.high) if interval else None,
            method=CLAIMS[difference.claim] if difference.test else "no test",
            p=difference.p,
            tasks=difference.tasks,
            clusters=difference.clusters,
            replicates=f"{own} and {other}",
            sentence=difference_in_words(difference, group, baseline, metric),
            url=sheet.trials_url(group, metric=metric),
            condition=group.condition,
        )
        found.append(row)
    return found


def tell_apart(rows: Iterable[ForestRow]) -> tuple[list[str], list[str]]:
    """A name for each row: the parts of its label that they do not all have, its condition always;
    and the parts that all of them have."""
    labels = [row.label.split(SEPARATOR) for row in rows]
    shared = set.intersection(*map(set, labels)) if len(labels) > 1 else set()
    names = [SEPARATOR.join([parts[0], *(part for part in parts[1:] if part not in shared)]) for parts in labels]
    return names, [part for part in labels[0][1:] if part in shared] if labels else []


def _count(mean: float, of: int, metric: TrialMetric) -> str:
    """ "18/30" where the mean is of passes; task means over several samples may have no such k."""
    k = mean * of
    if not metric.is_share or metric.macro:
        return ""
    return f"{k:.0f}/{of}" if abs(k - round(k)) < 1e-6 else f"{k:.1f}/{of}"


def list_published_rows(rows: Iterable[PrintedNumber], metric: str, baseline: str) -> Iterator[ForestRow]:
    """Differences recomputed from two printed values over all groups: no paper prints an interval for one.

    Against what the paper says the row's delta is against, where it names it and its condition is the baseline
    chosen; else against the same metric of the baseline. Each pair once, however many tables repeat it.
    """
    if baseline.startswith(MODEL):
        return
    whole = [row for row in rows if not row.group and row.value is not None and row.table.startswith("Table")]
    values = {(row.paper, row.table, row.harness, row.model, row.condition, row.metric): row for row in whole}
    seen = set()
    for row in whole:
        pair = (row.paper, row.harness, row.model, row.condition)
        if row.metric != metric or not row.condition or row.condition == baseline or pair in seen:
            continue
        condition, _, reference = row.reference.rpartition(" ")
        if condition != baseline:
            reference = row.metric
        other = values.get((row.paper, row.table, row.harness, row.model, baseline, reference))
        if other is not None:
            seen.add(pair)
            yield _build_printed_row(row, other)


def list_across_models(sheet: ChartSheet, metric: TrialMetric) -> list[AcrossModels]:
    """Of the runs shown, then of what the papers that are laid over print of each condition, over the agents they
    tried: no cell of theirs has an error, so these are all alike."""
    deltas: dict[tuple[str, str], list[float]] = {}
    scale = 100 if metric.is_share else 1
    for row in list_published_rows(sheet.printed, metric.key, sheet.comparison.groups.baseline):
        deltas.setdefault((row.source.partition(",")[0], row.condition), []).append(row.delta / scale)
    found = list(pool_conditions(sheet.comparison, metric))
    for (paper, condition), of_paper in deltas.items():
        if pooled := pool_models(of_paper, [0.0] * len(of_paper)):
            found.append(AcrossModels(condition, pooled, paper))
    return found


def _build_printed_row(row: PrintedNumber, other: PrintedNumber) -> ForestRow:
    assert row.value is not None
    assert other.value is not None
    delta = round(row.value - other.value, 10)
    printed_delta = f"; printed as {row.printed_delta}" if row.printed_delta else ""
    who = " · ".join(part for part in (row.condition, row.model, row.harness) if part)
    return ForestRow(
        label=who,
        source=f"{row.paper}, {row.table}",
        against=other.condition if other.metric == row.metric else f"{other.condition} {other.metric}",
        metric=row.metric,
        delta=delta,
        own=row.value,
        other=other.value,
        own_count=f"{row.k}/{row.n}" if row.k is not None else "",
        other_count=f"{other.k}/{other.n}" if other.k is not None else "",
        method="printed values, no interval published",
        sentence=f"{row.paper}, {row.table}: {row.printed} under {row.condition}, {other.printed} under "
        f"{other.condition}{printed_delta}; no interval is published.",
        condition=row.condition,
    )
