"""Skill conditions against raw-trajectory: a world whose differences are known by hand, and the printed tables."""

from __future__ import annotations

import pytest

from benchapp.models import Experiment
from benchapp.papers.published_rows import read_published_rows
from inspector.charts.figures.gains import RELATIVE_CHART as CHART
from tests.worlds.charted import coded_cells, drawn, queries_of
from tests.worlds.factories import make_experiment, make_learning_run, make_suite

pytestmark = pytest.mark.django_db

T, F = True, False
# three of acquisition, deployment and replay each, the same in all four families
BASE = (T, F, F, T, F, F, T, F, F)
RAW = (T, F, F, T, T, F, T, T, F)
OWN = (T, T, F, T, T, T, F, F, F)
NOT_REPLAYED = (F, F, F, F, F, F, None, None, None)


def make_world(**fields: object) -> Experiment:
    experiment = make_experiment(suite=make_suite(environments=2, families=2))
    for condition, outcomes in (("no-skill", BASE), ("raw-trajectory", RAW), ("selfgen-always", OWN)):
        make_learning_run(experiment, condition=condition, outcomes=outcomes, **fields)
    return experiment


def test_it_draws_the_differences_known_by_hand() -> None:
    make_world()
    cells = {cell["column"]: cell for cell in coded_cells(drawn(CHART))}
    expected = {"LSR": "+33.3", "RSR": "−66.7", "ESR": "+33.3", "CSSR": "0.0", "ARSR": "0.0", "CompSR": "+100.0"}
    assert {column: cell["text"] for column, cell in cells.items()} == expected
    assert "0/12 against 8/12 on the same 12 tasks" in cells["RSR"]["hover"]
    assert "condition=selfgen-always" in cells["RSR"]["url"]


@pytest.mark.parametrize("baseline", ["no-skill", "raw-trajectory", "selfgen-always"])
def test_it_asks_nothing_of_the_baseline_of_the_page(baseline: str) -> None:
    make_world()
    assert [cell["text"] for cell in coded_cells(drawn(CHART, f"baseline={baseline}"))][1] == "−66.7"


def test_it_says_in_the_table_what_it_draws() -> None:
    make_world()
    make_learning_run(Experiment.objects.get(), condition="curated-static", outcomes=NOT_REPLAYED)
    drawing = drawn(CHART, "published=skillevolbench")
    told = {
        (record["panel"], record["condition"], record["metric"]): record["difference"]
        for record in drawing.table.records()
    }
    for cell in coded_cells(drawing):
        assert cell["value"] == told.get((cell["panel"], cell["row"], cell["column"])), cell


def test_it_leaves_blank_what_was_not_scored_and_says_why() -> None:
    experiment = make_world()
    make_learning_run(experiment, condition="curated-static", outcomes=NOT_REPLAYED)
    cells = {(cell["row"], cell["column"]): cell for cell in coded_cells(drawn(CHART))}
    blank = cells["curated-static", "RSR"]
    assert (blank["value"], blank["text"]) == (None, "")
    assert "curated-static has no scored trial for RSR" in blank["hover"]
    assert cells["curated-static", "ESR"]["text"] == "−66.7"


def test_it_holds_published_averages_against_the_printed_averages_of_raw_trajectory() -> None:
    drawing = drawn(CHART, "published=skillevolbench")
    cells = {(cell["row"], cell["column"]): cell for cell in coded_cells(drawing)}
    assert {cell["panel"] for cell in cells.values()} == {"average of 10 models · published"}
    printed: dict[str, list[float]] = {}
    for row in read_published_rows("skillevolbench"):
        if row.table == "Table 2" and row.metric == "ESR" and row.value is not None:
            printed.setdefault(row.condition, []).append(row.value)
    for condition in ("selfgen-zero-shot", "selfgen-revision", "selfgen-always"):
        assert len(printed[condition]) == 10
        assert cells[condition, "ESR"]["value"] == pytest.approx(sum(printed[condition]) / 10 - 37.6)


def test_it_leaves_out_what_the_paper_does_not_print() -> None:
    drawing = drawn(CHART, "published=skillevolbench")
    cells = {(cell["row"], cell["column"]): cell for cell in coded_cells(drawing)}
    assert "LSR" not in {column for _, column in cells}
    assert any("there is nothing to compare: LSR, CSSR" in note for note in drawing.notes)
    whys = {record["note"] for record in drawing.table.records() if record["metric"] == "LSR"}
    assert whys == {"raw-trajectory is not printed"}
    assert cells["selfgen-zero-shot", "RSR"]["value"] is None
    assert "printed for 0 of 10 models" in cells["selfgen-zero-shot", "RSR"]["hover"]
    assert any("not published as numbers" in note for note in drawing.notes)


def test_it_gives_each_model_a_panel_of_its_own() -> None:
    experiment = make_world(agent_model="one")
    for condition in ("raw-trajectory", "selfgen-always"):
        make_learning_run(experiment, condition=condition, agent_model="<b>two</b>", outcomes=RAW)
    cells = coded_cells(drawn(CHART))
    assert {cell["panel"] for cell in cells} == {"one", "&lt;b&gt;two&lt;/b&gt;"}
    assert {cell["text"] for cell in cells if cell["panel"] != "one"} == {"0.0"}


def test_it_says_what_is_missing_where_nothing_can_be_drawn() -> None:
    assert drawn(CHART).absent.startswith("Choose runs, or lay published numbers over.")
    make_learning_run(condition="selfgen-always")
    drawing = drawn(CHART)
    assert drawing.figure is None
    assert "Choose a run of the condition raw-trajectory" in drawing.absent


def test_it_asks_no_more_of_the_database_for_more_runs() -> None:
    experiment = make_world()
    few = queries_of(CHART)
    for replicate in (2, 3):
        make_learning_run(experiment, condition="raw-trajectory", replicate=replicate, outcomes=RAW)
    assert queries_of(CHART) == few
