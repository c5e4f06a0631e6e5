"""What a comparison answers when every episode shows the same difference."""

from __future__ import annotations

import pytest
from django.utils import timezone

from benchapp.models import Experiment, Trial
from benchapp.stats.comparing.answer import Answer
from benchapp.stats.comparing.choices import Choices
from benchapp.stats.comparing.comparison import GroupComparison, comparison_of
from benchapp.stats.comparing.effects import Effect
from benchapp.stats.metrics.catalogue import METRICS
from runner.base.types import Phase
from tests.worlds.factories import make_episode, make_experiment, make_run, make_suite

pytestmark = pytest.mark.django_db
ESR = METRICS["ESR"]


def make_uniform(environments: int) -> Experiment:
    """no-skill fails everything and selfgen-always passes everything: no spread, and no doubt."""
    experiment = make_experiment(suite=make_suite(environments=environments, families=1))
    for condition, success in (("no-skill", False), ("selfgen-always", True)):
        run = make_run(experiment, condition=condition)
        for environment in experiment.suite.environments.all():
            Trial.objects.create(
                episode=make_episode(run, environment=environment),
                task=environment.families.get().tasks.get(role="adversarial"),
                phase=Phase.DEPLOYMENT,
                success=success,
                is_done=True,
                settled_at=timezone.now(),
            )
    return experiment


def compared(experiment: Experiment) -> GroupComparison:
    return comparison_of(Choices(experiment=(experiment.public_id,)))


def test_it_judges_a_difference_that_every_episode_shows_alike() -> None:
    comparison = compared(make_uniform(6))
    (group,) = (group for group in comparison.groups.all if group.condition == "selfgen-always")
    difference = comparison.family_difference(group, ESR)
    assert difference is not None
    assert difference.interval is not None
    assert 0 < difference.interval.low < difference.interval.high == 1
    answer = Answer(comparison, ESR)
    assert answer.heading == "Yes, skills clearly helped, in this run; reruns not measured."
    (judged,) = answer.judged
    assert judged.sentence.endswith(f"; {Effect.BETTER.words}, in this run; reruns not measured.")


def test_it_tests_nothing_below_three_episodes() -> None:
    comparison = compared(make_uniform(2))
    assert Answer(comparison, ESR).heading == f"{Effect.TOO_SMALL.words.capitalize()}."
