"""What holds for each of these charts: hostile names stay text, and every number of the figure stands in the table."""

from __future__ import annotations

from typing import Any

import pytest

from benchapp.models import Environment, Family
from inspector.charts import CHARTS as ALL
from inspector.charts.chart import Chart
from tests.worlds.charted import drawn
from tests.worlds.factories import make_experiment, make_learning_run, make_suite
from tests.worlds.probe_factories import measure_round

pytestmark = pytest.mark.django_db

T, F = True, False
HOSTILE = '<a href="javascript:alert(1)">&amp;</a>'
CHARTS = list(ALL.values())
AXES = {  # chart -> which of a trace's columns holds numbers that the table must have
    "budget": "y",
    "categories": "x",
    "curve": "y",
    "file-kinds": "x",
    "growth": "y",
    "instances": "x",
    "profiles": "x",
    "rounds": "y",
    "tokens": "x",
}


@pytest.fixture
def hostile_world() -> None:
    suite = make_suite(environments=1, families=2)
    Environment.objects.filter(suite=suite).update(name=HOSTILE)
    Family.objects.filter(suite=suite).update(name=HOSTILE)
    experiment = make_experiment(suite=suite)
    make_learning_run(experiment, condition="no-skill", outcomes=(F, F, F, T, F, F, F, F, F))
    learned = make_learning_run(
        experiment, condition=HOSTILE, author_model=HOSTILE, outcomes=(T, F, F, T, T, F, F, F, F)
    )
    for decision in (1, 2, 4):  # the fifth made the library that was deployed
        measure_round(learned.episodes.get(), decision, "pffpfp")


def texts_of(value: Any) -> list[str]:
    """Every string inside a figure, except the addresses, which are escaped as addresses."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for key, item in value.items() if key != "customdata" for text in texts_of(item)]
    return [text for item in value for text in texts_of(item)] if isinstance(value, list | tuple) else []


@pytest.mark.usefixtures("hostile_world")
@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.key)
def test_it_shows_hostile_names_as_text(chart: Chart) -> None:
    drawing = drawn(chart)
    assert (drawing.figure is None) == bool(drawing.absent)
    texts = texts_of(drawing.figure.to_plotly_json()) if drawing.figure else []
    assert not [text for text in texts if "<a" in text or "</a" in text]
    assert any("&lt;a" in text for text in texts) == bool(drawing.figure)


@pytest.mark.usefixtures("hostile_world")
@pytest.mark.parametrize("chart", [chart for chart in CHARTS if chart.key in AXES], ids=lambda chart: chart.key)
def test_it_has_every_drawn_number_in_the_table(chart: Chart) -> None:
    drawing = drawn(chart)
    told = {round(value, 9) for row in drawing.table.rows for value in row.values if isinstance(value, int | float)}
    if chart.key == "tokens":  # the input that was not cached is the difference of two columns
        told |= {
            record[f"{of}input"] - record[f"{of}cached"]
            for record in drawing.table.records()
            for of in ("", "trial_")
            if record[f"{of}cached"] is not None
        }
    marks = [trace for trace in drawing.figure.data if trace.hovertext]
    shown = [value for trace in marks for value in getattr(trace, AXES[chart.key]) if value is not None]
    if chart.key == "profiles":
        shown = [x for trace in marks for x, seen in zip(trace.x, trace.marker.opacity, strict=True) if seen]
    assert shown
    assert [value for value in shown if round(value, 9) not in told] == []


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.key)
def test_it_says_why_it_draws_nothing_in_an_empty_record(chart: Chart) -> None:
    drawing = drawn(chart)
    assert drawing.figure is None
    assert drawing.absent.endswith(".")
    assert drawing.table.rows == ()
