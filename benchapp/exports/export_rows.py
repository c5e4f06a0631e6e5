"""What each export holds: rows of plain values in the order of the dictionary."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from uuid import UUID

from django.db.models import QuerySet

from benchapp.exports.dictionary import TRIALS
from benchapp.models import Run, TaskGroup, Trial
from benchapp.stats.comparing.choices import Choices
from benchapp.stats.comparing.comparison import GroupComparison
from benchapp.stats.comparing.effects import difference_in_words
from benchapp.stats.comparing.groups import Group
from benchapp.stats.comparing.hypotheses import Corrected, judge_difference
from benchapp.stats.comparing.narrowing import Narrowing, trials_behind
from benchapp.stats.inference.difference import Difference
from benchapp.stats.inference.sentences import explain_no_test
from benchapp.stats.metrics.catalogue import RUN_METRICS
from benchapp.stats.metrics.metric import TrialMetric
from benchapp.stats.metrics.run_metrics import RunMetric
from skillglass import record_columns

Row = tuple[object, ...]

CHUNK = 2_000  # rows in memory at once
TRIAL_LOOKUPS: Mapping[str, str] = {column.name: record_columns.TRIALS[column.name][1] for column in TRIALS}
SETTLED = len(TRIAL_LOOKUPS) - 1
FIRST_SETTLED_COLUMN = tuple(TRIAL_LOOKUPS).index("status")  # known only for settled trials, from here on


def trial_rows(choices: Choices, narrowing: Narrowing, attributes: Sequence[str] = ()) -> Iterator[Row]:
    """Stream rows from one query. What was settled after the pin is shown as planned. `attributes` of their tasks
    follow, each in a column."""
    trials = trials_behind(choices, narrowing).order_by("pk")
    later = (None,) * (SETTLED + 1 - FIRST_SETTLED_COLUMN)
    groups = _read_groups(trials, attributes)
    nothing = (None,) * len(attributes)
    for *row, task in trials.values_list(*TRIAL_LOOKUPS.values(), "task").iterator(chunk_size=CHUNK):
        if choices.as_of and row[SETTLED] and row[SETTLED] > choices.as_of:
            row = [*row[:FIRST_SETTLED_COLUMN], *later]
        yield _plain(*row, *groups.get(task, nothing))


def _read_groups(trials: QuerySet[Trial], attributes: Sequence[str]) -> dict[int, tuple[str, ...]]:
    """Return key of a task -> its values of each attribute, for these trials' tasks: they fit into memory."""
    if not attributes:
        return {}
    found: dict[int, dict[str, list[str]]] = {}
    rows = TaskGroup.objects.filter(task__in=trials.order_by().values("task")).order_by("pk")
    for task, attribute, value in rows.values_list("task", "attribute", "value"):
        found.setdefault(task, {}).setdefault(attribute, []).append(value)
    return {task: tuple("; ".join(said.get(name, ())) for name in attributes) for task, said in found.items()}


def plain(value: object) -> object:
    """Return a value that every format can hold: None for an empty text and for non-finite numbers, ids as text."""
    if isinstance(value, str):
        return value or None
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    return str(value) if isinstance(value, UUID) else value


def aggregate_rows(comparison: GroupComparison, metrics: tuple[TrialMetric, ...]) -> Iterator[Row]:
    for group in comparison.groups.all:
        for metric in metrics:
            cell = comparison.cell(group, metric)
            low, high = cell.interval or (None, None)
            yield _plain(
                *_cell(group, comparison, metric),
                group.replicates,
                comparison.groups.is_baseline(group),
                metric.key,
                metric.unit.value,
                cell.value,
                cell.rate.passed if metric.is_share else None,
                cell.rate.scored,
                cell.rate.planned,
                low,
                high,
                cell.replicates,
                *(None,) * 2,
                comparison.judged_by if metric.is_judged else None,
            )
        yield from (_run_aggregate(comparison, group, metric) for metric in RUN_METRICS.values())


def _run_aggregate(comparison: GroupComparison, group: Group, metric: RunMetric) -> Row:
    """Build a row for a number of whole runs: no trials are counted, and no test pairs it with the baseline's."""
    whole, each = comparison.run_value(group, metric), comparison.run_values(group, metric)
    return _plain(
        *_cell(group),
        group.replicates,
        comparison.groups.is_baseline(group),
        metric.key,
        metric.unit.value,
        whole.value,
        *(None,) * 5,
        tuple(value.value for value in each),
        whole.over or None,
        whole.of,
        whole.note,
    )


def difference_rows(
    comparison: GroupComparison, metrics: tuple[TrialMetric, ...], corrected: Corrected | None = None
) -> Iterator[Row]:
    """`corrected`: the declared set of a saved comparison, whose differences are corrected together."""
    for group in comparison.groups.all:
        baseline = comparison.groups.baseline_of(group)
        for metric in metrics:
            if baseline is not None and (found := judge_difference(comparison, group, metric)) is not None:
                yield _difference(found, group, baseline, metric, comparison, corrected)


def _difference(
    found: Difference,
    group: Group,
    baseline: Group,
    metric: TrialMetric,
    comparison: GroupComparison,
    corrected: Corrected | None,
) -> Row:
    declared = corrected.find(group, baseline, metric) if corrected else None
    found = (declared and declared.difference) or found
    test, rerun = found.test, found.rerun_interval
    why = "" if test else explain_no_test(found)
    note = " ".join(filter(None, (why, comparison.judged_by if metric.is_judged else "")))
    only_own, only_other = found.discordant or (None, None)
    low, high = (found.interval.low, found.interval.high) if found.interval else (None, None)
    return _plain(
        *_cell(group, comparison, metric),
        metric.key,
        metric.unit.value,
        None if baseline.side else baseline.first.experiment.public_id,
        baseline.condition,
        baseline.agent_model,
        baseline.is_unfinished,
        found.tasks,
        found.dropped,
        found.clusters,
        *found.replicates,
        found.own,
        found.other,
        found.delta,
        metric.relate(found.own, found.other),
        found.claim.value,
        test.error if test else None,
        test.freedom if test else None,
        found.comparisons,
        low,
        high,
        rerun.low if rerun else None,
        rerun.high if rerun else None,
        found.p,
        only_own,
        only_other,
        note,
        difference_in_words(found, group, baseline, metric),
    )


def _cell(group: Group, comparison: GroupComparison | None = None, metric: TrialMetric | None = None) -> Row:
    """Build a cell. With a metric, its scorer may be scripted too. A side has its name and what its runs share."""
    judge = comparison.judge if comparison and metric and metric.is_judged else None
    run: Run = group.first
    suite = run.experiment.suite
    of_experiment = (run.experiment.public_id, run.experiment.name, suite.key if suite else None)
    named = (None, None, None) if group.side else of_experiment
    models = (group.agent_model, group.author_model, group.author_agent, group.harness)
    return (*named, group.condition, *models, group.scripted or bool(judge and judge.is_scripted), group.is_unfinished)


def _plain(*values: object) -> Row:
    return tuple(map(plain, values))
