"""docs/reference/metrics.md names every metric, and nothing that is none."""

from __future__ import annotations

import re
from pathlib import Path

from benchapp.stats.metrics.catalogue import METRICS, RUN_METRICS, RUN_TABLES, TABLES

DOCUMENT = Path(__file__).parents[3] / "docs" / "reference" / "metrics.md"


def test_the_document_lists_every_metric_and_no_other() -> None:
    rows = [line.split("|")[1] for line in DOCUMENT.read_text().splitlines() if line.startswith("| `")]
    named = [key for cell in rows for key in re.findall(r"`([^`]+)`", cell)]
    assert sorted(named) == sorted([*METRICS, *RUN_METRICS])


def test_every_table_has_numbers_over_trials_and_of_runs() -> None:
    assert set(TABLES) == set(RUN_TABLES)
    assert not set(METRICS) & set(RUN_METRICS)


def test_every_number_of_a_run_says_what_it_is() -> None:
    for metric in RUN_METRICS.values():
        assert metric.meaning, metric.key
        assert metric.source, metric.key
