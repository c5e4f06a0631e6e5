"""Success by round, on episodes whose rounds are known: each family's skill changes after its first two tasks."""

from __future__ import annotations

import pytest

from benchapp.models import Episode, Run, Trial
from benchapp.stats.comparing.columns import outcomes_of
from benchapp.stats.learning.libraries import read_rounds_given
from inspector.charts.figures.rounds import ROUNDS_CHART as CHART
from tests.worlds.charted import drawn, queries_of
from tests.worlds.copies import built_once
from tests.worlds.factories import (
    make_experiment,
    make_learning_run,
    make_suite,
    make_trial,
    make_unordered_episode,
)

pytestmark = pytest.mark.django_db

T, F = True, False


@built_once
def make_pair() -> Run:
    experiment = make_experiment(suite=make_suite(environments=1, families=2))
    make_learning_run(experiment, condition="no-skill", outcomes=(F, F, T, F, F, F, F, F, F))
    return make_learning_run(experiment, outcomes=(T, F, None, F, F, F, F, F, F))


def test_it_reads_the_round_of_each_trial_off_the_spine() -> None:
    run = make_pair()
    outcomes = outcomes_of([run])
    for _ in ("from the record", "from what is kept of it"):
        given = dict(
            zip(outcomes[run.pk].trial.tolist(), read_rounds_given([run], outcomes)[run.pk].tolist(), strict=True)
        )
        trials = Trial.objects.filter(episode__run=run, phase="acquisition").order_by("pk")
        assert [given.pop(trial.pk) for trial in trials] == [0, 1, 2, 2, 3, 4]
        assert set(given.values()) == {-1}


def test_it_counts_passes_by_round_with_the_baseline_on_the_same_tasks() -> None:
    make_pair()
    records = [record for record in drawn(CHART).table.records() if record["group"] == "selfgen-always"]
    counts = [(record["round"], record["passed"], record["scored"], record["planned"]) for record in records]
    # the third task of a family has no score: it stands in planned and in no share
    assert counts == [(0, 1, 1, 1), (1, 0, 1, 1), (2, 1, 1, 2), (3, 0, 1, 1), (4, 0, 0, 1)]
    assert records[4]["share"] is None
    assert [record["baseline_passed"] for record in records] == [0, 0, 1, 0, 1]


def test_it_draws_what_the_table_says() -> None:
    make_pair()
    drawing = drawn(CHART)
    own = next(trace for trace in drawing.figure.data if trace.hovertext[0].startswith("selfgen-always"))
    shares = [record["share"] for record in drawing.table.records() if record["group"] == "selfgen-always"]
    assert list(own.y) == [share for share in shares if share is not None]


def test_it_leaves_tainted_episodes_out_and_says_what_is_missing() -> None:
    run = make_pair()
    Episode.objects.filter(run=run).update(is_tainted=True)
    assert "selfgen-always" not in {record["group"] for record in drawn(CHART).table.records()}


def test_it_has_nothing_to_draw_without_a_spine() -> None:
    make_trial(make_unordered_episode(), phase="evaluation")
    assert "been through a round" in drawn(CHART).absent


def test_it_asks_no_more_for_more_runs() -> None:
    run = make_pair()
    few = queries_of(CHART)
    for replicate in (2, 3):
        make_learning_run(run.experiment, replicate=replicate)
    assert queries_of(CHART) == few
