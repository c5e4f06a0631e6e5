"""Ranks with uncertainty: from all pairs of the conditions of one model, corrected together."""

from __future__ import annotations

import random

import pytest

from benchapp.models import Experiment, Trial
from benchapp.stats.comparing import answer
from benchapp.stats.comparing.answer import Answer
from benchapp.stats.comparing.choices import Choices
from benchapp.stats.comparing.comparison import GroupComparison, comparison_of, forget
from benchapp.stats.metrics.catalogue import METRICS
from benchapp.stats.metrics.metric import TrialMetric
from tests.worlds.factories import make_experiment, make_learning_run, make_suite

pytestmark = pytest.mark.django_db
T, F = True, False
ESR = METRICS["ESR"]
ALL, HALF, BARE = (T,) * 9, (T, T, F, T, T, F, T, T, F), (T, F, F, T, F, F, T, F, F)


def compare_all(experiment: Experiment, **chosen: str) -> GroupComparison:
    return comparison_of(Choices(experiment=(experiment.public_id,), **chosen))  # type: ignore[arg-type]


def say_ranks(comparison: GroupComparison, metric: TrialMetric = ESR) -> dict[str, str]:
    found = answer.rank_groups(comparison, metric)
    assert found is not None
    return {each.group.condition: each.sentence for each in found.ranges}


def make_arms(environments: int, model: str = "model-a", experiment: Experiment | None = None) -> Experiment:
    """selfgen-always passes all new tasks, raw-trajectory none more than no-skill does."""
    experiment = experiment or make_experiment(suite=make_suite(environments=environments, families=1))
    for condition, outcomes in (("selfgen-always", ALL), ("raw-trajectory", BARE), ("no-skill", BARE)):
        author = {"author_model": ""} if condition == "no-skill" else {}
        make_learning_run(experiment, condition=condition, outcomes=outcomes, agent_model=model, **author)
    return experiment


def test_the_best_has_one_rank_and_those_alike_share_the_others() -> None:
    comparison = compare_all(make_arms(8))
    assert say_ranks(comparison) == {
        "selfgen-always": "1 of 3",
        "raw-trajectory": "2 to 3 of 3",
        "no-skill": "2 to 3 of 3",
    }


def test_what_cannot_be_tested_may_have_every_rank() -> None:
    assert set(say_ranks(compare_all(make_arms(2))).values()) == {"1 to 3 of 3"}


def test_a_baseline_changes_the_verdicts_and_no_rank() -> None:
    experiment = make_arms(8)
    assert say_ranks(compare_all(experiment, baseline="raw-trajectory")) == say_ranks(compare_all(experiment))


def test_of_a_metric_in_which_less_is_better_the_least_is_first() -> None:
    experiment = make_arms(8)
    for condition, cost in (("selfgen-always", 9), ("raw-trajectory", 4), ("no-skill", 9)):
        for trial in Trial.objects.filter(episode__run__condition=condition):
            Trial.objects.filter(pk=trial.pk).update(cost_usd=cost + trial.pk % 2)
    found = say_ranks(compare_all(experiment), METRICS["cost-per-trial"])
    assert found["raw-trajectory"] == "1 of 3"


def test_each_model_has_its_own_ranks() -> None:
    experiment = make_arms(8)
    alone = say_ranks(compare_all(experiment))
    forget()
    make_arms(8, "model-b", experiment)
    found = answer.rank_groups(compare_all(experiment), ESR)
    assert found is not None
    assert (found.pairs, {each.of for each in found.ranges}) == (6, {3})
    assert {
        each.group.condition: each.sentence for each in found.ranges if each.group.agent_model == "model-a"
    } == alone


def test_two_conditions_have_no_ranks() -> None:
    experiment = make_experiment(suite=make_suite(environments=6, families=1))
    for condition in ("selfgen-always", "no-skill"):
        make_learning_run(experiment, condition=condition)
    assert answer.rank_groups(compare_all(experiment), ESR) is None


def test_too_many_pairs_are_counted_and_not_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer, "MOST_PAIRS", 2)
    found = answer.rank_groups(compare_all(make_arms(8)), ESR)
    assert found is not None
    assert (found.pairs, found.ranges) == (3, ())


def test_replicates_rank_by_their_means_and_ask_the_database_nothing(django_assert_num_queries) -> None:
    luck = random.Random(3)
    experiment = make_experiment(suite=make_suite(environments=2, families=2))
    for replicate in (1, 2, 3):
        for condition, share in (("selfgen-always", 0.95), ("curated-static", 0.5), ("no-skill", 0.05)):
            run = make_learning_run(experiment, condition=condition, replicate=replicate)
            for trial in Trial.objects.filter(episode__run=run):
                Trial.objects.filter(pk=trial.pk).update(success=luck.random() < share)
    comparison = compare_all(experiment)
    _ = comparison.outcomes
    answer = Answer(comparison, ESR)
    with django_assert_num_queries(0):
        assert answer.ranks is not None
    assert say_ranks(comparison) == {"selfgen-always": "1 of 3", "curated-static": "2 of 3", "no-skill": "3 of 3"}
