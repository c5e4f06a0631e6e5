"""Success by category, and families passed in all, some or none of their tasks."""

from __future__ import annotations

import pytest

from benchapp.models import Experiment, Trial
from benchapp.papers.published_rows import read_published_rows
from inspector.charts.figures import categories, instances
from tests.worlds.charted import drawn, queries_of
from tests.worlds.copies import built_once
from tests.worlds.factories import (
    make_experiment,
    make_learning_run,
    make_suite,
    make_trial,
    make_unordered_episode,
)

pytestmark = pytest.mark.django_db

T, F = True, False


@built_once
def make_pair() -> Experiment:
    experiment = make_experiment(suite=make_suite(environments=2, families=2))
    make_learning_run(experiment, condition="no-skill", outcomes=(F, F, F, F, F, F, F, F, F))
    make_learning_run(experiment, outcomes=(F, F, F, T, T, F, F, F, F))
    return experiment


def fail_one(environment: str) -> None:
    """One more failure in this environment, so that the two differ."""
    trial = Trial.objects.filter(
        phase="deployment",
        success=True,
        task__family__environment__key=environment,
        episode__run__condition="selfgen-always",
    ).first()
    trial.success = False
    trial.save()


def test_it_tells_environments_apart() -> None:
    make_pair()
    fail_one("E2")
    records = drawn(categories.CATEGORIES_CHART, "metric=ESR").table.records()
    found = {(record["category"], record["group"]): record for record in records}
    first, second = found["Environment E1", "selfgen-always"], found["Environment E2", "selfgen-always"]
    assert (first["passed"], first["scored"], second["passed"], second["scored"]) == (4, 6, 3, 6)
    assert first["value"] == pytest.approx(100 * 4 / 6)
    assert found["Environment E1", "no-skill"]["value"] == 0.0


def test_it_draws_the_values_of_the_table_and_leads_to_the_trials() -> None:
    make_pair()
    drawing = drawn(categories.CATEGORIES_CHART, "metric=ESR&option=by:family")
    bars = [trace for trace in drawing.figure.data if trace.type == "bar" and trace.name == "selfgen-always"]
    own = [record["value"] for record in drawing.table.records() if record["group"] == "selfgen-always"]
    assert [bar.x[0] for bar in bars] == own
    assert len(own) == 4
    assert all("family=" in bar.customdata[0] and "metric=ESR" in bar.customdata[0] for bar in bars)


def test_it_takes_the_mean_of_replicates_and_adds_their_counts() -> None:
    experiment = make_pair()
    make_learning_run(experiment, replicate=2, outcomes=(F, F, F, T, None, None, F, F, F))
    records = drawn(categories.CATEGORIES_CHART, "metric=ESR").table.records()
    own = next(record for record in records if record["group"] == "selfgen-always")
    assert own["value"] == pytest.approx(100 * (4 / 6 + 2 / 2) / 2)
    assert (own["passed"], own["scored"], own["planned"], own["runs"]) == (6, 8, 12, 2)


def test_it_lays_the_printed_categories_over() -> None:
    drawing = drawn(categories.CATEGORIES_CHART, "published=skilllearnbench")
    printed = [row for row in read_published_rows("skilllearnbench") if row.table == "Table 3" and row.group]
    told = {(record["category"], record["group"].split(" (")[0]): record["value"] for record in drawing.table.records()}
    assert told == {(row.group, row.row): row.value for row in printed}
    assert sum(len(trace.x) for trace in drawing.figure.data if trace.name == "published") == len(printed) == 36


def test_it_lays_the_printed_seed_counts_over_where_own_groups_differ_in_them() -> None:
    suite = make_suite(environments=1, families=1)
    make_learning_run(make_experiment(suite=suite), condition="one-shot@3")
    drawing = drawn(categories.CATEGORIES_CHART, "published=skilllearnbench")
    records = drawing.table.records()
    assert "Published seed counts (Table 4): skills by Claude Sonnet 4.6 alone." in drawing.notes
    found = {record["group"]: record["value"] for record in records if "seed instance" in record["group"]}
    assert found == {
        "One-Shot, 1 seed instance (Claude Sonnet 4.6)": 56.67,
        "One-Shot, 3 seed instances (Claude Sonnet 4.6)": 23.33,
        "One-Shot, 5 seed instances (Claude Sonnet 4.6)": 27.78,
    }
    assert {record["category"] for record in records if record["group"] in found} == {"Productivity Tools"}


def test_it_says_that_tasks_have_no_category() -> None:
    make_trial(make_unordered_episode(), phase="evaluation")
    assert "has no environment for the tasks" in drawn(categories.CATEGORIES_CHART).absent
    assert "belong to no family" in drawn(instances.INSTANCES_CHART).absent


def test_it_sorts_families_by_what_they_passed() -> None:
    experiment = make_experiment(suite=make_suite(environments=1, families=1))
    kinds = {
        "a": ((T, T, T), "all"),
        "b": ((T, F, None), "some"),
        "c": ((F, F, F), "none"),
        "d": ((T, T, None), "undecided"),
        "e": ((F, None, F), "undecided"),
        "f": ((None, None, None), "undecided"),
    }
    for condition, (deployment, _) in kinds.items():
        make_learning_run(experiment, condition=condition, outcomes=(F, F, F, *deployment, F, F, F))
    drawing = drawn(instances.INSTANCES_CHART, "metric=ESR")
    found = {
        record["group"]: next(kind for kind in instances.KINDS if record[kind]) for record in drawing.table.records()
    }
    assert found == {condition: kind for condition, (_, kind) in kinds.items()}
    drawn_kinds = {trace.name: sum(trace.x) for trace in drawing.figure.data if trace.type == "bar"}
    assert drawn_kinds == {"all": 1, "some": 1, "none": 1, "undecided": 3}


def test_it_needs_a_metric_that_counts_passes() -> None:
    make_pair()
    assert "counts passed tasks" in drawn(instances.INSTANCES_CHART, "metric=turns").absent


@pytest.mark.parametrize("chart", [categories.CATEGORIES_CHART, instances.INSTANCES_CHART], ids=lambda chart: chart.key)
def test_it_asks_no_more_for_more_runs(chart: object) -> None:
    experiment = make_pair()
    few = queries_of(chart)
    for replicate in (2, 3):
        make_learning_run(experiment, replicate=replicate)
    assert queries_of(chart) == few
