"""What one cell of the compare table shows: its value, its counts, and an interval of that value or none."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.test import Client

from benchapp.exports.latex import condition_table
from benchapp.models import Family, Run, Trial
from benchapp.stats.comparing.answer import Answer
from benchapp.stats.comparing.choices import Choices
from benchapp.stats.comparing.comparison import MetricCell, comparison_of
from benchapp.stats.inference.shares import wilson
from benchapp.stats.metrics.catalogue import METRICS, RUN_METRICS, name_metric, note_metric
from inspector.charts.chart_request import build_sheet
from inspector.pages.compare.lanes import ForestBuilder
from tests.worlds.factories import (
    make_attempt,
    make_experiment,
    make_family,
    make_learning_run,
    make_run,
    make_suite,
    make_task,
    make_trial,
    make_unordered_episode,
)

pytestmark = pytest.mark.django_db


def make_families(*, large: int, small: int, samples: int = 1) -> Run:
    """Every task of the large family passes, none of the small one, as a SkillLearnBench import has them."""
    suite, run = make_suite(), make_run()
    for passes, tasks in ((True, large), (False, small)):
        _try(run, make_family(suite=suite), tasks, passes, samples)
    return run


def _try(run: Run, family: Family, tasks: int, passes: bool, samples: int) -> None:
    episode = make_unordered_episode(run)
    for ordinal in range(1, tasks + 1):
        task = make_task(family=family, ordinal=ordinal)
        for sample in range(samples):
            make_attempt(make_trial(episode, task, phase="evaluation", finished=False, sample=sample), success=passes)


def find_cells(table: str = "", metric: str = "") -> dict[str, dict[str, str]]:
    """What the answer's table shows of the other metrics, for its only group with something to tell."""
    sheet = build_sheet(Choices(table=table, metric=metric))
    assert sheet.metric
    builder = ForestBuilder(sheet, Answer(sheet.comparison, sheet.metric), sheet.groups)
    (*_, group) = builder.covered
    return {each.key: builder.write_cell(group, each, of.get(group.identity)) for each, of in builder.others.items()}


def cell_of(key: str) -> MetricCell:
    comparison = comparison_of(Choices())
    return comparison.cell(comparison.groups.all[0], METRICS[key])


def test_a_mean_over_families_has_no_interval_of_the_share_of_trials() -> None:
    make_families(large=12, small=2)
    cell = cell_of("accuracy")
    assert (cell.value, cell.rate.passed, cell.rate.scored) == (0.5, 12, 14)
    assert cell.interval is None
    assert cell.as_json()["low"] is None


def test_the_share_of_the_same_trials_has_it() -> None:
    make_families(large=12, small=2)
    assert cell_of("completion").interval == wilson(12, 14)


def test_several_trials_of_a_task_are_no_independent_draws() -> None:
    make_families(large=6, small=2, samples=3)
    cell = cell_of("completion")
    assert (cell.rate.passed, cell.rate.scored, cell.interval) == (18, 24, None)


def test_a_mean_over_few_families_is_written_as_the_mean_and_not_as_a_count() -> None:
    make_families(large=4, small=1)
    assert find_cells(metric="completion")["accuracy"]["text"] == "50"
    assert find_cells("skillflow", metric="accuracy")["completion"]["text"] == "4/5"
    assert "50.0 (4/5)" in condition_table(comparison_of(Choices()), (METRICS["accuracy"],))


def test_a_head_says_code_and_unit_once() -> None:
    """ "Turns" is no "turns, turns", and a number of whole runs has a name as well as a key."""
    found = {key: (name_metric(each).title, note_metric(each)) for key, each in {**METRICS, **RUN_METRICS}.items()}
    assert found["turns"] == ("Turns", "")
    assert found["ESR"] == ("Deployment success", "ESR")
    assert found["input-per-trial"] == ("Input", "input-per-trial, tokens")
    assert found["skills-retained"] == ("Skills retained", "")


def test_choosing_a_table_leaves_the_chart_above_it_alone(client: Client) -> None:
    experiment = make_experiment(suite=make_suite(environments=8, families=1))
    make_learning_run(experiment, condition="no-skill", outcomes=(True, False, False) * 3)
    make_learning_run(experiment, condition="selfgen-always", outcomes=(True,) * 9)
    page = client.get(experiment.get_absolute_url()).text
    (address,) = re.findall(r'href="([^"]*table=usage[^"]*)"', page)
    usage = client.get(experiment.get_absolute_url() + unescape(address)).text
    for text in (page, usage):
        assert "<b>Deployment success</b>, points against no skill" in text
    assert "metric=input-per-trial" in usage  # a head of the table leads to its own chart


def test_an_amount_has_its_change_relative_to_the_baseline_and_a_share_has_none() -> None:
    """4 dollars less of 10 are 40 % less; a part of a share would be read as points."""
    experiment = make_experiment(suite=make_suite(environments=2, families=1))
    for condition, cost, passed in (("no-skill", 10.0, 1), ("selfgen-always", 6.0, 3)):
        run = make_learning_run(
            experiment, condition=condition, outcomes=(False,) * 3 + (True,) * passed + (False,) * (6 - passed)
        )
        Trial.objects.filter(episode__run=run).update(cost_usd=cost)
    cells = {key: find_cells(table, metric="ESR")[key] for key, table in (("cost", "skillflow"), ("LSR", "success"))}
    assert (cells["cost"]["change"], cells["cost"]["relative"]) == ("−4.0", "−40 %")
    assert cells["LSR"]["relative"] == ""


def test_no_change_is_related_to_nothing() -> None:
    share, amount, judged = METRICS["ESR"], METRICS["cost"], METRICS["coverage"]
    assert share.relate(0.9, 0.6) == pytest.approx(0.5)
    assert share.relate(0.5, 0.049) is None
    assert (amount.relate(1.0, 0.0), amount.relate(0.02, 0.04)) == (None, -0.5)
    assert judged.relate(80.0, 40.0) is None
