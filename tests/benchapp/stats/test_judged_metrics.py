"""Scores of a judge as metrics over trials: their values, what is unknown, and which judge a comparison shows."""

from __future__ import annotations

import math
from datetime import timedelta

import pytest
from django.utils import timezone

from benchapp.exports.export_run import Export
from benchapp.judges.judge_passes import judge_run
from benchapp.models import Attempt, JudgingTry, Run, Trial
from benchapp.record.slices import Budget
from benchapp.stats.comparing.choices import Choices
from benchapp.stats.comparing.comparison import GroupComparison, comparison_of
from benchapp.stats.comparing.groups import Group
from benchapp.stats.comparing.narrowing import Narrowing, trials_behind
from benchapp.stats.judged import mean_over_tasks, read_judged_rows
from benchapp.stats.metrics.catalogue import METRICS, TABLES
from runner.base.types import ModelRequest
from runner.judging.metrics import Metric
from tests.worlds.factories import make_snapshot
from tests.worlds.judging_worlds import Judge, World, add_run, fitting, make_world, metric_of

pytestmark = pytest.mark.django_db

PAGE = {  # metric -> its measure on the page of judgements
    "coverage": "coverage",
    "executability": "executability",
    "safety": "safety",
    "alignment": "trajectory-alignment",
    "alignment-recall": "key-point-recall",
    "executability-usability": "executability.usability",
}


def says(request: ModelRequest) -> str:
    """Scores that differ by skill and by what is asked, so that a mean over the wrong things shows."""
    metric, text = metric_of(request), str(request.messages[1]["content"])
    if metric is Metric.COVERAGE:
        return fitting(metric, place=1 if "Count the pieces." in text.split("## Key point")[1] else 0)
    if metric is Metric.EXECUTABILITY:
        return fitting(metric, 5 if "name: splitting" in text else 2)
    if metric is Metric.SAFETY:
        return fitting(metric, 5)
    return fitting(metric, 3)


def compared(world: World, **choices: object) -> GroupComparison:
    return comparison_of(Choices(experiment=(world.experiment.public_id,)).but(**choices))


def judge(run: Run, model: Judge | None = None, repeat: int = 1, calls: int | None = None) -> None:
    judge_run(run, model or Judge(says), repeat=repeat, budget=Budget(calls))


def sides_of(world: World) -> tuple[Group, Group]:
    comparison = compared(world)
    return group_of(comparison, world.run), group_of(comparison, world.human)


def group_of(comparison: GroupComparison, run: Run) -> Group:
    return next(group for group in comparison.groups.all if group.first.pk == run.pk)


def test_values_are_those_of_the_answers() -> None:
    """Key points: one of two is taught. Executability: 100 and 25 of two skills.
    Alignment: recall 100, order and completeness 50."""
    world = make_world(samples=2)
    judge(world.run)
    comparison = compared(world)
    group = group_of(comparison, world.run)
    values = {key: comparison.cell(group, METRICS[key]).value for key in PAGE}
    assert values == {
        "coverage": 50,
        "executability": 62.5,
        "safety": 100,
        "alignment": pytest.approx(200 / 3),
        "alignment-recall": 100,
        "executability-usability": 62.5,
    }
    rate = comparison.cell(group, METRICS["coverage"]).rate
    assert (rate.scored, rate.planned) == (4, 4)


def test_they_are_the_numbers_of_the_page_of_judgements() -> None:
    world = make_world(samples=2)
    judge(world.run)
    judging = world.run.judgings.get()
    rows = read_judged_rows([judging])[judging.pk]
    comparison = compared(world)
    for key, measure in PAGE.items():
        mean = mean_over_tasks(row for row in rows if row.measure == measure)
        assert mean is not None
        assert comparison.cell(group_of(comparison, world.run), METRICS[key]).value == pytest.approx(mean.value), key


def test_what_nobody_judged_is_unknown_and_not_zero() -> None:
    world = make_world()
    assert not any(compared(world).has(metric) for metric in TABLES["judged"])
    assert compared(world).judged_by == ""
    judge(world.run)
    comparison = compared(world)
    cell = comparison.cell(group_of(comparison, world.human), METRICS["alignment"])
    assert (cell.value, cell.rate.planned) == (None, 0)
    assert comparison.judged_by == "Judged by litellm/test/judge, prompts judging/2: 1 of 2 runs."


def test_a_run_without_skills_has_alignment_and_no_library_to_judge() -> None:
    world = make_world()
    bare = add_run(world, condition="no-skill")
    Trial.objects.filter(episode__run=bare).update(snapshot=make_snapshot({}), skills_mounted=0)
    judge(bare)
    comparison = compared(world)
    coverage, alignment = (
        comparison.cell(group_of(comparison, bare), METRICS[key]) for key in ("coverage", "alignment")
    )
    assert (coverage.value, coverage.rate.planned) == (None, 0)
    assert (alignment.rate.scored, alignment.rate.planned) == (2, 2)


def test_a_pass_that_stopped_early_says_how_far_it_came() -> None:
    world = make_world(samples=2)
    judge(world.run, calls=7)  # of the first task: its library, and the recall of one attempt
    comparison = compared(world)
    group = group_of(comparison, world.run)
    coverage, recall = (comparison.cell(group, METRICS[key]) for key in ("coverage", "alignment-recall"))
    assert (coverage.value, coverage.rate.scored, coverage.rate.planned) == (50, 2, 4)
    assert (recall.rate.scored, recall.rate.planned) == (1, 4)


def test_a_judge_asked_again_is_no_surer_than_it_is_of_itself() -> None:
    """Executability of one skill: 25, then 100 of 100; the judge answers all other questions the same way."""
    world = make_world(samples=2)
    for run in (world.run, world.human):
        judge(run)
    assert compared(world).judge.retests == {}
    assert "Asked again" not in compared(world).judged_by
    once = compared(world).between(*sides_of(world), METRICS["executability"])
    judge(world.run, Judge(lambda request: says(request).replace("2", "5")), repeat=2)
    comparison = compared(world)
    assert comparison.judge.repeat == 1
    found = comparison.judge.retests
    assert found["judged.coverage"] == 0
    assert found["judged.executability"] == pytest.approx(75**2 / 2 / 2), "one of two skills, n - 1"
    assert "Asked again it differs from itself by " in comparison.judged_by
    again = comparison.between(*sides_of(world), METRICS["executability"])
    assert again.delta == once.delta
    assert again.run is None or once.run is None or again.run.error >= once.run.error


def test_a_comparison_shows_the_judge_of_most_runs_and_says_that_there_are_others() -> None:
    world = make_world()
    judge(world.run, Judge(says, name="litellm/test/common"))
    judge(world.human, Judge(says, name="litellm/test/common"))
    judge(world.run, Judge(name="litellm/test/later"))
    comparison = compared(world)
    assert comparison.judge is not None
    assert comparison.judge.model == "litellm/test/common"
    assert comparison.judged_by.endswith("2 of 2 runs. 1 more judged them too.")


def test_a_real_judge_comes_before_a_scripted_one_and_a_first_pass_before_its_repeat() -> None:
    world = make_world()
    judge(world.run, Judge(says))
    judge(world.run, Judge(says), repeat=2)
    judge(world.run, Judge(name="scripted/careful", scripted=True))
    chosen = compared(world).judge
    assert chosen is not None
    assert (chosen.model, chosen.repeat, chosen.is_scripted) == ("litellm/test/judge", 1, False)


def test_a_difference_pairs_the_tasks_of_two_judged_conditions() -> None:
    world = make_world()
    judge(world.run)
    judge(world.human)
    comparison = compared(world, baseline="human-authored")
    found = comparison.family_difference(group_of(comparison, world.run), METRICS["executability"])
    assert found is not None
    assert (found.tasks, found.delta) == (2, 37.5)  # the human skill has 25 throughout


def test_judging_changes_no_fingerprint_and_the_pages_numbers_at_once() -> None:
    world = make_world()
    before = compared(world).fingerprint
    judge(world.run)
    assert compared(world).fingerprint == before
    assert compared(world).has(METRICS["safety"])


def test_a_pinned_comparison_leaves_out_what_was_asked_later() -> None:
    world = make_world()
    judge(world.run)
    early = timezone.now()
    JudgingTry.objects.filter(unit__metric=Metric.SAFETY).update(asked_at=early + timedelta(hours=1))
    comparison = compared(world, as_of=early)
    group = group_of(comparison, world.run)
    assert comparison.cell(group, METRICS["safety"]).value is None
    assert comparison.cell(group, METRICS["coverage"]).value == 50
    run = add_run(world)
    run.judgings.all().delete()
    assert compared(world, as_of=early - timedelta(hours=1)).judge is None


def test_an_attempt_that_no_longer_counts_gives_its_trial_no_score() -> None:
    world = make_world()
    judge(world.run)
    Attempt.objects.filter(trial__episode__run=world.run).update(counts=False)
    Run.objects.filter(pk=world.run.pk).touch()
    comparison = compared(world)
    group = group_of(comparison, world.run)
    assert comparison.cell(group, METRICS["alignment"]).value is None
    assert comparison.cell(group, METRICS["coverage"]).value == 50


def test_exports_name_the_judge_and_call_a_scripted_one_scripted() -> None:
    world = make_world()
    judge(world.run, Judge(says, name="scripted/careful", scripted=True))
    export = Export("aggregates", Choices(experiment=(world.experiment.public_id,), table="judged"))
    names = [column.name for column in export.fields]
    rows = [dict(zip(names, row, strict=True)) for row in export.rows()]
    (coverage,) = [row for row in rows if row["metric"] == "coverage" and row["condition"] == "one-shot"]
    assert (coverage["value"], coverage["unit"], coverage["scripted"]) == (50, "of 100", True)
    assert coverage["note"] == (
        "Judged by scripted/careful (scripted: its scores say nothing), prompts judging/2: 1 of 2 runs."
    )
    others = [row for row in rows if row["metric"] == "library-files"]
    assert not any(row["scripted"] for row in others)


def test_the_trials_behind_a_judged_metric_are_those_that_it_counts() -> None:
    world = make_world(samples=2)
    judge(world.run)
    comparison = compared(world)
    for key, metric in METRICS.items():
        if metric.is_judged:
            counts = [comparison.cell(group, metric).rate.planned for group in comparison.groups.all]
            assert trials_behind(comparison.choices, Narrowing(covered=key)).count() == sum(counts) == 4, key


def test_no_score_is_lost_where_trials_are_narrowed() -> None:
    world = make_world(samples=2)
    judge(world.run)
    outcomes = compared(world).outcomes[world.run.pk]
    first = outcomes.where(outcomes.sample == 0)
    assert first.column("judged.coverage").tolist() == [50, 50]
    gone = outcomes.without([int(outcomes.trial[0])])
    assert math.isnan(gone.column("judged.coverage")[0])
    assert not math.isnan(gone.column("judged.coverage")[1])
