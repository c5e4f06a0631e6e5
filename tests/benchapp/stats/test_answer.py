"""What a comparison answers: the verdict over all groups, the best of them, and what would settle the rest."""

from __future__ import annotations

import pytest

from benchapp.models import Experiment
from benchapp.stats.comparing.answer import Answer, arrange
from benchapp.stats.comparing.choices import Choices
from benchapp.stats.comparing.comparison import comparison_of
from benchapp.stats.comparing.effects import Effect
from benchapp.stats.metrics.catalogue import METRICS, TABLES
from benchapp.stats.metrics.metric_names import KNOWN
from tests.worlds.factories import make_experiment, make_learning_run, make_suite

pytestmark = pytest.mark.django_db
T, F = True, False
ESR = METRICS["ESR"]


def answer_of(experiment: Experiment, **chosen: str) -> Answer:
    comparison = comparison_of(Choices(experiment=(experiment.public_id,), **chosen))  # type: ignore[arg-type]
    return Answer(comparison, TABLES["success"], ESR)


def make_arms(environments: int) -> Experiment:
    """selfgen-always passes all new tasks, raw-trajectory none more than no-skill does."""
    experiment = make_experiment(suite=make_suite(environments=environments, families=1))
    make_learning_run(experiment, condition="selfgen-always", outcomes=(T, T, T, T, T, T, T, T, T))
    make_learning_run(experiment, condition="raw-trajectory", outcomes=(T, F, F, T, F, F, T, F, F))
    make_learning_run(experiment, condition="no-skill", author_model="", outcomes=(T, F, F, T, F, F, T, F, F))
    return experiment


def test_two_episodes_are_too_few_and_trials_are_drawn() -> None:
    answer = answer_of(make_arms(2))
    assert answer.heading == "Maybe. 2 episodes are too few to tell."
    assert answer.is_few
    assert answer.best is not None
    assert (answer.best.group.condition, answer.best.effect) == ("selfgen-always", Effect.UNTESTED)


def test_what_every_episode_shows_alike_is_tested_without_an_interval() -> None:
    answer = answer_of(make_arms(8))
    assert answer.best is not None
    assert answer.best.difference.interval is None
    assert answer.best.effect is Effect.UP
    assert answer.heading == "Yes, one of two conditions clearly helped."
    assert not answer.is_few


def test_groups_that_tie_are_the_best_together() -> None:
    """No way to remember is named alone where another one did as well, whoever wrote its skills."""
    experiment = make_arms(2)
    make_learning_run(experiment, condition="curated-revision", outcomes=(T, T, T, T, T, T, T, T, T))
    assert [each.group.condition for each in answer_of(experiment).alike] == ["curated-revision", "selfgen-always"]
    make_learning_run(experiment, condition="curated-static", outcomes=(T, T, T, T, T, F, T, T, T))
    assert len(answer_of(experiment).alike) == 2


def test_other_metrics_that_leave_out_zero_are_said() -> None:
    found = {metric.key: (up, down) for metric, up, down in answer_of(make_arms(8)).elsewhere}
    assert found["LSR"] == (1, 0)
    assert "ESR" not in found


def test_groups_stand_in_one_order_whatever_their_values() -> None:
    answer = answer_of(make_arms(1))
    groups = arrange(answer.comparison.groups.all)
    assert [group.condition for group in groups] == ["no-skill", "raw-trajectory", "selfgen-always"]


def test_another_baseline_asks_another_question() -> None:
    answer = answer_of(make_arms(8), baseline="raw-trajectory")
    assert answer.question == "How do groups differ from “Raw traces”?"
    assert answer.heading == "Of 2 groups: 1 clearly better."


def test_nothing_to_compare_is_said() -> None:
    experiment = make_experiment(suite=make_suite(environments=1, families=1))
    make_learning_run(experiment, condition="selfgen-always")
    answer = answer_of(experiment)
    assert (answer.heading, answer.best, answer.is_few) == ("Nothing to compare yet.", None, False)


def test_runs_without_a_model_try_the_tasks_and_no_skills() -> None:
    experiment = make_experiment(suite=make_suite(environments=1, families=1))
    alone = {"agent_model": "", "author_model": "", "setup_digest": "d" * 64}
    make_learning_run(experiment, condition="no-skill", harness="oracle", **alone)
    assert answer_of(experiment).question == "Do the tasks’ own solutions pass?"
    make_learning_run(experiment, condition="no-skill", harness="nop", replicate=2, **alone)
    assert answer_of(experiment).question == "What passes without a model?"
    make_learning_run(experiment, condition="no-skill", replicate=3)
    assert answer_of(experiment).question == "Did skills help?"


def test_one_task_is_no_tasks() -> None:
    counted = {name.code: (name.count(1), name.count(2)) for name in KNOWN.values()}
    assert counted["ESR"] == ("new task", "new tasks")
    assert counted["CSSR"] == ("task in a new setting", "tasks in a new setting")
    assert counted["accuracy"] == ("instance", "instances")
