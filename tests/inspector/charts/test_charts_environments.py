"""Success by environment and condition: means over runs, known by hand."""

from __future__ import annotations

import pytest

from benchapp.judges.judge_passes import judge_run
from benchapp.record.slices import Budget
from inspector.charts.figures.categories import ENVIRONMENTS_CHART as CHART
from tests.worlds.charted import drawn, heat_cells, key_of, queries_of
from tests.worlds.copies import built_once
from tests.worlds.factories import (
    make_attempt,
    make_experiment,
    make_learning_run,
    make_run,
    make_suite,
    make_trial,
    make_unordered_episode,
)
from tests.worlds.judging_worlds import Judge, add_run
from tests.worlds.judging_worlds import make_world as make_judged_world

pytestmark = pytest.mark.django_db

T, F = True, False
ONE = (T, T, F, T, F, F, T, T, T)
TWO = (F, F, F, T, T, T, None, None, None)


@built_once
def make_two_runs() -> None:
    """Two models under one condition; the second was never replayed, and one task of E2 has no verdict."""
    experiment = make_experiment(suite=make_suite(environments=2, families=2))
    make_learning_run(experiment, condition="selfgen-always", agent_model="one", outcomes=ONE)
    run = make_learning_run(experiment, condition="selfgen-always", agent_model="two", outcomes=TWO)
    late = run.episodes.last().trials.filter(phase="deployment").first()
    type(late).objects.filter(pk=late.pk).update(success=None)


def test_it_averages_over_runs() -> None:
    make_two_runs()
    cells = {(cell["panel"], key_of(cell["column"])): cell for cell in heat_cells(drawn(CHART))}
    assert cells["LSR", "E1"]["value"] == pytest.approx((100 * 4 / 6 + 0) / 2)
    assert cells["LSR", "E1"]["text"] == "33"
    assert "4/12 trials" in cells["LSR", "E1"]["hover"]
    assert "2 runs of 2 agent models, 0.0 to 66.7 %" in cells["LSR", "E1"]["hover"]


def test_it_leaves_trials_without_a_verdict_out_and_says_so() -> None:
    make_two_runs()
    cells = {(cell["panel"], key_of(cell["column"])): cell for cell in heat_cells(drawn(CHART))}
    assert cells["ESR", "E2"]["value"] == pytest.approx((100 * 2 / 6 + 100) / 2)
    assert "7/11 trials, 1 without a verdict" in cells["ESR", "E2"]["hover"]
    assert cells["RSR", "E1"]["value"] == 100  # of the one run that was replayed
    assert "1 run of 2 agent models" not in cells["LSR", "E1"]["hover"]


def test_it_says_in_the_table_what_it_draws_and_leads_to_the_trials() -> None:
    make_two_runs()
    drawing = drawn(CHART)
    told = {(record["metric"], record["environment"].split()[0]): record["value"] for record in drawing.table.records()}
    cells = heat_cells(drawing)
    assert len(cells) == len(told) == 12
    for cell in cells:
        assert told[cell["panel"], key_of(cell["column"])] == pytest.approx(cell["value"])
        assert "condition=selfgen-always" in cell["url"]
        assert f"environment={key_of(cell['column'])}" in cell["url"]
    assert {row.url for row in drawing.table.rows} == {cell["url"] for cell in cells}


def test_it_names_how_far_easy_and_hard_lie_apart() -> None:
    make_two_runs()
    notes = " ".join(drawn(CHART).notes)
    assert "ESR 0.0 points" in notes  # E1: 4/12 and 12/12 of the runs' means; E2: the same
    assert "67.3 points for LSR and 42.1 points for ESR" in notes


def test_it_says_that_nothing_has_environments() -> None:
    assert drawn(CHART).absent.startswith("No run is chosen.")
    make_trial(make_unordered_episode(make_run(condition="unknown")), phase="evaluation")
    assert drawn(CHART).absent == "None of the chosen runs has a scored trial in a suite with environments."


def test_it_asks_no_more_of_the_database_for_more_runs() -> None:
    experiment = make_experiment(suite=make_suite(environments=2, families=1))
    make_learning_run(experiment, outcomes=ONE)
    few = queries_of(CHART)
    for replicate in (2, 3):
        make_learning_run(experiment, replicate=replicate, outcomes=ONE)
    assert queries_of(CHART) == few


def test_it_shows_a_metric_as_the_table_does() -> None:
    """A task of three tries with one pass is solved; a family of one weighs as much as one of two."""
    experiment = make_experiment(suite=make_suite(environments=1, families=2))
    run = make_run(experiment, condition="one-shot")
    episode = make_unordered_episode(run)
    one, two = experiment.suite.families.all()
    for task, passes in (
        (one.tasks.all()[0], (T, F, F)),
        (two.tasks.all()[0], (F, F, F)),
        (two.tasks.all()[1], (F,) * 3),
    ):
        for sample, success in enumerate(passes):
            make_attempt(make_trial(episode, task, phase="evaluation", finished=False, sample=sample), success=success)
    (cell,) = (cell for cell in heat_cells(drawn(CHART, "table=skilllearnbench")) if cell["panel"] == "accuracy")
    assert cell["value"] == pytest.approx(100 / 6)  # of 1/3 and 0, not 1/9
    solved = next(cell for cell in heat_cells(drawn(CHART, "table=skillgenbench")) if cell["panel"] == "solved")
    assert solved["value"] == pytest.approx(100 / 3)
    assert "1/3 tasks" in solved["hover"]


def test_by_family_it_averages_over_authors_and_shows_scores_of_100() -> None:
    """SkillLearnBench's tables by task: a method over all models that wrote its skills,
    with usage and what a judge said."""
    world = make_judged_world()
    other = add_run(world, author_model="another author")
    for run in (world.run, other):
        judge_run(run, Judge(), budget=Budget())
    drawing = drawn(CHART, "table=skilllearnbench&option=by:family&condition=one-shot")
    cells = {cell["panel"]: cell for cell in heat_cells(drawing)}
    told = {row["metric"]: row for row in drawing.table.records()}
    assert (cells["accuracy"]["value"], cells["usage"]["value"]) == (50.0, 50.0)  # each trial read one of two skills
    assert (cells["coverage"]["value"], cells["safety"]["value"]) == (100.0, 75.0)  # 4 of 1 to 5
    assert cells["alignment"]["value"] == pytest.approx((100 + 75 + 75) / 3)
    assert (told["accuracy"]["passed"], told["usage"]["passed"], told["coverage"]["passed"]) == (2, None, None)
    assert {told[key]["runs"] for key in ("accuracy", "usage", "coverage", "alignment")} == {2}
    assert any("litellm/test/judge" in note for note in drawing.notes)
