"""Profiles: where a group stands among the others, with its raw number beside."""

from __future__ import annotations

import pytest

from benchapp.papers.published_rows import read_published_rows
from inspector.charts.figures.profiles import CHART, places_of
from tests.worlds.charted import drawn, queries_of
from tests.worlds.copies import built_once
from tests.worlds.factories import (
    make_experiment,
    make_learning_run,
    make_run,
    make_suite,
    make_trial,
    make_unordered_episode,
)

pytestmark = pytest.mark.django_db

T, F = True, False


def test_it_places_between_zero_and_the_highest() -> None:
    assert places_of([1.9, None, 2.0, 0.5, 0.0]) == [0.95, None, 1.0, 0.25, 0.0]
    assert places_of([4.0, 4.0]) == [1.0, 1.0]
    assert places_of([0.0, 0.0]) == [0.0, 0.0]


@built_once
def make_pair() -> None:
    experiment = make_experiment(suite=make_suite(environments=1, families=2))
    make_learning_run(experiment, condition="no-skill", outcomes=(F,) * 9)
    make_learning_run(experiment, outcomes=(F, F, F, T, T, F, F, F, F))


def test_it_shows_the_raw_numbers() -> None:
    make_pair()
    records = drawn(CHART, "metric=ESR").table.records()
    found = {(record["measure"], record["group"]): record for record in records}
    success = found["Deployment success", "selfgen-always"]
    assert (success["value"], success["unit"], success["place"], success["over"]) == (
        pytest.approx(200 / 3),
        "%",
        1.0,
        "4/6 trials",
    )
    # the factory's no-skill run keeps a library; the condition has none
    skills = found["skills per library", "no-skill"]
    assert (skills["value"], skills["over"]) == (None, "no library")
    assert found["skills per library", "selfgen-always"]["value"] == 2


def test_it_draws_what_the_table_says_and_no_dot_for_what_is_unknown() -> None:
    make_pair()
    drawing = drawn(CHART, "metric=ESR")
    for trace in drawing.figure.data:
        values = [record["value"] for record in drawing.table.records() if record["measure"] == trace.name]
        assert list(trace.marker.opacity) == [0 if value is None else 1 for value in values]
        assert [x for x, seen in zip(trace.x, trace.marker.opacity, strict=True) if seen] == [
            value for value in values if value is not None
        ]


def test_it_does_not_take_unknown_cost_for_none() -> None:
    make_trial(make_unordered_episode(), phase="evaluation", attempt={"cost_usd": None, "turns": None})
    measures = {record["measure"] for record in drawn(CHART).table.records()}
    assert "output tokens per trial" in measures
    assert not {"cost per trial", "turns per trial"} & measures


def test_it_lays_the_printed_profiles_over_as_printed() -> None:
    records = drawn(CHART, "published=skilllearnbench").table.records()
    told = {(record["measure"], record["group"]): record["value"] for record in records}
    printed = {row.row: row.value for row in read_published_rows("skilllearnbench") if is_average(row)}
    assert len(printed) == 6
    assert {label: told["task accuracy", label] for label in printed} == printed
    assert told["coverage", "No Skill"] is None


def is_average(row: object) -> bool:
    return row.table == "Table 2" and row.metric == "accuracy" and row.model in ("", "average of six models")


def test_it_has_nothing_to_draw_without_trials() -> None:
    make_run()
    assert "draw a profile from" in drawn(CHART).absent


def test_it_asks_no_more_for_more_runs() -> None:
    make_pair()
    few = queries_of(CHART)
    make_pair()
    assert queries_of(CHART) == few
