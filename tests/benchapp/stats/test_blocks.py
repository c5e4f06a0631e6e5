"""Blocks are a fact of the record: replicates of two conditions that ran at the same time, with one seed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from benchapp.models import Experiment, Run, Trial
from benchapp.stats.comparing.answer import pool_conditions
from benchapp.stats.comparing.choices import Choices
from benchapp.stats.comparing.comparison import comparison_of, forget
from benchapp.stats.inference.difference import Claim
from benchapp.stats.metrics.catalogue import METRICS
from tests.worlds.factories import make_experiment, make_learning_run, make_suite

pytestmark = pytest.mark.django_db
T, F = True, False
ESR = METRICS["ESR"]
START = datetime(2026, 1, 1, tzinfo=UTC)


def make_replicates(replicates: int = 2) -> Experiment:
    """Replicates differ, for copies of one run count once."""
    experiment = make_experiment(suite=make_suite(environments=3, families=1))
    for replicate in range(1, replicates + 1):
        odd = replicate % 2 == 1
        for condition, outcomes in (("no-skill", (odd, F, F) * 3), ("selfgen-always", (T, T, not odd) * 3)):
            author = {"author_model": ""} if condition == "no-skill" else {}
            run = make_learning_run(experiment, condition=condition, replicate=replicate, outcomes=outcomes, **author)
            Run.objects.filter(pk=run.pk).update(seed=10 + replicate)
    return experiment


def finish(experiment: Experiment, condition: str, replicate: int, *, first_minute: int, minutes: int) -> None:
    """The trials of this run end one after another between these minutes."""
    trials = Trial.objects.filter(episode__run__condition=condition, episode__run__replicate=replicate).order_by("pk")
    for place, trial in enumerate(trials):
        ended = START + timedelta(minutes=first_minute + minutes * place / max(1, len(trials) - 1))
        Trial.objects.filter(pk=trial.pk).update(finished_at=ended)
    experiment.runs.touch()
    forget()


def claim(experiment: Experiment) -> Claim:
    comparison = comparison_of(Choices(experiment=(experiment.public_id,)))
    ((group, _),) = comparison.groups.pairs
    found = comparison.family_difference(group, ESR)
    assert found is not None
    return found.claim


@pytest.mark.parametrize(
    ("first_minute", "expected"),
    [(0, Claim.RUN), (29, Claim.RUN), (31, Claim.RERUN), (60, Claim.RERUN)],
)
def test_a_block_ran_together_for_half_of_its_time(first_minute: int, expected: Claim) -> None:
    experiment = make_replicates()
    for replicate in (1, 2):
        finish(experiment, "no-skill", replicate, first_minute=0, minutes=60)
        finish(experiment, "selfgen-always", replicate, first_minute=first_minute, minutes=60)
    assert claim(experiment) is expected


def test_one_replicate_that_ran_apart_or_with_another_seed_makes_none() -> None:
    experiment = make_replicates()
    for condition in ("no-skill", "selfgen-always"):
        for replicate in (1, 2):
            finish(experiment, condition, replicate, first_minute=0, minutes=60)
    assert claim(experiment) is Claim.RUN
    Run.objects.filter(condition="no-skill", replicate=2).update(seed=99)
    experiment.runs.touch()
    forget()
    assert claim(experiment) is Claim.RERUN
    Run.objects.filter(condition="no-skill").update(seed=None)  # as an import has it
    Run.objects.filter(condition="selfgen-always").update(seed=None)
    experiment.runs.touch()
    forget()
    assert claim(experiment) is Claim.RUN
    finish(experiment, "no-skill", 2, first_minute=200, minutes=60)
    assert claim(experiment) is Claim.RERUN


def test_without_times_nothing_is_a_block() -> None:
    experiment = make_replicates()
    Trial.objects.update(finished_at=None)
    experiment.runs.touch()
    forget()
    assert claim(experiment) is Claim.RERUN


def test_a_replicate_that_has_no_result_yet_changes_nothing() -> None:
    experiment = make_replicates(3)
    for condition in ("no-skill", "selfgen-always"):
        for replicate in (1, 2, 3):
            finish(experiment, condition, replicate, first_minute=0, minutes=60)
    Trial.objects.filter(episode__run__replicate=3).update(success=None, is_done=False, status="waiting")
    experiment.runs.touch()
    forget()
    comparison = comparison_of(Choices(experiment=(experiment.public_id,)))
    ((group, _),) = comparison.groups.pairs
    found = comparison.family_difference(group, ESR)
    assert found is not None
    assert found.replicates == (2, 2)
    assert found.run is not None


def test_three_models_have_an_effect_across_models_and_two_have_none() -> None:
    experiment = make_experiment(suite=make_suite(environments=4, families=1))
    for model in ("model-a", "model-b"):
        for condition, outcomes in (("no-skill", (T, F, F) * 3), ("selfgen-always", (T, T, F) * 3)):
            make_learning_run(experiment, condition=condition, agent_model=model, outcomes=outcomes)

    def pool() -> list[tuple[str, int, float]]:
        forget()
        comparison = comparison_of(Choices(experiment=(experiment.public_id,)))
        return [(each.condition, each.pooled.models, each.pooled.mean) for each in pool_conditions(comparison, ESR)]

    assert pool() == []
    for condition, outcomes in (("no-skill", (T, F, F) * 3), ("selfgen-always", (T, T, T) * 3)):
        make_learning_run(experiment, condition=condition, agent_model="model-c", outcomes=outcomes)
    ((condition, models, mean),) = pool()
    assert (condition, models) == ("selfgen-always", 3)
    assert 1 / 3 < mean < 2 / 3
