"""Candidates of an optimizer with their scores on validation, as its log has them."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.test import Client

from benchapp.imports.batch import import_paths
from benchapp.models import Decision, Entry, Experiment
from inspector.charts.chart import ChartDrawing
from inspector.charts.figures.validation import CHART
from tests.benchapp.imports.tools.conftest import SKILL_TOOLS
from tests.worlds.charted import drawn, queries_of
from tests.worlds.factories import make_experiment, make_learning_run, make_suite
from tools.scripted_optimizer import log_optimizer

pytestmark = pytest.mark.django_db


@pytest.fixture
def optimized(tmp_path: Path) -> Experiment:
    log_optimizer(tmp_path)
    assert list(import_paths([tmp_path]).problems) == []
    return Experiment.objects.get(name="optimizer")


def rows_of(drawing: ChartDrawing) -> list[tuple[object, ...]]:
    keys = ("decision", "parent", "gate", "score", "best")
    return [tuple(record[key] for key in keys) for record in drawing.table.records()]


def test_each_candidate_has_its_own_score_and_the_best_is_of_what_was_accepted(optimized: Experiment) -> None:
    assert rows_of(drawn(CHART)) == [
        (0, None, "given skill", 0.375, 0.375),
        (1, 0, "rejected", 0.125, 0.375),
        (2, 0, "accepted", 0.625, 0.625),
        (3, 2, "rejected", None, 0.625),  # not tried on validation
        (4, 2, "rejected", 0.5, 0.625),
        (5, 0, "accepted", 0.75, 0.75),
        (6, 5, "no change", None, 0.75),
        (7, 5, "accepted", 0.875, 0.875),
        (8, 7, "rejected", 0.875, 0.875),
    ]


def test_it_draws_the_tree_and_marks_what_was_never_scored(optimized: Experiment) -> None:
    figure = drawn(CHART).figure
    assert figure is not None
    marks = {trace.name: list(trace.x) for trace in figure.data if trace.mode == "markers"}
    assert marks == {
        "given skill": [0],
        "accepted": [2, 5, 7],
        "rejected": [1, 3, 4, 8],
        "no change": [6],
    }
    tree = figure.data[0]
    assert list(zip(tree.x[::3], tree.x[1::3], strict=True)) == [
        (0, 1),
        (0, 2),
        (2, 4),
        (0, 5),
        (5, 7),
        (7, 8),
    ]
    ends = figure.layout.yaxis
    assert ends.ticktext[0] == "not scored"
    rejected = next(trace for trace in figure.data if trace.name == "rejected")
    assert [y == ends.tickvals[0] for y in rejected.y] == [False, True, False, False]
    best = next(trace for trace in figure.data if trace.name == "best accepted so far")
    assert (best.y[0], best.y[-1], best.line.shape) == (0.375, 0.875, "hv")
    assert "0.125 on validation" in rejected.hovertext[0]
    assert "gate:" not in rejected.hovertext[0], "words of a decision, which somebody may still code unseen"
    assert rejected.customdata[0].endswith("&decision=1")


def test_a_best_score_of_zero_is_drawn(optimized: Experiment) -> None:
    for kind in ("success", "reward"):
        value = {"success": False, "reward": 0.0}[kind]
        optimized.runs.get(condition="old-skill").episodes.get().trials.update(**{kind: value})
    figure = drawn(CHART).figure
    best = next(trace for trace in figure.data if trace.name == "best accepted so far")
    assert best.y[0] == 0


def test_a_pinned_page_ends_where_the_record_did(optimized: Experiment) -> None:
    fourth = Entry.objects.get(decision=Decision.objects.get(number=4))
    pinned = drawn(CHART, f"as_of={fourth.recorded_at.isoformat().replace('+', '%2B')}")
    assert [row[0] for row in rows_of(pinned)][-1:] in ([4], [])


def test_it_says_what_it_needs_where_no_given_skill_was_tried() -> None:
    experiment = make_experiment(suite=make_suite(environments=1, families=2))
    make_learning_run(experiment)
    assert "old skill" in drawn(CHART).absent


def test_two_queries_serve_any_number_of_runs(optimized: Experiment, tmp_path: Path) -> None:
    few = queries_of(CHART)
    log_optimizer(tmp_path / "again")
    import_paths([tmp_path / "again"])
    assert queries_of(CHART) == few


def test_the_experiment_s_page_shows_it_below_the_answer(client: Client, optimized: Experiment) -> None:
    page = client.get(optimized.get_absolute_url()).content.decode()
    assert f'id="chart-{CHART.key}"' in page
    assert "js/charts.js" in page
    query = f"?experiment={optimized.public_id}"
    twin = client.get(f"/compare/charts/{CHART.key}.json{query}").json()
    assert [row["score"] for row in twin["table"]["rows"]][:3] == [0.375, 0.125, 0.625]
    table = client.get(f"/compare/charts/{CHART.key}.csv{query}").content.decode()
    assert len(table.splitlines()) == 1 + 9


def test_a_page_without_candidates_stays_as_it_was(client: Client) -> None:
    experiment = make_experiment(suite=make_suite(environments=1, families=2))
    make_learning_run(experiment)
    page = client.get(experiment.get_absolute_url()).content.decode()
    assert f'id="chart-{CHART.key}"' not in page
    assert "js/charts.js" not in page


@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("sample", "scores"),
    [
        ("gepa-optimize", [0.375, 0.125, 0.375, 0.125, 0.5]),
        ("skillopt-run-accept-reject", [0.375, 0.125, 0.625, 0.875, 0.875, 0.875, 0.875, 0.875]),
        ("skillopt-run-interrupted", [0.375, 0.125]),
    ],
)
def test_the_scores_are_those_of_the_tools_own_files(sample: str, scores: list[float]) -> None:
    import_paths([SKILL_TOOLS / sample])
    assert [row[3] for row in rows_of(drawn(CHART)) if row[3] is not None] == scores
