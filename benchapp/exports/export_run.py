"""One export: its choices and format, and rows of plain values in the order of the dictionary.

An address is parsed into a request. An invalid part stops it: with less narrowing it would give out more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from math import isfinite
from typing import BinaryIO
from uuid import UUID

from django.conf import settings
from django.db.models import QuerySet
from django.http import QueryDict
from django.utils import timezone

from benchapp.exports.dictionary import EXPORTS, ROWS_ARE, Column, group_column
from benchapp.exports.formats import csv_pieces, json_pieces, write_parquet
from benchapp.models import Run, TaskGroup, Trial
from benchapp.stats.comparing.choices import Choices, parse_choices
from benchapp.stats.comparing.comparison import GroupComparison, comparison_of
from benchapp.stats.comparing.effects import difference_in_words
from benchapp.stats.comparing.groups import Group
from benchapp.stats.comparing.hypotheses import Corrected, judge_difference
from benchapp.stats.comparing.narrowing import NAMES, Narrowing, parse_narrowing, trials_behind
from benchapp.stats.inference.difference import Difference
from benchapp.stats.inference.sentences import explain_no_test
from benchapp.stats.metrics.catalogue import METRICS, RUN_METRICS, TABLES, table_for
from benchapp.stats.metrics.metric import TrialMetric
from benchapp.stats.metrics.run_metrics import RunMetric
from skillglass.record_columns import TRIALS

Row = tuple[object, ...]

CHUNK = 2_000  # rows in memory at once
TRIAL_LOOKUPS: Mapping[str, str] = {column.name: column.lookup for column in TRIALS}
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
    return {task: tuple("; ".join(values.get(name, ())) for name in attributes) for task, values in found.items()}


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


FORMATS: Mapping[str, str] = {
    "csv": "text/csv; charset=utf-8",
    "json": "application/json",
    "parquet": "application/vnd.apache.parquet",
}


@dataclass(frozen=True)
class Export:
    """`narrowing` applies to trials only. `declared`: the metrics to be corrected together, for the differences of a
    saved comparison, and `by`: the method."""

    what: str
    choices: Choices
    narrowing: Narrowing = Narrowing()
    declared: tuple[TrialMetric, ...] = ()
    by: str = ""

    @property
    def fields(self) -> tuple[Column, ...]:
        return (*EXPORTS[self.what], *map(group_column, self.attributes))

    @cached_property
    def attributes(self) -> list[str]:
        """Return the attributes of the tasks of these trials, each for one column."""
        if self.what != "trials":
            return []
        tasks = trials_behind(self.choices, self.narrowing).values("task")
        # By name, as a reader of archives lists them.
        return sorted(TaskGroup.objects.filter(task__in=tasks).order_by().list_attributes())

    @cached_property
    def comparison(self) -> GroupComparison:
        return comparison_of(self.choices)

    def rows(self) -> Iterator[Row]:
        if self.what == "trials":
            return trial_rows(self.choices, self.narrowing, self.attributes)
        metrics = metrics_of(self.comparison)
        if self.what == "aggregates":
            return aggregate_rows(self.comparison, metrics)
        corrected = Corrected.of(self.comparison, self.declared) if self.declared else None
        further = tuple(metric for metric in self.declared if metric not in metrics)
        return difference_rows(self.comparison, metrics + further, corrected)

    def about(self) -> dict[str, object]:
        """Return what a reader of the file has to know: the choices it was made with, their date, and the version."""
        about: dict[str, object] = {
            "export": self.what,
            "rows_are": ROWS_ARE[self.what],
            "skillglass": settings.VERSION,
            "query": self.choices.query(),
            "as_of": self.choices.as_of or timezone.now(),
        }
        if self.what == "trials":
            return {**about, "narrowing": dict(self.narrowing.pairs())}
        shown = {"fingerprint": self.comparison.fingerprint, "scripted": self.comparison.scripted}
        setups = self.comparison.setups
        stand = {"setups_differ_in": setups.differs, "setups_unknown": setups.unknown}
        declared = {"declared_together": [metric.key for metric in self.declared]} if self.declared else {}
        return {**about, **shown, **stand, "runs_not_shown": self.comparison.truncated, **declared}

    def pieces(self, form: str) -> Iterator[bytes]:
        """Yield CSV or JSON while reading the record: a few hundred rows in memory at once."""
        if form == "csv":
            return csv_pieces(self.fields, self.rows())
        return json_pieces(self.fields, self.rows(), self.about())

    def write(self, target: BinaryIO, form: str) -> None:
        if form == "parquet":
            write_parquet(target, self.fields, self.rows(), self.about())
        else:
            target.writelines(self.pieces(form))


def metrics_of(comparison: GroupComparison) -> tuple[TrialMetric, ...]:
    """Return the metrics of the chosen table, or of the one that fits the runs, that the runs have trials for."""
    chosen = comparison.choices.table
    table = chosen if chosen in TABLES else table_for(comparison.outcomes.values())
    return tuple(metric for metric in TABLES[table] if comparison.has(metric))


CHOICES = frozenset(field.name for field in fields(Choices))


def parse_trials_request(query: QueryDict, *, besides: Iterable[str] = ()) -> tuple[Choices, Narrowing, list[str]]:
    """Parse the trials that `/compare/trials/` shows: `metric=` means the same as `covered=` there."""
    choices, narrowing, problems = _parse_request(query, {*NAMES, *besides})
    if choices.metric and narrowing.covered is None and choices.metric in METRICS:
        narrowing = replace(narrowing, covered=choices.metric)
    numbers = choices.but(metric="", table="", published=(), option=(), seen="")
    return numbers, narrowing, problems


def parse_export_request(what: str, query: QueryDict) -> tuple[Export, list[str]]:
    """Parse an export. `metric=` is for a page's charts and does not narrow an export; `covered=` narrows trials."""
    choices, narrowing, problems = _parse_request(query, set(NAMES))
    if what != "trials":
        problems += [f"{name}: narrows trials alone, not {what}" for name, _ in narrowing.pairs()]
    return Export(what, choices, narrowing), problems


def _parse_request(query: QueryDict, further: set[str]) -> tuple[Choices, Narrowing, list[str]]:
    choices, problems = parse_choices(query)
    narrowing, wrong = parse_narrowing(query)
    unknown = [name for name in query if name not in CHOICES | further]
    problems = [problem.replace(" ignored, expected", " is unknown, expected") for problem in problems] + wrong
    problems += [f"{name[:80]}: no such choice" for name in unknown]
    if choices.metric and choices.metric not in METRICS:
        problems.append(f"metric: {choices.metric[:80]!r} is unknown, expected one of {', '.join(METRICS)}")
    if choices.table and choices.table not in TABLES:
        problems.append(f"table: {choices.table[:80]!r} is unknown, expected one of {', '.join(TABLES)}")
    return choices, narrowing, problems
