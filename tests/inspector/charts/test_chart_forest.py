"""The forest plot against known answers."""

from __future__ import annotations

import json
from io import BytesIO

import pytest
from django.test import Client
from django.urls import reverse

from benchapp.exports.export_run import Export
from benchapp.models import Trial
from benchapp.papers.published_rows import read_published_rows
from benchapp.stats.comparing.answer import judge_groups
from benchapp.stats.comparing.choices import Choices
from benchapp.stats.comparing.comparison import comparison_of
from benchapp.stats.metrics.catalogue import METRICS
from inspector.charts.chart_request import build_sheet
from inspector.charts.drawing.forest_rows import list_published_rows
from inspector.charts.figures.forest import CHART
from tests.worlds.charted import drawn
from tests.worlds.declaring import ONE, make_declaring
from tests.worlds.factories import make_experiment, make_learning_run, make_suite

pytestmark = pytest.mark.django_db

T, F = True, False
BASE = (T, F, F, T, F, F, T, F, F)
OWN = (T, F, F, T, T, F, T, T, F)


def make_world(environments: int) -> None:
    experiment = make_experiment(suite=make_suite(environments=environments, families=1))
    make_learning_run(experiment, condition="no-skill", author_model="", outcomes=BASE)
    make_learning_run(experiment, condition="better", outcomes=OWN)
    make_learning_run(experiment, condition="mixed", outcomes=OWN)
    trials = Trial.objects.filter(phase="deployment")
    halved = {"episode__run__condition": "mixed", "task__family__environment__ordinal__lte": environments // 2}
    trials.filter(**halved).update(success=False)
    # without any spread between episodes there would be no interval
    trials.filter(episode__run__condition="better", task__family__environment__ordinal=1).update(success=True)


def marks(query: str = "") -> dict[str, list[object]]:
    """Condition -> the estimates drawn of it; the legend's entries have no place."""
    figure = drawn(CHART, query).figure
    assert figure is not None
    return {trace.name: list(trace.x) for trace in figure.data if trace.showlegend is False}


def legend(query: str = "") -> set[str]:
    figure = drawn(CHART, query).figure
    assert figure is not None
    return {trace.name for trace in figure.data if trace.showlegend is not False}


def test_it_fills_only_what_excludes_zero() -> None:
    make_world(environments=8)
    assert legend("metric=ESR") == {"interval excludes zero", "interval includes zero"}
    better = [row for row in drawn(CHART, "metric=ESR").table.records() if row["group"].startswith("better")]
    (row,) = better
    sheet = build_sheet(Choices(metric="ESR"), CHART)
    group = next(group for group in sheet.comparison.groups.all if group.condition == "better")
    difference = sheet.comparison.family_difference(group, sheet.metric)
    assert difference is not None
    assert difference.interval is not None
    assert row["difference"] == pytest.approx(100 * difference.delta)
    assert (row["low"], row["high"]) == pytest.approx((100 * difference.interval.low, 100 * difference.interval.high))
    assert row["count"] == "17/24"
    assert row["baseline_count"] == "8/24"
    assert row["p"] == difference.p
    figure = drawn(CHART, "metric=ESR").figure
    assert figure is not None
    for trace in figure.data:
        if trace.showlegend is not False:
            continue
        for estimate, above, below in zip(trace.x, trace.error_x.array, trace.error_x.arrayminus, strict=True):
            excludes = estimate - below > 0 or estimate + above < 0
            assert (trace.marker.symbol == "circle") == excludes


def test_it_says_where_no_interval_can_be_had() -> None:
    make_world(environments=2)
    assert legend("metric=ESR") == {"no interval: too few episodes, or no spread"}
    assert marks("metric=ESR") == {"better": pytest.approx([50]), "mixed": pytest.approx([0])}
    rows = drawn(CHART, "metric=ESR").table.records()
    assert [row["low"] for row in rows] == [None, None]
    assert {row["method"] for row in rows} == {"no test"}
    assert all("2 episodes with one replicate show too little" in row["says"] for row in rows)


def test_it_draws_every_share_on_one_axis_when_asked() -> None:
    make_world(environments=2)
    drawing = drawn(CHART, "option=metrics:all")
    assert drawing.figure is not None
    panels = [title.text for title in drawing.figure.layout.annotations]
    assert panels == ["Acquisition", "Replay", "Deployment", "New context", "Traps", "Composition"][: len(panels)]
    assert len({tuple(axis.range) for axis in drawing.figure.select_xaxes()}) == 1
    assert len({row["metric"] for row in drawing.table.records()}) == len(panels)


def test_it_recomputes_published_differences_and_prints_no_interval() -> None:
    (row, *_) = [
        row
        for row in list_published_rows(read_published_rows("skillevolbench"), "RSR", "no-skill")
        if row.label.startswith("curated-always · Claude Opus 4.6 · Claude Code")
    ]
    assert row.against == "no-skill LSR"
    assert row.delta == pytest.approx(row.own - row.other)
    assert row.other == 38.9
    assert row.low is None
    labels = [row.label for row in list_published_rows(read_published_rows("skillevolbench"), "ESR", "no-skill")]
    assert len(labels) == len(set(labels)) > 50
    assert not list(list_published_rows(read_published_rows("skillevolbench"), "ESR", "model:x"))


def test_it_draws_published_numbers_without_own_runs() -> None:
    drawing = drawn(CHART, "published=skillevolbench")
    assert drawing.figure is not None
    named = drawing.figure.layout.yaxis.ticktext
    assert len(named) == 60
    assert sum(len(trace.x) for trace in drawing.figure.data if trace.showlegend is False) == 60
    assert any("table and not drawn" in note for note in drawing.notes) == (len(drawing.table.rows) > 60)


def test_it_says_why_there_is_nothing_to_draw() -> None:
    assert drawn(CHART).absent == "No run matches these choices."
    make_learning_run(make_experiment(suite=make_suite(environments=1, families=1)), condition="alone")
    assert "no run under no-skill" in drawn(CHART).absent


def test_printed_rows_stand_in_the_rows_of_own_runs_and_push_none_away() -> None:
    experiment = make_experiment(suite=make_suite(environments=2, families=1))
    make_learning_run(experiment, condition="no-skill", author_model="", outcomes=BASE)
    make_learning_run(experiment, condition="selfgen-always", outcomes=OWN)
    drawing = drawn(CHART, "option=metrics:all&published=skillevolbench")
    assert drawing.figure is not None
    named = {tuple(axis.ticktext) for axis in drawing.figure.select_yaxes()}
    assert named == {("Self, always",)}
    assert any("are in the table and not drawn" in note for note in drawing.notes)
    printed = [trace for trace in drawing.figure.data if trace.marker.symbol == "line-ns" and trace.x[0] is not None]
    assert {place for trace in printed for place in trace.y} == {-0.3}
    assert len(printed) == 6


def test_a_declared_difference_is_the_same_on_charts_exports_and_pages(client: Client) -> None:
    """One interval: the declared one, corrected for itself, and not for the two others of its family."""
    experiment = make_declaring(ONE)
    choices = Choices(experiment=(experiment.public_id,), metric="ESR")
    judged = {each.group.condition: each.difference for each in judge_groups(comparison_of(choices), METRICS["ESR"])}
    assert {name: found.comparisons for name, found in judged.items()} == {
        "selfgen-always": 1,
        "raw-trajectory": 3,
        "curated-static": 3,
    }
    alone = comparison_of(choices)
    for group in alone.groups.all:
        plain = alone.family_difference(group, METRICS["ESR"])
        assert plain is None or (plain == judged[group.condition]) is (group.condition != "selfgen-always")
    page = client.get(
        reverse("compare-json"), {"experiment": experiment.public_id, "metric": "ESR"}, follow=True
    ).json()
    on_page = {each["condition"]: each["differences"]["ESR"] for each in page["groups"] if each["differences"]}
    target = BytesIO()
    Export("differences", choices).write(target, "json")
    in_file = {row["condition"]: row for row in json.loads(target.getvalue())["rows"] if row["metric"] == "ESR"}
    on_chart = {row["p"]: row for row in drawn(CHART, choices.query()).table.records()}
    for name, found in judged.items():
        interval = found.interval
        assert interval is not None
        assert (in_file[name]["p_holm"], in_file[name]["comparisons"]) == (found.p, found.comparisons)
        assert on_page[name]["p_holm"] == found.p
        assert (in_file[name]["low"], in_file[name]["high"]) == (interval.low, interval.high)
        assert on_chart[found.p]["low"] == pytest.approx(100 * interval.low)
