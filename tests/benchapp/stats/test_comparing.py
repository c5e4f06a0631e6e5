from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from benchapp.models import Episode, Experiment, Run, Trial
from benchapp.stats.comparing.choices import Choices
from benchapp.stats.comparing.columns import KEPT, outcomes_of
from benchapp.stats.comparing.comparison import GroupComparison, comparison_of, count_added_since, forget
from benchapp.stats.comparing.groups import Groups
from benchapp.stats.comparing.selection import facets_of
from benchapp.stats.inference.difference import Difference
from benchapp.stats.learning.computed_runs import forget_runs
from benchapp.stats.metrics.catalogue import METRICS
from benchapp.stats.metrics.outcomes import PHASES, ROLES
from benchapp.stats.metrics.tally import TrialTally, tally_by
from tests.worlds.factories import (
    make_attempt,
    make_decision,
    make_episode,
    make_experiment,
    make_learning_run,
    make_run,
    make_snapshot,
    make_suite,
    make_task,
    make_trial,
    make_unordered_episode,
)
from tests.worlds.probe_factories import make_probe

pytestmark = pytest.mark.django_db
T, F = True, False
BASE = (T, F, F, T, F, F, T, F, F)
GOOD = (T, T, F, T, T, F, T, T, F)


@pytest.fixture
def experiment() -> Experiment:
    experiment = make_experiment(suite=make_suite(environments=2, families=2))
    make_learning_run(experiment, condition="no-skill", author_model="", outcomes=BASE)
    make_learning_run(experiment, condition="selfgen-always", outcomes=GOOD)
    return experiment


def compared(experiment: Experiment, **choices: object) -> GroupComparison:
    return comparison_of(Choices(experiment=(experiment.public_id,), **choices))  # type: ignore[arg-type]


def test_columns_say_what_the_rows_say(experiment: Experiment) -> None:
    for run, columns in outcomes_of(experiment.runs.all()).items():
        rows = {
            trial.pk: trial
            for trial in Trial.objects.filter(episode__run=run).select_related("task__family", "episode")
        }
        assert sorted(columns.trial.tolist()) == sorted(rows)
        for place, pk in enumerate(columns.trial.tolist()):
            trial = rows[pk]
            assert columns.success[place] == trial.success
            assert columns.cost_usd[place] == trial.cost_usd
            assert PHASES[columns.phase[place]] == trial.phase
            assert ROLES[columns.role[place]] == trial.task.role
            assert columns.family[place] == trial.task.family_id
            assert columns.environment[place] == trial.task.family.environment_id
            assert columns.ordinal[place] == trial.task.ordinal
            assert columns.done[place] == trial.is_done
        assert TrialTally.of(columns) == tally_by(Trial.objects.filter(episode__run=run), "episode__run")[run]


def test_runs_of_a_group_stand_by_replicate_and_an_unknown_one_last() -> None:
    experiment = make_experiment()
    for replicate in (None, 2, 1):
        make_trial(make_unordered_episode(make_run(experiment, condition="no-skill", replicate=replicate)))
    assert [run.replicate for run in comparison_of(Choices()).runs] == [1, 2, None]


def test_what_is_not_known_is_not_a_number() -> None:
    run = make_run()
    make_trial(make_unordered_episode(run), make_task(), phase="evaluation", finished=False)
    columns = outcomes_of([run])[run.pk]
    assert np.isnan(columns.success).all()
    assert np.isnan(columns.cost_usd).all()
    assert columns.family.tolist() == [-1]
    assert columns.environment.tolist() == [-1]


def test_positions_count_inside_an_episode_and_phase_in_the_order_of_ends() -> None:
    run = make_run()
    episode = make_unordered_episode(run)
    now = timezone.now()
    last, first = (make_trial(episode, phase="evaluation", finished_at=now + timedelta(minutes=end)) for end in (9, 1))
    waiting = make_trial(episode, phase="evaluation", finished=False)
    other = make_trial(make_unordered_episode(run), phase="evaluation")
    columns = outcomes_of([run])[run.pk]
    places = dict(zip(columns.trial.tolist(), columns.position.tolist(), strict=True))
    assert places == {first.pk: 0, last.pk: 1, waiting.pk: 2, other.pk: 0}


def test_trials_that_share_a_library_share_a_cluster_in_every_run(experiment: Experiment) -> None:
    one, two = outcomes_of(experiment.runs.all()).values()
    assert dict(zip(one.task.tolist(), one.cluster.tolist(), strict=True)) == dict(
        zip(two.task.tolist(), two.cluster.tolist(), strict=True)
    )
    assert len(set(one.cluster.tolist())) == 2


def test_an_import_without_protocol_clusters_by_family_or_by_task(experiment: Experiment) -> None:
    run = make_run()
    episode = make_unordered_episode(run)
    family = experiment.suite.families.first()
    for task in (*family.tasks.all()[:2], make_task(), make_task()):
        make_trial(episode, task, phase="evaluation")
    assert len(set(outcomes_of([run])[run.pk].cluster.tolist())) == 3


def test_columns_are_read_once_and_anew_after_a_trial_settles(experiment: Experiment) -> None:
    forget()
    runs = list(experiment.runs.all())
    outcomes_of(runs)
    with CaptureQueriesContext(connection) as captured:
        outcomes_of(runs)
    assert len(captured) == 0
    trial = Trial.objects.filter(episode__run=runs[0], success=False).first()
    make_attempt(trial, success=True)
    fresh = Run.objects.get(pk=runs[0].pk)
    columns = outcomes_of([fresh])[fresh.pk]
    assert columns.success[columns.trial == trial.pk] == 1


def test_the_store_of_columns_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KEPT, "limit", 60)
    runs = [make_learning_run(families=3) for _ in range(4)]  # 27 trials each
    outcomes_of(runs)
    assert KEPT.total <= 60


def test_replicates_form_one_group_and_everything_else_sets_apart() -> None:
    experiment = make_experiment()
    for number in (1, 2, 3):
        make_run(experiment, condition="a", replicate=number)
    make_run(experiment, condition="a", agent_model="other")
    make_run(experiment, condition="a", author_model="other")
    make_run(experiment, condition="a", harness="other")
    make_run(condition="a")
    groups = Groups.of(Run.objects.select_related("experiment"), "no-skill").all
    assert [group.replicates for group in groups] == [3, 1, 1, 1, 1]
    assert len({group.label for group in groups}) == 5


def test_a_baseline_is_equal_in_all_but_the_compared_axis() -> None:
    experiment = make_experiment()
    for model in ("m1", "m2"):
        make_run(experiment, condition="no-skill", agent_model=model, author_model="")
        make_run(experiment, condition="selfgen-always", agent_model=model)
    groups = Groups.of(Run.objects.select_related("experiment").order_by("pk"), "no-skill")
    for group in groups.all:
        baseline = groups.baseline_of(group)
        assert (baseline is None) == (group.condition == "no-skill")
        assert baseline is None or (baseline.condition, baseline.agent_model) == ("no-skill", group.agent_model)
    models = Groups.of(Run.objects.select_related("experiment").order_by("pk"), "model:m1")
    found = [(group.label, baseline.label) for group in models.all if (baseline := models.baseline_of(group))]
    assert found == [("no-skill · m2", "no-skill · m1"), ("selfgen-always · m2", "selfgen-always · m1")]


def test_another_experiment_of_the_suite_lends_its_baseline_and_another_suite_does_not() -> None:
    suite = make_suite(environments=1)
    make_run(make_experiment(suite=suite), condition="no-skill")
    make_run(make_experiment(suite=suite), condition="selfgen-always")
    make_run(make_experiment(suite=make_suite()), condition="selfgen-always")
    groups = Groups.of(Run.objects.select_related("experiment").order_by("pk"), "no-skill")
    assert [groups.baseline_of(group) is not None for group in groups.all] == [False, True, False]


def test_replay_is_held_against_the_first_try_under_no_skill(experiment: Experiment) -> None:
    comparison = compared(experiment)
    learner = comparison.groups.all[1]
    difference = comparison.family_difference(learner, METRICS["RSR"])
    assert difference is not None
    own = list(GOOD[6:])
    first_try = list(BASE[:3])
    assert difference.delta == pytest.approx((sum(own) - sum(first_try)) / 3)


def test_only_tasks_scored_on_both_sides_count(experiment: Experiment) -> None:
    baseline = experiment.runs.get(condition="no-skill")
    lost = Trial.objects.filter(episode__run=baseline, phase="deployment").first()
    make_attempt(lost, success=None)
    comparison = compared(experiment)
    difference = comparison.family_difference(comparison.groups.all[1], METRICS["ESR"])
    assert difference is not None
    assert (difference.tasks, difference.dropped) == (11, 1)


def test_a_tainted_episode_is_left_out_and_counted(experiment: Experiment) -> None:
    tainted = Episode.objects.filter(run__condition="selfgen-always").first()
    Episode.objects.filter(pk=tainted.pk).update(is_tainted=True)
    Run.objects.filter(pk=tainted.run_id).touch()
    comparison = compared(experiment)
    assert comparison.tainted == 1
    assert comparison.cell(comparison.groups.all[1], METRICS["ESR"]).rate.planned == 6


def test_a_pin_leaves_out_what_came_later_and_counts_it(experiment: Experiment) -> None:
    pin = timezone.now()
    before = compared(experiment, as_of=pin)
    fingerprint = before.fingerprint
    trial = Trial.objects.filter(episode__run__experiment=experiment, success=False).first()
    make_attempt(trial, success=True)
    make_learning_run(experiment, condition="curated-always", outcomes=GOOD)
    after = compared(experiment, as_of=pin)
    choices = Choices(experiment=(experiment.public_id,), as_of=pin)
    assert len(after.runs) == 2
    assert count_added_since(choices) == 1
    assert after.revised == 1
    assert after.fingerprint != fingerprint  # the revised trial is missing now: said, not hidden
    live = compared(experiment)
    assert len(live.runs) == 3
    assert live.revised == 0


def test_an_added_run_does_not_change_a_pinned_picture(experiment: Experiment) -> None:
    pin = timezone.now()
    fingerprint = compared(experiment, as_of=pin).fingerprint
    make_learning_run(experiment, condition="curated-always", outcomes=GOOD)
    forget()
    assert compared(experiment, as_of=pin).fingerprint == fingerprint


def test_deleted_experiments_are_nowhere(experiment: Experiment) -> None:
    experiment.entomb(actor=None, reason="a test")
    assert compared(experiment).runs == ()
    assert facets_of(Choices()) == []


def test_facets_count_what_the_page_would_show(experiment: Experiment) -> None:
    make_run(make_experiment(name="another"), condition="no-skill", agent_model="m2")
    facets = {facet.axis: facet for facet in facets_of(Choices(condition=("no-skill",)))}
    counts = {value.value: (value.runs, value.chosen) for value in facets["condition"].values}
    assert counts == {"no-skill": (2, True), "selfgen-always": (1, False)}
    assert {value.value: value.runs for value in facets["agent_model"].values} == {"scripted": 1, "m2": 1}
    assert "harness" not in facets  # only one: nothing to choose


def test_a_probe_is_named_in_the_words_of_the_pages_whatever_its_stored_name(experiment: Experiment) -> None:
    run = make_run(experiment, condition="selfgen-always", replicate=2)
    origin = make_episode(run, title="Tables", library=make_snapshot({"a/SKILL.md": "text\n"}))
    task = experiment.suite.tasks.exclude(family=None).first()
    make_decision(origin, make_trial(origin, task, phase="deployment").task.family)
    probe = make_probe(origin, "pf", reverted=2)
    probe.run.experiment.name = "x (probe of selfgen-always · rep 2, E1, R6 without 2 hunks)"
    probe.run.experiment.save()
    labels = {value.label for value in facets_of(Choices())[0].values}
    assert (
        f"{experiment.name}, probe: Self-written, always revised, replicate 2, Tables, R2 without 2 changes" in labels
    )
    probe.origin = None  # of a library that is gone
    probe.save()
    assert probe.run.experiment.name in {value.label for value in facets_of(Choices())[0].values}


def test_a_choice_without_a_run_stays_to_be_taken_back(experiment: Experiment) -> None:
    facets = {facet.axis: facet for facet in facets_of(Choices(harness=("gone",)))}
    assert [(value.label, value.chosen) for value in facets["harness"].values][-1] == ("gone (no such run)", True)


def test_a_comparison_asks_the_same_number_of_queries_for_many_runs() -> None:
    counts = []
    for runs in (2, 6):
        experiment = make_experiment(suite=make_suite(environments=1, families=1))
        for number in range(runs):
            make_learning_run(experiment, condition=f"c{number}")
        forget()
        with CaptureQueriesContext(connection) as captured:
            comparison = compared(experiment, baseline="c0")
            for group in comparison.groups.all:
                comparison.family_difference(group, METRICS["ESR"])
        counts.append(len(captured))
    assert counts[0] == counts[1] <= 8


def test_what_one_page_draws_pushes_no_number_out_of_the_cache(experiment: Experiment) -> None:
    comparison = compared(experiment)
    made: list[str] = []
    for _ in range(2):
        assert comparison.once("nothing", lambda: made.append("once")) is None
        for number in range(50):
            assert comparison.draw(number, lambda: made.append("drawn")) is None
    assert (made.count("once"), made.count("drawn")) == (1, 100)
    assert comparison.draw(49, lambda: made.append("drawn")) is None, "the last ones are kept, none of them included"
    assert made.count("drawn") == 100


def test_other_options_of_the_same_numbers_share_what_either_computed(experiment: Experiment) -> None:
    first = compared(experiment)
    other = compared(experiment, metric="RSR")
    assert first.choices != other.choices
    forget_runs()
    facts = other.facts
    with CaptureQueriesContext(connection) as captured:
        assert first.facts is facts
        assert first.groups is other.groups
    assert len(captured) == 0


def test_it_bounds_what_missing_verdicts_could_have_made_of_a_difference(experiment: Experiment) -> None:
    deployed = Trial.objects.filter(phase="deployment")
    passed = deployed.filter(episode__run__condition="selfgen-always", success=True)
    whole = compared(experiment)
    group = next(group for group in whole.groups.all if group.condition == "selfgen-always")
    counts = [whole.cell(each, METRICS["ESR"]).rate.passed for each in whole.groups.all]
    planned = whole.cell(group, METRICS["ESR"]).rate.planned
    found = whole.family_difference(group, METRICS["ESR"])
    assert found is not None
    assert found.missing is None, "every planned trial has a verdict"
    lost = [passed.first(), passed.last(), deployed.filter(episode__run__condition="no-skill", success=True).first()]
    Trial.objects.filter(pk__in=[trial.pk for trial in lost if trial]).update(success=None, status="unscored")
    Run.objects.all().touch()
    forget()
    now = compared(experiment).family_difference(group, METRICS["ESR"])
    assert now is not None
    assert now.missing is not None
    assert now.dropped > 0
    base, own = sorted(counts)
    assert now.missing.trials == 3
    assert now.missing.failed == pytest.approx((own - 2 - (base - 1)) / planned)
    assert now.missing.passed == pytest.approx((own - base) / planned)
    assert now.missing.low == pytest.approx((own - 2 - base) / planned)
    assert now.missing.high == pytest.approx((own - (base - 1)) / planned)


def esr(comparison: GroupComparison) -> Difference:
    group = next(group for group in comparison.groups.all if group.condition == "selfgen-always")
    found = comparison.family_difference(group, METRICS["ESR"])
    assert found is not None
    return found


def test_trials_still_to_come_are_not_called_missing(experiment: Experiment) -> None:
    run = experiment.runs.get(condition="selfgen-always")
    trial = Trial.objects.filter(episode__run=run, phase="deployment").first()
    Trial.objects.filter(pk=trial.pk).update(success=None, is_done=False, status="waiting")
    Run.objects.filter(pk=run.pk).touch()
    forget()
    found = esr(compared(experiment))
    assert (found.dropped, found.missing) == (1, None)
    Run.objects.filter(pk=run.pk).update(status=Run.Status.CANCELLED)
    Run.objects.filter(pk=run.pk).touch()
    forget()
    assert esr(compared(experiment)).missing is not None, "a cancelled run brings no verdict any more"
