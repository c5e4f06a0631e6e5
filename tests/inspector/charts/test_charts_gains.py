"""Gains by environment and family against known answers."""

from __future__ import annotations

import pytest

from benchapp.models import Experiment, Trial
from inspector.charts.figures.gains import GAINS_CHART as CHART
from tests.worlds.charted import drawn, heat_cells, key_of, queries_of
from tests.worlds.copies import built_once
from tests.worlds.factories import make_experiment, make_learning_run, make_suite

pytestmark = pytest.mark.django_db

T, F = True, False
BASE = (T, F, F, T, F, F, T, F, F)
OWN = (T, F, F, T, T, F, T, T, F)


@built_once
def make_world() -> Experiment:
    """ESR 1/3 against 2/3 in every family, but for E1-F1, where own passes all three."""
    experiment = make_experiment(suite=make_suite(environments=2, families=2))
    make_learning_run(experiment, condition="no-skill", outcomes=BASE)
    run = make_learning_run(experiment, condition="selfgen-always", outcomes=OWN)
    Trial.objects.filter(episode__run=run, phase="deployment", task__family__key="E1-F1").update(success=True)
    return experiment


def unscore(condition: str, family: str, role: str = "") -> None:
    trials = Trial.objects.filter(episode__run__condition=condition, phase="deployment", task__family__key=family)
    trials.filter(**({"task__role": role} if role else {})).update(success=None)


def test_it_draws_the_gain_of_every_family() -> None:
    make_world()
    cells = {key_of(cell["row"]): cell for cell in heat_cells(drawn(CHART, "option=by:family"))}
    assert {row: cell["text"] for row, cell in cells.items()} == {
        "E1-F1": "+66.7",
        "E1-F2": "+33.3",
        "E2-F1": "+33.3",
        "E2-F2": "+33.3",
    }
    assert "3/3 against 1/3 on the same 3 tasks" in cells["E1-F1"]["hover"]
    assert "family=E1-F1" in cells["E1-F1"]["url"]
    assert cells["E1-F1"]["row"] == "Family E1-F1 (E1-F1)"


def test_it_averages_the_families_of_an_environment_without_weighing_them_by_tasks() -> None:
    make_world()
    for role in ("context-shift", "adversarial"):
        unscore("selfgen-always", "E1-F1", role)
    scored = Trial.objects.filter(
        episode__run__condition="selfgen-always", phase="deployment", task__family__key="E1-F1", success__isnull=False
    )
    assert scored.count() == 1  # composition: passed, and failed under no-skill
    cells = {key_of(cell["column"]): cell for cell in heat_cells(drawn(CHART))}
    assert cells["E1"]["value"] == pytest.approx((100 + 100 / 3) / 2)
    assert "mean over 2 families" in cells["E1"]["hover"]
    assert "on the same 4 tasks" in cells["E1"]["hover"]
    assert cells["E2"]["text"] == "+33.3"


def test_it_does_not_take_a_missing_family_for_no_gain() -> None:
    make_world()
    unscore("no-skill", "E2-F1")
    families = {key_of(cell["row"]) for cell in heat_cells(drawn(CHART, "option=by:family"))}
    assert families == {"E1-F1", "E1-F2", "E2-F2"}
    cells = {key_of(cell["column"]): cell for cell in heat_cells(drawn(CHART))}
    assert cells["E2"]["text"] == "+33.3"
    assert "mean over" not in cells["E2"]["hover"]


@pytest.mark.parametrize("by", ["environment", "family"])
def test_it_says_in_the_table_what_it_draws(by: str) -> None:
    make_world()
    drawing = drawn(CHART, f"option=by:{by}")
    told = {record["place"].split()[0]: record["difference"] for record in drawing.table.records()}
    drawn_cells = {key_of(cell["row" if by == "family" else "column"]): cell["value"] for cell in heat_cells(drawing)}
    assert drawn_cells == told
    assert {row.url for row in drawing.table.rows} == {cell["url"] for cell in heat_cells(drawing)}


def test_it_says_when_nothing_can_be_held_against_the_baseline() -> None:
    assert drawn(CHART).absent.startswith("No run is chosen.")
    make_learning_run(condition="selfgen-always")
    assert drawn(CHART).absent == "No group shares a scored task of ESR in a family with its baseline, no-skill."


def test_it_asks_no_more_of_the_database_for_more_runs() -> None:
    experiment = make_world()
    few = queries_of(CHART)
    for replicate in (2, 3):
        make_learning_run(experiment, condition="no-skill", replicate=replicate, outcomes=BASE)
    assert queries_of(CHART) == few
