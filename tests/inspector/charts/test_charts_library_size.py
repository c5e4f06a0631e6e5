"""Library size against success: files counted by hand, lines that start at the same model's no-skill."""

from __future__ import annotations

from typing import Any

import pytest

from benchapp.models import Episode, Experiment
from inspector.charts.chart import ChartDrawing
from inspector.charts.figures.libraries import SIZE_CHART, is_tier3
from tests.worlds.charted import CODES, drawn, queries_of
from tests.worlds.copies import built_once
from tests.worlds.factories import make_experiment, make_learning_run, make_snapshot, make_suite

pytestmark = pytest.mark.django_db

T, F = True, False
BASE = (T, F, F, T, F, F, T, F, F)
OWN = (T, F, F, T, T, F, T, T, F)
RICH = {
    "a/SKILL.md": "---\nname: a\n---\n",
    "a/references/one.md": "1",
    "a/scripts/fix.py": "pass",
    "a/assets/map.json": "{}",
    "a/notes.txt": "not counted",
}


@built_once
def make_world() -> Experiment:
    """Two environments; each library of tier3 holds four files that count and one that does not."""
    experiment = make_experiment(suite=make_suite(environments=2, families=2))
    make_learning_run(experiment, condition="no-skill", outcomes=BASE)
    make_learning_run(experiment, condition="selfgen-always", outcomes=OWN)
    rich = make_learning_run(experiment, condition="selfgen-always-tier3", outcomes=BASE)
    Episode.objects.filter(run=rich).update(library=make_snapshot(RICH))
    return experiment


def marks(drawing: ChartDrawing) -> dict[str, Any]:
    assert drawing.figure is not None
    return {trace.name: trace for trace in drawing.figure.data if trace.mode == "markers"}


def test_it_adds_up_the_libraries_of_a_run() -> None:
    make_world()
    found = marks(drawn(SIZE_CHART))
    assert {name: (trace.x[0], round(trace.y[0], 4)) for name, trace in found.items()} == {
        "No skill": (0, 33.3333),
        "Self, always": (4, 66.6667),  # a SKILL.md in each of four families
        "Self, with files": (8, 33.3333),
    }


def test_it_fills_tier3_alone_and_gives_every_condition_its_own_colour() -> None:
    make_world()
    found = marks(drawn(SIZE_CHART))
    plain, tier3 = found["Self, always"].marker, found["Self, with files"].marker
    assert (plain.symbol, tier3.symbol) == ("square-open", "diamond")
    assert plain.color != tier3.color
    assert is_tier3("curated-always-tier3")


def test_it_draws_no_line_between_two_marks() -> None:
    make_world()
    figure = drawn(SIZE_CHART).figure
    assert figure is not None
    assert {trace.mode for trace in figure.data} == {"markers"}


def test_it_says_in_the_table_what_it_draws() -> None:
    make_world()
    drawing = drawn(SIZE_CHART)
    records = {record["condition"]: record for record in drawing.table.records()}
    for label, trace in marks(drawing).items():
        name = CODES[label]
        if name != "no-skill":
            assert (records[name]["files"], records[name]["value"]) == (trace.x[0], trace.y[0])
    tier3 = records["selfgen-always-tier3"]
    assert [tier3[key] for key in ("skill_md", "references", "scripts", "assets", "other")] == [2, 2, 2, 2, 2]


def test_it_leaves_tainted_libraries_out() -> None:
    make_world()
    Episode.objects.filter(run__condition="selfgen-always-tier3", key="E1").update(is_tainted=True)
    assert marks(drawn(SIZE_CHART))["Self, with files"].x == (4,)


def test_it_does_not_draw_a_library_whose_runs_were_not_scored() -> None:
    experiment = make_world()
    make_learning_run(experiment, condition="curated-static", outcomes=(None,) * 9)
    drawing = drawn(SIZE_CHART)
    assert "Human, as is" not in marks(drawing)
    assert {record["condition"]: record["value"] for record in drawing.table.records()}["curated-static"] is None


def test_it_says_what_is_missing() -> None:
    assert drawn(SIZE_CHART).absent.startswith("No run is chosen.")
    make_learning_run(condition="no-skill", outcomes=BASE)
    assert drawn(SIZE_CHART).absent == "None of the chosen runs has both a library and a value for ESR."


def test_it_asks_no_more_of_the_database_for_more_runs() -> None:
    experiment = make_world()
    few = queries_of(SIZE_CHART)
    for replicate in (2, 3):
        make_learning_run(experiment, condition="selfgen-always", replicate=replicate, outcomes=OWN)
    assert queries_of(SIZE_CHART) == few
