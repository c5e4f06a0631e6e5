"""Libraries task by task and what they consist of, on runs whose decisions are known."""

from __future__ import annotations

import pytest

from benchapp.models import Episode, Run
from inspector.charts.figures import libraries
from tests.worlds.charted import drawn, queries_of
from tests.worlds.factories import (
    freeze,
    make_episode,
    make_experiment,
    make_learning_run,
    make_run,
    make_snapshot,
    make_suite,
)

pytestmark = pytest.mark.django_db


def test_it_counts_the_skills_after_each_task() -> None:
    make_learning_run(environments=2, families=2)  # a skill comes with the first task of each family
    drawing = drawn(libraries.GROWTH_CHART)
    (line,) = drawing.figure.data
    assert list(line.x) == [0, 1, 2, 3, 4, 5, 6]
    assert list(line.y) == [0, 1, 1, 1, 2, 2, 2]
    records = drawing.table.records()
    assert [record["skills"] for record in records] == list(line.y)
    assert {record["episodes"] for record in records} == {2}


def test_it_says_the_range_over_episodes() -> None:
    run = make_learning_run(environments=2, families=2)
    other = make_learning_run(run.experiment, suite=make_suite(environments=1, families=1), replicate=2)
    assert other.experiment == run.experiment
    after_four = drawn(libraries.GROWTH_CHART).table.records()[4]
    assert (after_four["position"], after_four["episodes"]) == (4, 2)
    after_three = drawn(libraries.GROWTH_CHART).table.records()[3]
    assert (after_three["lowest"], after_three["highest"], after_three["episodes"]) == (1, 1, 3)


def test_it_counts_skills_ever_held_when_asked() -> None:
    run = make_learning_run(environments=1, families=2)
    drawing = drawn(libraries.GROWTH_CHART, "option=count:ever")
    assert drawing.figure.layout.yaxis.title.text == "skills ever held"
    assert [record["ever"] for record in drawing.table.records()] == list(drawing.figure.data[0].y)
    Episode.objects.filter(run=run).update(is_tainted=True)
    Run.objects.filter(pk=run.pk).touch()
    assert "has a library whose tasks came in a recorded order" in drawn(libraries.GROWTH_CHART).absent


def test_it_draws_no_library_for_conditions_that_have_none() -> None:
    experiment = make_learning_run(environments=1).experiment
    make_learning_run(experiment, condition="no-skill")
    drawing = drawn(libraries.GROWTH_CHART)
    assert {record["group"] for record in drawing.table.records()} == {"selfgen-always"}
    assert any("no-skill" in note for note in drawing.notes)


FILES = {
    "a/SKILL.md": "# A\n",
    "a/references/one.md": "one\n",
    "a/references/two.md": "two\n",
    "b/SKILL.md": "# B\n",
    "b/scripts/run.py": "print(1)\n",
    "b/notes.txt": "x\n",
}


def run_with(files: dict[str, str], **fields: object) -> None:
    episode = make_episode(make_run(**fields), library=make_snapshot(files))
    freeze(episode)


def test_it_counts_files_by_kind_and_puts_the_counts_into_the_bars() -> None:
    run_with(FILES)
    drawing = drawn(libraries.KINDS_CHART)
    (record,) = drawing.table.records()
    kinds = {"skill_md": 2, "references": 2, "scripts": 1, "assets": 0, "other": 1}
    assert {kind: record[kind] for kind in kinds} == kinds
    assert (record["files"], record["skills"], record["runs"]) == (6, 2, 1)
    bars = {trace.name: (trace.x[0], trace.text[0]) for trace in drawing.figure.data if trace.type == "bar"}
    assert bars == {"SKILL.md": (2, "2"), "references": (2, "2"), "scripts": (1, "1"), "other": (1, "1")}


def test_it_averages_over_the_replicates_that_have_a_library() -> None:
    experiment = make_experiment()
    run_with(FILES, experiment=experiment)
    run_with({"a/SKILL.md": "# A\n"}, experiment=experiment, replicate=2)
    make_run(experiment, replicate=3)  # has not begun: no library is not an empty one
    (record,) = drawn(libraries.KINDS_CHART).table.records()
    assert (record["skill_md"], record["files"], record["runs"]) == (1.5, 3.5, 2)


def test_it_says_that_libraries_are_empty() -> None:
    run_with({})
    drawing = drawn(libraries.KINDS_CHART)
    assert drawing.figure is None
    assert "has a library with a file in it" in drawing.absent


@pytest.mark.parametrize("chart", [libraries.GROWTH_CHART, libraries.KINDS_CHART], ids=lambda chart: chart.key)
def test_it_asks_no_more_for_more_libraries(chart: object) -> None:
    run = make_learning_run(environments=1)
    few = queries_of(chart)
    for replicate in (2, 3, 4):
        make_learning_run(run.experiment, replicate=replicate)
    assert queries_of(chart) == few
