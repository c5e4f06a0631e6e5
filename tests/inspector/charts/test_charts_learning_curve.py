"""The learning curve: every round on the same tasks, counted by hand, and nothing before every library is measured."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import pytest
from django.utils import timezone

from benchapp.models import Episode, Experiment, Probe, Run, Trial
from benchapp.stats.comparing.choices import Choices
from inspector.charts.chart_request import build_sheet
from inspector.charts.drawn_chart import draw_chart
from inspector.charts.figures.rounds import CURVE_CHART as CHART
from inspector.charts.figures.rounds import ROUNDS_CHART as ROUNDS
from inspector.charts.figures.rounds import lacks_rounds
from tests.worlds.charted import drawn, queries_of
from tests.worlds.factories import make_experiment, make_learning_run, make_suite
from tests.worlds.probe_factories import make_probe, measure_round

pytestmark = pytest.mark.django_db

T, F = True, False
OWN = (T, F, F, T, T, F, T, T, T)  # of acquisition, deployment, replay: two of three deployed tasks passed


def make_world(outcomes: tuple[bool | None, ...] = OWN, **run: Any) -> tuple[Experiment, Episode, Episode]:
    """Two environments of one family. The first episode has two rounds, the second stopped after its first."""
    experiment = make_experiment(suite=make_suite(environments=2, families=1))
    make_learning_run(experiment, condition="no-skill", author_model="", outcomes=(F, F, F, T, F, F, F, F, F))
    return experiment, *learn(experiment, outcomes, **run)


def learn(experiment: Experiment, outcomes: tuple[bool | None, ...] = OWN, **run: Any) -> tuple[Episode, Episode]:
    made = make_learning_run(experiment, outcomes=outcomes, status="done", **run)
    long, short = made.episodes.order_by("ordinal", "pk")
    first, second = short.decisions.filter(status="applied").order_by("number")
    short.decisions.filter(pk=second.pk).update(status="no-op", after=first.after)
    short.trials.filter(phase="deployment").update(snapshot=first.after)
    return long, short


def points(key: str = "accuracy") -> dict[str, list[tuple[int, float, int | None, int]]]:
    """Group -> round, value, passed, tasks."""
    found: dict[str, list[tuple[int, float, int | None, int]]] = {}
    for row in drawn(CHART).table.records():
        if row["metric"] == key:
            found.setdefault(row["group"], []).append((row["round"], row["value"], row["passed"], row["tasks"]))
    return found


def test_each_round_is_over_all_tasks_and_an_episode_that_stopped_keeps_its_library() -> None:
    _, long, _ = make_world()
    measure_round(long, 1, "fff")
    # round 0: no skill, one of three in both; round 1: 0 of 3 and 2 of 3; round 2: 2 of 3 in both
    assert points() == {
        "selfgen-always": [
            (0, pytest.approx(100 / 3), 2, 6),
            (1, pytest.approx(100 / 3), 2, 6),
            (2, pytest.approx(200 / 3), 4, 6),
        ]
    }
    last = drawn(CHART).table.records()[-1]
    assert (last["episodes"], last["ended"], last["scored"], last["replicates"]) == (2, 1, 6, 1)


def test_the_acquisition_chart_shows_survivors_where_this_one_does_not() -> None:
    """The same world: by its acquisition trials alone round 2 has one episode."""
    make_world()
    rows = [row for row in drawn(ROUNDS).table.records() if row["group"] == "selfgen-always"]
    assert {row["round"]: row["planned"] for row in rows}[2] < 6
    assert any("survivors" in note for note in drawn(ROUNDS).notes)


def test_nothing_is_drawn_before_every_library_is_measured() -> None:
    make_world()
    drawing = drawn(CHART)
    assert drawing.figure is None
    assert "selfgen-always: 1 of 3 libraries" in drawing.absent
    sheet = build_sheet(Choices(), CHART)
    assert lacks_rounds(sheet).startswith("Needs the library of each round measured.")


def test_an_unmeasured_replicate_keeps_its_group_from_being_drawn() -> None:
    experiment, long, _ = make_world()
    measure_round(long, 1, "fff")
    learn(experiment, replicate=2)
    assert points() == {}


def test_replicates_have_an_interval_over_their_means() -> None:
    experiment, long, _ = make_world()
    other, _ = learn(experiment, (T, F, F, T, T, T, T, T, T), replicate=2)
    measure_round(long, 1, "fff")
    measure_round(other, 1, "fpp")
    rows = [row for row in drawn(CHART).table.records() if row["round"] == 1]
    ((row),) = rows
    assert (row["passed"], row["scored"], row["replicates"]) == (2 + 5, 12, 2)
    assert row["value"] == pytest.approx(100 * 7 / 12)
    assert (row["low"], row["high"]) == (0.0, 100.0)  # Student's with one degree of freedom
    assert [row["low"] for row in drawn(CHART).table.records() if row["round"] == 0] == [None]


@pytest.mark.parametrize("change", ["at work", "cancelled", "deleted", "tainted", "reverted"])
def test_only_finished_probes_of_the_whole_library_count(change: str) -> None:
    _, long, _ = make_world()
    if change == "reverted":
        make_probe(long, "ppp", reverted=1, frozen=long.decisions.get(number=1).after)
    else:
        probe = measure_round(
            long,
            1,
            "pp-" if change in ("at work", "cancelled") else "ppp",
            status={"cancelled": "cancelled", "at work": "running"}.get(change, "done"),
        )
        if change == "deleted":
            Experiment.objects.filter(runs=probe.run).update(deleted_at=timezone.now())
        if change == "tainted":
            Episode.objects.filter(run=probe.run).update(is_tainted=True)
    assert points() == {}


def test_a_task_without_a_score_in_some_round_is_left_out_of_all() -> None:
    _, long, _ = make_world()
    probe = measure_round(long, 1, "pf-")
    probe.run.episodes.get().trials.filter(is_done=False).update(is_done=True)  # it ended without a verdict
    ((_, *learned),) = points().values()
    assert [(number, passed, tasks) for number, _, passed, tasks in learned] == [(1, 3, 5), (2, 4, 5)]


def test_a_trial_that_was_skipped_ends_a_probe_without_a_score() -> None:
    _, long, _ = make_world()
    measure_round(long, 1, "pf-", status="done")
    before = timezone.now()
    assert [row["tasks"] for row in drawn(CHART).table.records()] == [5, 5, 5]
    assert drawn(CHART, urlencode({"as_of": before.isoformat()})).figure is not None
    Trial.objects.filter(episode__run__condition="library-probe", is_done=True).update(settled_at=timezone.now())
    assert drawn(CHART, urlencode({"as_of": before.isoformat()})).figure is None


def test_a_library_that_is_probed_twice_has_all_trials() -> None:
    _, long, _ = make_world()
    measure_round(long, 1, "fff")
    measure_round(long, 1, "ppp")
    row = next(row for row in drawn(CHART).table.records() if row["round"] == 1)
    assert (row["passed"], row["scored"], row["tasks"]) == (3 + 2, 9, 6)
    assert row["value"] == pytest.approx(100 * (0.5 + 2 / 3) / 2)  # a task's trials first


def test_a_pinned_page_knows_no_later_probe() -> None:
    _, long, _ = make_world()
    before = timezone.now()
    measure_round(long, 1, "fff")
    assert drawn(CHART, urlencode({"as_of": timezone.now().isoformat()})).figure is not None
    assert drawn(CHART, urlencode({"as_of": before.isoformat()})).figure is None


def test_a_probe_that_ends_redraws_the_chart() -> None:
    _, long, _ = make_world()
    assert draw_chart(CHART, build_sheet(Choices(), CHART)).figure is None
    measure_round(long, 1, "fff")
    first = draw_chart(CHART, build_sheet(Choices(), CHART))
    assert first.figure is not None
    assert draw_chart(CHART, build_sheet(Choices(), CHART)) is first


def test_a_condition_of_one_round_needs_no_probe() -> None:
    _, long, short = make_world()
    Run.objects.filter(pk=long.run_id).update(condition="one-shot")
    first, second = long.decisions.filter(status="applied").order_by("number")
    long.decisions.filter(pk=second.pk).update(status="no-op", after=first.after)
    long.trials.filter(phase="deployment").update(snapshot=first.after)
    assert [number for number, *_ in points()["one-shot"]] == [0, 1]
    assert short.run_id == long.run_id
    assert not Probe.objects.exists()


def test_an_episode_whose_library_still_changed_while_it_was_tried_has_no_deployment_of_its_own() -> None:
    _, long, _ = make_world()
    measure_round(long, 1, "fff")
    first = long.decisions.get(number=1).after
    moved = long.trials.filter(phase="deployment").first()
    assert moved is not None
    long.trials.filter(pk=moved.pk).update(snapshot=first)
    assert points() == {}
    measure_round(long, 2, "fpp")
    assert points()["selfgen-always"][-1][1:] == (pytest.approx(200 / 3), 4, 6)


def test_it_draws_what_the_table_says_and_names_the_axes() -> None:
    _, long, _ = make_world()
    measure_round(long, 1, "fff")
    drawing = drawn(CHART)
    (trace,) = drawing.figure.data
    assert list(trace.y) == [row["value"] for row in drawing.table.records()]
    assert list(trace.x) == [0, 1, 2]
    assert drawing.figure.layout.xaxis.title.text == "rounds of learning"
    assert [note.text for note in drawing.figure.layout.annotations] == ["tasks passed, %"]
    assert all("/rounds/" in row.url for row in drawing.table.rows)


def test_it_asks_no_more_for_more_runs_and_probes() -> None:
    experiment, long, _ = make_world()
    measure_round(long, 1, "fff")
    few = queries_of(CHART)
    for replicate in (2, 3):
        other, _ = learn(experiment, replicate=replicate)
        measure_round(other, 1, "ppf")
    assert queries_of(CHART) == few
