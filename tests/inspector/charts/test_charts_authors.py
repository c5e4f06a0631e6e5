"""Who wrote the skills: the matrix of methods and authors, and authors by their tokens, counted by hand."""

from __future__ import annotations

import pytest

from benchapp.models import Experiment, Run, Trial
from benchapp.papers.published_rows import read_published_rows
from benchapp.stats.comparing.choices import Choices
from inspector.charts.chart import Chart
from inspector.charts.chart_request import build_sheet
from inspector.charts.figures.authors import MATRIX_CHART, NOBODY, SCALE_CHART
from tests.inspector.charts.test_charts_honest import HOSTILE, texts_of
from tests.inspector.charts.test_charts_tokens import make_call
from tests.worlds.charted import coded_cells, drawn, queries_of
from tests.worlds.factories import make_experiment, make_learning_run, make_suite

pytestmark = pytest.mark.django_db

T, F = True, False
DEPLOYED = {"small": (F, F, T), "large": (T, F, T)}  # of each of two families


def make_world(*, suffix: str = "") -> Experiment:
    """Two methods by two authors, and no skill: a third or two thirds of six tasks; no-skill solves none."""
    experiment = make_experiment(suite=make_suite(environments=1, families=2))
    make_learning_run(experiment, condition="no-skill", author_model="", outcomes=(F,) * 9)
    for author, passed in DEPLOYED.items():
        for condition in ("selfgen-always", "selfgen-revision"):
            run = make_learning_run(
                experiment, condition=condition, author_model=f"{author}{suffix}", outcomes=(F, F, F, *passed, F, F, F)
            )
            make_call(
                run.episodes.earliest("pk"),
                input_tokens=900 if author == "small" else 9_000,
                output_tokens=100 if author == "small" else 1_000,
            )
    return experiment


def test_it_has_a_cell_for_each_method_and_author() -> None:
    make_world()
    found = {
        (cell["row"], cell["column"]): (cell["value"], cell["text"])
        for cell in coded_cells(drawn(MATRIX_CHART, "metric=ESR"))
    }
    assert found["selfgen-always", "small"] == (pytest.approx(100 / 3), "33.3")
    assert found["selfgen-revision", "large"] == (pytest.approx(200 / 3), "66.7")
    assert found["no-skill", NOBODY] == (0.0, "0.0")
    assert found["no-skill", "small"][1] == ""


def test_the_table_has_every_cell_with_its_counts_and_a_way_to_its_trials() -> None:
    make_world()
    drawing = drawn(MATRIX_CHART, "metric=ESR")
    told = {(row["condition"], row["author"]): row for row in drawing.table.records()}
    assert len(told) == 5
    large = told["selfgen-always", "large"]
    assert (large["passed"], large["scored"], large["planned"], large["runs"]) == (4, 6, 6, 1)
    assert all("/compare/trials/" in row.url or row.url for row in drawing.table.rows)
    assert any("selfgen-always 33.3 to 66.7" in note for note in drawing.notes)


def test_agents_and_settings_have_panels_of_their_own() -> None:
    for protocol in ("skillgenbench", "skillgenbench-agnostic"):
        experiment = make_world()
        Experiment.objects.filter(pk=experiment.pk).update(spec={"protocol": protocol})
    panels = {row["panel"].rpartition(" · ")[2] for row in drawn(MATRIX_CHART, "metric=ESR").table.records()}
    assert panels == {"skillgenbench", "skillgenbench-agnostic"}


def test_replicates_are_averaged_and_experiments_that_share_a_cell_are_counted() -> None:
    experiment = make_world()
    second = make_experiment(suite=experiment.suite)
    for author in ("small", "large"):
        make_learning_run(
            second, condition="selfgen-always", author_model=author, outcomes=(F,) * 3 + (T,) * 3 + (F,) * 3
        )
    told = {(row["condition"], row["author"]): row for row in drawn(MATRIX_CHART, "metric=ESR").table.records()}
    assert told["selfgen-always", "small"]["value"] == pytest.approx((100 / 3 + 100) / 2)
    assert told["selfgen-always", "small"]["groups"] == 2


def test_one_author_is_no_matrix() -> None:
    experiment = make_experiment()
    make_learning_run(experiment, condition="selfgen-always", author_model="small")
    assert drawn(MATRIX_CHART).absent
    assert MATRIX_CHART.lacks(build_sheet(Choices())) == "Needs a method whose skills several models wrote."
    make_learning_run(experiment, condition="selfgen-always", author_model="large")
    assert not MATRIX_CHART.lacks(build_sheet(Choices()))
    assert drawn(MATRIX_CHART).figure is not None


def test_printed_cells_are_those_of_the_papers() -> None:
    cells = coded_cells(drawn(MATRIX_CHART, "published=skillgenbench&published=skilllearnbench"))
    shown = {(cell["panel"], cell["column"], cell["value"]) for cell in cells if cell["value"] is not None}
    assert len([each for each in shown if each[0].startswith("SkillGenBench")]) == 5
    table = [
        row for row in read_published_rows("skilllearnbench") if (row.table, row.metric) == ("Table 2", "accuracy")
    ]
    written = [row for row in table if row.model and not row.model.startswith("average of ")]
    assert sorted(row.value for row in written if row.value) == sorted(
        row["value"] for row in drawn(MATRIX_CHART, "published=skilllearnbench").table.records()
    )


def test_it_sets_what_was_reached_against_what_the_author_used() -> None:
    make_world()
    drawing = drawn(SCALE_CHART, "metric=ESR")
    told = {(row["condition"], row["author"]): (row["tokens"], row["value"]) for row in drawing.table.records()}
    assert told == {
        (condition, author): (tokens, pytest.approx(value))
        for condition in ("selfgen-always", "selfgen-revision")
        for author, tokens, value in (("small", 1_000, 100 / 3), ("large", 10_000, 200 / 3))
    }
    assert drawing.figure is not None
    marks = [trace for trace in drawing.figure.data if "markers" in trace.mode]
    shown = {(x, y) for trace in marks for x, y in zip(trace.x, trace.y, strict=True)}
    assert shown == {(row["tokens"], row["value"]) for row in drawing.table.records()}
    assert {text for trace in marks for text in trace.text} == {"small", "large"}


def test_an_author_of_unknown_tokens_is_named_and_not_drawn_at_zero() -> None:
    make_world()
    run = Run.objects.get(condition="selfgen-always", author_model="large")
    make_call(run.episodes.earliest("pk"), input_tokens=5)
    drawing = drawn(SCALE_CHART, "metric=ESR")
    unknown = next(row for row in drawing.table.records() if row["tokens"] is None)
    assert (unknown["author"], unknown["note"]) == ("large", "1 of 2 calls report no tokens")
    assert any(note.startswith("1 of 4 authors report") for note in drawing.notes)


def test_it_takes_solving_tokens_of_the_trials_of_the_metric() -> None:
    make_world()
    Trial.objects.update(input_tokens=10, output_tokens=1)
    Trial.objects.filter(phase="deployment").update(input_tokens=2_000, output_tokens=100)
    drawing = drawn(SCALE_CHART, "metric=ESR&option=x:solving&published=skilllearnbench")
    own = [row for row in drawing.table.records() if row["source"] == "own runs"]
    assert {row["tokens"] for row in own} == {2_100.0}
    printed = [row for row in drawing.table.records() if row["source"] != "own runs"]
    assert len(printed) == 24
    assert all(row["tokens"] > 100_000 for row in printed)


@pytest.mark.parametrize("chart", [MATRIX_CHART, SCALE_CHART], ids=lambda chart: chart.key)
def test_hostile_names_are_text_and_queries_do_not_grow(chart: Chart) -> None:
    make_world(suffix=HOSTILE)
    few = queries_of(chart, "metric=ESR")
    texts = texts_of(drawn(chart, "metric=ESR").figure.to_plotly_json())  # type: ignore[union-attr]
    assert not [text for text in texts if "<a" in text]
    assert any("&lt;a" in text for text in texts)
    for author in "abc":
        make_learning_run(Experiment.objects.get(), condition="selfgen-always", author_model=author)
    assert queries_of(chart, "metric=ESR") <= few
