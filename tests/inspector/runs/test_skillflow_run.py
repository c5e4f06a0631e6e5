"""SkillFlow launched for real: jobs, record, metrics and pages take families as episodes and evaluation as learning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from benchapp.audit import findings
from benchapp.experiments.launch import launch
from benchapp.experiments.work import advance
from benchapp.experiments.work.operations import skip
from benchapp.models import Episode, Experiment, Run, Trial
from benchapp.stats.comparing.columns import outcomes_of
from benchapp.stats.learning.libraries import read_library_numbers, read_rounds_given

pytestmark = pytest.mark.django_db

SPEC: dict[str, Any] = {
    "name": "One family",
    "suite": "starter",
    "protocol": "skillflow",
    "environments": ["E1-LS1"],
    "conditions": ["no-skill", "skill-evolution", "history-context"],
    "replicates": 1,
    "seed": 8,
    "agent": "shell",
    "agent_model": "scripted/apprentice",
    "author_model": "scripted/apprentice",
}


@pytest.fixture
def experiment(monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Callable) -> Experiment:
    monkeypatch.setattr(advance, "hint", lambda episode, **named: True)
    with django_capture_on_commit_callbacks(execute=True):
        return launch(SPEC)


def work_off(experiment: Experiment) -> None:
    for episode in Episode.objects.filter(run__experiment=experiment):
        for _ in range(episode.trials.count() + 1):
            advance.advance(str(episode.public_id))


def test_a_family_is_an_episode_of_evaluation_trials(experiment: Experiment) -> None:
    episodes = Episode.objects.filter(run__experiment=experiment)
    assert set(episodes.values_list("key", "family__key", "environment__key", "protocol")) == {
        ("E1-LS1", "E1-LS1", "E1", "skillflow")
    }
    trials = Trial.objects.filter(episode__run__experiment=experiment)
    assert set(trials.values_list("phase", flat=True)) == {"evaluation"}
    assert trials.count() == 3 * 6


@pytest.mark.slow
def test_a_finished_experiment_stands_in_record_metrics_and_pages(experiment: Experiment, client: Client) -> None:
    work_off(experiment)
    runs = {run.condition: run for run in Run.objects.filter(experiment=experiment)}
    assert {run.status for run in runs.values()} == {"done"}
    assert list(findings()) == []
    evolved = runs["skill-evolution"]
    numbers = read_library_numbers([evolved])[evolved.pk]
    (library,) = numbers.sizes
    assert library.skills == 1
    assert numbers.churn.decisions["applied"] == evolved.episodes.get().decisions.filter(status="applied").count() > 0
    assert numbers.growth.position.tolist() == list(range(7))
    outcomes = outcomes_of([evolved])
    rounds_given = read_rounds_given([evolved], outcomes)[evolved.pk]
    given = dict(zip(outcomes[evolved.pk].trial.tolist(), rounds_given.tolist(), strict=True))
    ordered = evolved.episodes.get().trials.order_by("task__ordinal")
    rounds = [given[trial.pk] for trial in ordered]
    assert rounds[0] == 0
    assert rounds == sorted(rounds)
    assert rounds[-1] > 0
    _look_at_pages(client, experiment, runs)
    _look_at_charts(client, experiment)


def _look_at_charts(client: Client, experiment: Experiment) -> None:
    chosen = f"experiment={experiment.public_id}"
    assert "completion" in str(client.get(f"/compare.json?{chosen}", follow=True).json())
    for key in ("rounds", "growth", "seed-heldout", "gains", "library-size"):
        assert client.get(f"/compare/charts/{key}.json?{chosen}").status_code == 200


def _look_at_pages(client: Client, experiment: Experiment, runs: dict[str, Run]) -> None:
    page = client.get(experiment.get_absolute_url())
    assert page.status_code == 200
    for name in runs:
        assert name in page.text
    for run in runs.values():
        url = run.get_absolute_url()
        assert "in the protocol's order" in client.get(url).text
        assert client.get(f"{url}library/").status_code == 200
        trial = run.episodes.get().trials.order_by("task__ordinal").last()
        assert client.get(trial.get_absolute_url()).status_code == 200


def test_skipping_a_trial_taints_only_where_later_ones_learn_from_it(experiment: Experiment) -> None:
    tainted = {}
    for episode in Episode.objects.filter(run__experiment=experiment).select_related("run"):
        Episode.objects.filter(pk=episode.pk).update(status=Episode.Status.BLOCKED)
        episode.refresh_from_db()
        skip(episode, reason="the image cannot be built")
        episode.refresh_from_db()
        tainted[episode.run.condition] = episode.is_tainted
    assert tainted == {"no-skill": False, "skill-evolution": True, "history-context": True}
