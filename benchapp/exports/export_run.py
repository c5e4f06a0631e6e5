"""One export: its rows, choices and format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import BinaryIO

from django.conf import settings
from django.utils import timezone

from benchapp.exports.dictionary import EXPORTS, ROWS_ARE, Column, group_column
from benchapp.exports.export_rows import Row, aggregate_rows, difference_rows, trial_rows
from benchapp.exports.formats import csv_pieces, json_pieces, write_parquet
from benchapp.models import TaskGroup
from benchapp.stats.comparing.choices import Choices
from benchapp.stats.comparing.comparison import GroupComparison, comparison_of
from benchapp.stats.comparing.hypotheses import Corrected
from benchapp.stats.comparing.narrowing import Narrowing, trials_behind
from benchapp.stats.metrics.catalogue import TABLES, table_for
from benchapp.stats.metrics.metric import TrialMetric

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
        told: dict[str, object] = {
            "export": self.what,
            "rows_are": ROWS_ARE[self.what],
            "skillglass": settings.VERSION,
            "query": self.choices.query(),
            "as_of": self.choices.as_of or timezone.now(),
        }
        if self.what == "trials":
            return {**told, "narrowing": dict(self.narrowing.pairs())}
        shown = {"fingerprint": self.comparison.fingerprint, "scripted": self.comparison.scripted}
        setups = self.comparison.setups
        stand = {"setups_differ_in": setups.differs, "setups_unknown": setups.unknown}
        declared = {"declared_together": [metric.key for metric in self.declared]} if self.declared else {}
        return {**told, **shown, **stand, "runs_not_shown": self.comparison.truncated, **declared}

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
