"""Success against what it used: pairs and the frontier, by hand and by an obvious second implementation."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchapp.models import Attempt, Experiment, Run, Task, Trial
from benchapp.papers.published_rows import read_published_rows
from inspector.charts.chart import ChartDrawing
from inspector.charts.drawing.chart_pairs import PairEnd, frontier
from inspector.charts.figures.efficiency import CHART
from tests.inspector.charts.test_charts_tokens import make_call
from tests.worlds.charted import drawn, queries_of
from tests.worlds.copies import built_once
from tests.worlds.factories import make_experiment, make_learning_run, make_suite

T, F = True, False
BASE = (T, F, F, T, F, F, T, F, F)
OWN = (T, F, F, T, T, F, T, T, F)


@built_once
def make_world() -> Experiment:
    """A deployment task costs 0.20 USD under no-skill and 0.50 USD with skills."""
    experiment = make_experiment(suite=make_suite(environments=2, families=1))
    for condition, outcomes, cost in (("no-skill", BASE, 0.2), ("selfgen-always", OWN, 0.5)):
        spend(make_learning_run(experiment, condition=condition, outcomes=outcomes), cost)
    return experiment


def spend(run: Run, cost: float | None) -> None:
    Trial.objects.filter(episode__run=run).update(cost_usd=99)
    Trial.objects.filter(episode__run=run, phase="deployment").update(cost_usd=cost)


def marks(drawing: ChartDrawing) -> dict[str, Any]:
    assert drawing.figure is not None
    return {trace.name: trace for trace in drawing.figure.data if "markers" in trace.mode}


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(0, 6)), max_size=12))
def test_it_keeps_on_the_frontier_what_nothing_beats(places: list[tuple[int, int]]) -> None:
    ends = [PairEnd(float(x), float(y), "") for x, y in places]
    found = {(end.x, end.y) for end in frontier(ends)}
    unbeaten = {(x, y) for x, y in places if not any((a <= x and b >= y) and (a, b) != (x, y) for a, b in places)}
    assert found == unbeaten


@pytest.mark.django_db
def test_it_pairs_the_baseline_with_the_condition() -> None:
    make_world()
    found = marks(drawn(CHART))
    base, own = found["shell: no-skill"], found["shell: condition"]
    assert ([*base.x], [*own.x]) == ([pytest.approx(0.2)], [pytest.approx(0.5)])
    assert ([*base.y], [*own.y]) == ([pytest.approx(100 / 3)], [pytest.approx(200 / 3)])
    assert (base.marker.symbol, own.marker.symbol) == ("circle-open", "square")
    assert "4/6" in own.hovertext[0]


@pytest.mark.django_db
def test_it_says_in_the_table_what_it_draws() -> None:
    make_world()
    drawing = drawn(CHART, "published=skillflow")
    told = {(record["cost"], record["value"]) for record in drawing.table.records()}
    traces = [trace for trace in drawing.figure.data if "markers" in trace.mode]  # type: ignore[union-attr]
    shown = {(x, y) for trace in traces for x, y in zip(trace.x, trace.y, strict=True)}
    assert shown == told
    assert len(shown) == 2 + 22


@pytest.mark.django_db
def test_it_averages_what_is_told_and_never_takes_unknown_for_nothing() -> None:
    make_world()
    run = Run.objects.get(condition="selfgen-always")
    Trial.objects.filter(episode=run.episodes.first(), phase="deployment").update(cost_usd=None)
    drawing = drawn(CHART)
    own = marks(drawing)["shell: condition"]
    assert own.x[0] == pytest.approx(0.5)
    assert "reported by 3 of 6 trials" in own.hovertext[0]
    spend(run, None)
    Run.objects.filter(pk=run.pk).update(revision=run.revision + 1)
    assert "shell: condition" not in marks(drawn(CHART))


@pytest.mark.django_db
def test_both_axes_are_over_the_same_tasks() -> None:
    """Held-out accuracy beside the cost of held-out instances: the seed instance is in neither."""
    make_world()
    Task.objects.filter(role="context-shift").update(ordinal=1)
    Trial.objects.filter(phase="deployment", task__ordinal=1).update(cost_usd=50.0)
    own = marks(drawn(CHART, "table=skilllearnbench&metric=accuracy-held-out&option=x:cost"))["shell: condition"]
    assert own.x[0] == pytest.approx(0.5)


@pytest.mark.django_db
def test_an_attempted_task_costs_what_all_phases_and_the_author_cost() -> None:
    """0.40 USD an attempt in every phase; the author adds 0.10 USD for each."""
    make_world()
    for run in Run.objects.all():
        attempts = Attempt.objects.filter(trial__episode__run=run)
        attempts.update(cost_usd=0.4)
        if run.condition != "no-skill":
            make_call(run.episodes.earliest("pk"), cost_usd=0.1 * attempts.count())
    found = marks(drawn(CHART, "option=x:cost_per_attempted"))
    assert [*found["shell: no-skill"].x] == [pytest.approx(0.4)]
    assert [*found["shell: condition"].x] == [pytest.approx(0.5)]


@pytest.mark.django_db
def test_it_says_why_an_attempted_task_has_no_cost() -> None:
    make_world()
    Attempt.objects.update(cost_usd=0.4)
    run = Run.objects.get(condition="selfgen-always")
    Attempt.objects.filter(pk=Attempt.objects.filter(trial__episode__run=run).first().pk).update(cost_usd=None)  # type: ignore[union-attr]
    drawing = drawn(CHART, "option=x:cost_per_attempted&published=skillflow")
    assert "shell: condition" not in marks(drawing)
    assert {record["source"] for record in drawing.table.records()} == {"own runs"}
    known = {record["condition"]: record["cost_per_attempted"] for record in drawing.table.records()}
    assert known["selfgen-always"] is None


@pytest.mark.django_db
def test_it_never_puts_turns_of_two_harnesses_on_one_axis() -> None:
    experiment = make_world()
    for condition, outcomes in (("no-skill", BASE), ("selfgen-always", OWN)):
        make_learning_run(experiment, condition=condition, outcomes=outcomes, harness="codex")
    drawing = drawn(CHART, "option=x:turns")
    assert {record["panel"] for record in drawing.table.records()} == {
        "selfgen-always · shell",
        "selfgen-always · codex",
    }
    figure = drawing.figure
    assert figure is not None
    assert figure.layout.xaxis2.matches is None
    assert any("Harnesses count turns differently" in note for note in drawing.notes)


@pytest.mark.django_db
def test_it_draws_the_printed_numbers_of_skillflow() -> None:
    drawing = drawn(CHART, "published=skillflow&option=x:output_tokens")
    printed = {
        (row.model, row.condition): row.value
        for row in read_published_rows("skillflow")
        if row.table == "Table 1" and row.metric == "output_tokens" and row.value is not None
    }
    records = drawing.table.records()
    assert len(records) == len(printed) == 22
    for record in records:
        assert record["output_tokens"] == pytest.approx(1000 * printed[record["model"], record["condition"]])


@pytest.mark.django_db
def test_it_says_what_is_missing() -> None:
    assert drawn(CHART).absent == "Choose runs, or lay published numbers over."
    make_learning_run(condition="selfgen-always")  # at no cost, as scripted models have it
    absent = drawn(CHART, "option=x:cost").absent
    assert "agent cost per task above zero" in absent
    assert "output tokens per task" in absent


@pytest.mark.django_db
def test_it_takes_the_first_axis_that_the_runs_tell() -> None:
    run = make_learning_run(condition="selfgen-always")
    Trial.objects.filter(episode__run=run).update(cost_usd=None, output_tokens=40)
    assert [column.key for column in drawn(CHART, "published=skillflow").table.columns][5] == "tokens"
    assert [column.key for column in drawn(CHART, "option=x:turns").table.columns][5] == "turns"
    priced = make_learning_run(condition="curated-always")
    spend(priced, 0.5)
    assert [column.key for column in drawn(CHART).table.columns][5] == "cost"


@pytest.mark.django_db
def test_it_asks_no_more_of_the_database_for_more_runs() -> None:
    experiment = make_world()
    few = queries_of(CHART)
    for replicate in (2, 3):
        make_learning_run(experiment, condition="no-skill", replicate=replicate, outcomes=BASE)
    assert queries_of(CHART) == few
