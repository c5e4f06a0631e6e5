"""Seed against held-out instances: families of instances without roles, instance 1 the seed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from benchapp.models import Family, Run
from inspector.charts.figures.instances import SEED_CHART
from tests.worlds.charted import drawn, queries_of
from tests.worlds.factories import make_episode, make_learning_run, make_run, make_suite, make_task, make_trial

pytestmark = pytest.mark.django_db

T, F = True, False


def make_families(run: Run, *families: Sequence[bool | None]) -> None:
    """Per family the success of its instances, the seed first."""
    suite = make_suite()
    for number, outcomes in enumerate(families):
        family = Family.objects.create(suite=suite, key=f"f{number}", name=f"f{number}")
        episode = make_episode(run, family=family, protocol="skilllearnbench")
        for ordinal, success in enumerate(outcomes, start=1):
            make_trial(episode, make_task(family=family, ordinal=ordinal), phase="evaluation", success=success)


def test_it_averages_families_that_were_scored_on_both_sides() -> None:
    run = make_run(condition="one-shot")
    make_families(run, (T, T, F), (F, T), (T, None), (None, F))
    (record,) = drawn(SEED_CHART).table.records()
    assert (record["seed"], record["held_out"], record["difference"]) == (50.0, 75.0, 25.0)
    assert (record["families"], record["left_out"]) == (2, 2)
    assert (record["seed_trials"], record["held_out_trials"]) == (2, 3)


def test_the_seeds_are_those_that_the_condition_names() -> None:
    make_families(make_run(condition="one-shot@2"), (T, F, T, T), (F, F, F))
    (record,) = drawn(SEED_CHART).table.records()
    assert (record["seed"], record["held_out"]) == (25.0, 50.0)
    assert (record["seed_trials"], record["held_out_trials"]) == (4, 3)


def test_it_counts_the_groups_that_hold_nothing_out() -> None:
    run = make_run(condition="one-shot")
    make_families(run, (T, F))
    make_families(make_run(run.experiment, condition="one-shot@2"), (T, F))
    drawing = drawn(SEED_CHART)
    assert [record["group"] for record in drawing.table.records()] == ["one-shot"]
    assert "Not drawn: 1 group without a family that was scored on both sides." in drawing.notes


def test_it_draws_both_sides_at_their_values() -> None:
    make_families(make_run(condition="one-shot"), (T, T, F), (F, T))
    marks = {trace.name: trace for trace in drawn(SEED_CHART).figure.data if trace.name}
    assert list(marks["seed instance"].x) == [50.0]
    assert list(marks["held-out instances"].x) == [75.0]
    assert "2 families, 3 scored trials" in marks["held-out instances"].hovertext[0]


def test_it_is_no_question_for_tasks_with_roles() -> None:
    make_learning_run(environments=1)
    drawing = drawn(SEED_CHART)
    assert drawing.figure is None
    assert "another question" in drawing.absent
    assert "not published as numbers" in drawing.absent


def test_it_asks_nothing_of_the_database_for_more_families() -> None:
    run = make_run()
    make_families(run, (T, F))
    few = queries_of(SEED_CHART)
    make_families(run, *[(T, F)] * 6)
    assert queries_of(SEED_CHART) == few
