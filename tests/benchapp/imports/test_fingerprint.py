"""The fingerprint of a comparison changes with everything a reader could see change."""

from __future__ import annotations

import pytest

from benchapp.imports.audited_edits import Author, RunEdit, edit_runs
from benchapp.models import Experiment, Run, Trial
from benchapp.stats.comparing.choices import Choices
from benchapp.stats.comparing.comparison import comparison_of
from tests.worlds.factories import make_experiment, make_learning_run, make_suite

pytestmark = pytest.mark.django_db


@pytest.fixture
def experiment() -> Experiment:
    experiment = make_experiment(suite=make_suite(environments=1), origin=Experiment.Origin.IMPORTED)
    make_learning_run(experiment, condition="no-skill", author_model="")
    make_learning_run(experiment, condition="unknown")
    return experiment


def fingerprint(experiment: Experiment) -> str:
    experiment.runs.all().touch()  # as whatever changes a number of theirs does
    return comparison_of(Choices(experiment=(experiment.public_id,))).fingerprint


@pytest.mark.parametrize(
    "change",
    [
        {"reward": 0.25},
        {"process": 0.125},
        {"overall": 0.125},
        {"input_tokens": 77},
        {"cached_tokens": 77},
        {"duration_seconds": 99.5},
        {"skills_mounted": 9},
        {"skills_read": 9},
    ],
)
def test_it_covers_every_number_of_a_trial(experiment: Experiment, change: dict[str, float]) -> None:
    before = fingerprint(experiment)
    Trial.objects.filter(pk=Trial.objects.earliest("pk").pk).update(**change)
    assert fingerprint(experiment) != before


def test_it_tells_a_reward_of_minus_one_from_none(experiment: Experiment) -> None:
    Trial.objects.update(reward=None)
    before = fingerprint(experiment)
    Trial.objects.update(reward=-1.0)
    assert fingerprint(experiment) != before


def test_it_covers_taint(experiment: Experiment) -> None:
    before = fingerprint(experiment)
    run = experiment.runs.earliest("pk")
    run.episodes.update(is_tainted=True)
    assert fingerprint(experiment) != before


def test_an_edited_condition_is_another_picture_at_once(experiment: Experiment) -> None:
    choices = Choices(experiment=(experiment.public_id,))
    before = comparison_of(choices)
    assert [group.condition for group in before.groups.all] == ["no-skill", "unknown"]
    edit_runs(
        Run.objects.filter(condition="unknown"), RunEdit(condition="selfgen-always"), author=Author(), reason="told"
    )
    after = comparison_of(choices)
    assert [group.condition for group in after.groups.all] == ["no-skill", "selfgen-always"]
    assert after.fingerprint != before.fingerprint
