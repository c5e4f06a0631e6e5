"""What a comparison answers: the verdict over all groups, the best of them, and what would settle the rest."""

from __future__ import annotations

import random

import pytest

from benchapp.models import Experiment, Trial
from benchapp.record.json_shape import encode
from benchapp.stats.comparing.answer import Answer, arrange, judge_groups
from benchapp.stats.comparing.choices import Choices
from benchapp.stats.comparing.comparison import comparison_of
from benchapp.stats.comparing.effects import Effect
from benchapp.stats.metrics.catalogue import METRIC_NAMES, METRICS
from benchapp.stats.planning import POWER
from tests.worlds.factories import make_experiment, make_learning_run, make_suite

pytestmark = pytest.mark.django_db
T, F = True, False
ESR = METRICS["ESR"]


def answer_of(experiment: Experiment, **chosen: str) -> Answer:
    comparison = comparison_of(Choices(experiment=(experiment.public_id,), **chosen))  # type: ignore[arg-type]
    return Answer(comparison, ESR)


def make_arms(environments: int) -> Experiment:
    """selfgen-always passes all new tasks, raw-trajectory none more than no-skill does."""
    experiment = make_experiment(suite=make_suite(environments=environments, families=1))
    make_learning_run(experiment, condition="selfgen-always", outcomes=(T, T, T, T, T, T, T, T, T))
    make_learning_run(experiment, condition="raw-trajectory", outcomes=(T, F, F, T, F, F, T, F, F))
    make_learning_run(experiment, condition="no-skill", author_model="", outcomes=(T, F, F, T, F, F, T, F, F))
    return experiment


def test_two_episodes_are_too_few_and_trials_are_drawn() -> None:
    answer = answer_of(make_arms(2))
    assert answer.heading == f"{Effect.TOO_SMALL.words.capitalize()}."
    assert answer.best is not None
    assert (answer.best.group.condition, answer.best.effect) == ("selfgen-always", Effect.TOO_SMALL)


def test_what_every_episode_shows_alike_has_an_interval() -> None:
    answer = answer_of(make_arms(8))
    assert answer.best is not None
    assert answer.best.difference.interval is not None
    assert answer.best.effect is Effect.BETTER
    assert answer.heading == "Yes, one of two conditions clearly helped, in this run; reruns not measured."


def test_groups_that_tie_are_the_best_together() -> None:
    """No way to remember is named alone where another one did as well, whoever wrote its skills."""
    experiment = make_arms(2)
    make_learning_run(experiment, condition="curated-revision", outcomes=(T, T, T, T, T, T, T, T, T))
    assert [each.group.condition for each in answer_of(experiment).alike] == ["curated-revision", "selfgen-always"]
    make_learning_run(experiment, condition="curated-static", outcomes=(T, T, T, T, T, F, T, T, T))
    assert len(answer_of(experiment).alike) == 2


def test_only_the_primary_metric_has_a_verdict() -> None:
    answer = answer_of(make_arms(8))
    effects = {
        key: {each.effect for each in judge_groups(answer.comparison, METRICS[key])} for key in ("ESR", "LSR", "CSSR")
    }
    assert effects["ESR"] == {Effect.BETTER, Effect.OPEN}
    assert effects["LSR"] == effects["CSSR"] == {Effect.ESTIMATE}
    other = Answer(answer.comparison, METRICS["LSR"])
    assert other.heading == f"{Effect.ESTIMATE.words.capitalize()} in this metric."
    assert {each.words for each in other.judged} == {""}


def test_groups_stand_in_one_order_whatever_their_values() -> None:
    answer = answer_of(make_arms(1))
    groups = arrange(answer.comparison.groups.all)
    assert [group.condition for group in groups] == ["no-skill", "raw-trajectory", "selfgen-always"]


def test_another_baseline_asks_another_question() -> None:
    answer = answer_of(make_arms(8), baseline="raw-trajectory")
    assert answer.question == "How do groups differ from “Raw traces”?"
    assert answer.heading == f"Of 2 groups: 1 {Effect.BETTER.words}."


def test_nothing_to_compare_is_said() -> None:
    experiment = make_experiment(suite=make_suite(environments=1, families=1))
    make_learning_run(experiment, condition="selfgen-always")
    answer = answer_of(experiment)
    assert (answer.heading, answer.best) == ("Nothing to compare yet.", None)


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
    counted = {name.code: (name.count(1), name.count(2)) for name in METRIC_NAMES.values()}
    assert counted["ESR"] == ("new task", "new tasks")
    assert counted["CSSR"] == ("task in a new setting", "tasks in a new setting")
    assert counted["accuracy"] == ("instance", "instances")


def make_open_question(replicates: int, environments: int = 6) -> Experiment:
    """Two conditions that pass half of everything, by a fixed hand of luck."""
    luck = random.Random(4)
    experiment = make_experiment(suite=make_suite(environments=environments, families=2))
    for condition in ("selfgen-always", "raw-trajectory", "no-skill"):
        for replicate in range(1, replicates + 1):
            author = {"author_model": ""} if condition == "no-skill" else {}
            run = make_learning_run(experiment, condition=condition, replicate=replicate, **author)
            for trial in Trial.objects.filter(episode__run=run):
                Trial.objects.filter(pk=trial.pk).update(success=luck.random() < 0.5, cost_usd=0.01, duration_seconds=2)
    return experiment


def test_it_says_what_settles_an_open_question_and_what_that_takes() -> None:
    answer = answer_of(make_open_question(replicates=3))
    assert answer.widest is not None
    assert answer.widest.effect is Effect.OPEN
    settling = answer.settling
    assert settling is not None
    assert (settling.design.tasks, settling.design.replicates, settling.design.samples) == ((6,) * 6, (3, 3), 1)
    assert (settling.measured.runs, settling.measured.freedom, settling.measured.guessed) == (9, 6, False)
    assert 0 < (settling.power or 0) < POWER
    (route,) = [each for each in settling.routes if each.unit == "replicate"]
    assert route.trials == 2 * 108 * route.more  # of both sides, with acquisition and replay
    assert route.cost.seconds == pytest.approx(2 * route.trials)
    counted = settling.cost.counted
    assert (counted.trials, counted.seconds) == (2 * 3 * 36, pytest.approx(2 * 2 * 3 * 36))
    assert set(encode(settling)) == {"difference", "power", "measured", "routes"}
    assert set(encode(settling.measured.spread)) == {"share", "sample", "task", "episode", "rerun"}
    assert set(encode(route)) == {"unit", "more", "trials", "usd", "seconds"}
    assert answer.widest.route == route


def test_groups_with_one_baseline_share_what_is_measured() -> None:
    first, second = answer_of(make_open_question(replicates=3)).still_open
    assert first.settling is not None
    assert second.settling is not None
    assert first.settling.measured == second.settling.measured


def test_one_run_a_side_guesses_what_reruns_do() -> None:
    settling = answer_of(make_open_question(replicates=1)).settling
    assert settling is not None
    assert settling.measured.guessed
    assert settling.design.replicates == (1, 1)


def test_what_is_clear_needs_no_plan() -> None:
    answer = answer_of(make_arms(8))
    assert [each.settling for each in answer.judged if each.effect is Effect.BETTER] == [None]
