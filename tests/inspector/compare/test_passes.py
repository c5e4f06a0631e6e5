"""pass@k on the compare page and in its twin: by group, by source, with intervals, and what is left out."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from django.test import Client

from benchapp.models import Environment, Experiment, Family
from tests.queries import assert_queries_flat
from tests.worlds.factories import (
    make_environment,
    make_episode,
    make_experiment,
    make_run,
    make_suite,
    make_task,
    make_trial,
)

pytestmark = pytest.mark.django_db

T, F = True, False
EVERYTHING, EVERYTHING_JSON = "/compare/?since=2020-01-01", "/compare.json?since=2020-01-01"
Samples = Sequence[bool | None]


def make_corpora(*kinds: str, tasks: int = 3) -> Experiment:
    """A suite of one corpus per kind, each with one family of so many tasks."""
    suite = make_suite()
    for ordinal, kind in enumerate(kinds):
        environment = make_environment(suite, key=f"corpus-{ordinal}", ordinal=ordinal)
        Environment.objects.filter(pk=environment.pk).update(kind=kind)
        family = Family.objects.create(suite=suite, environment=environment, key=f"family-{ordinal}", name="tasks")
        for place in range(tasks):
            make_task(family=family, key=f"task-{ordinal}-{place}", ordinal=place + 1)
    return make_experiment(suite=suite)


def play(experiment: Experiment, condition: str, *outcomes: Samples) -> None:
    """A run of one episode per corpus; the tries at its tasks are taken from `outcomes` in turn."""
    run = make_run(experiment, condition=condition)
    given = iter(outcomes)
    for environment in experiment.suite.environments.all():
        episode = make_episode(run, environment=environment, protocol="skillgenbench-agnostic")
        for task in environment.families.get().tasks.all():
            for sample, success in reversed(list(enumerate(next(given)))):
                make_trial(episode, task, phase="deployment", success=success, sample=sample)


def passes(client: Client) -> dict[str, dict[str, object]]:
    groups = client.get(EVERYTHING_JSON).json()["groups"]
    return {group["condition"]: group["pass_at_k"] for group in groups}


def test_it_shows_solved_tasks_by_source_and_against_the_baseline(client: Client) -> None:
    experiment = make_corpora("repository", "domain-document", tasks=2)
    play(experiment, "no-skill", (F, F, F), (F, F, F), (F, T, F), (F, F, F))
    play(experiment, "naive-prompt", (F, F, T), (F, F, F), (T, T, T), (F, T, None))
    found = passes(client)["naive-prompt"]
    assert found["name"] == "pass@3"
    told = [(part["metric"], part["solved"], part["complete"], part["tasks"]) for part in found["parts"]]
    assert told == [("solved", 2, 3, 4), ("solved-code", 1, 2, 2), ("solved-doc", 1, 1, 2)]
    difference = found["parts"][0]["difference"]
    assert (difference["value"], difference["tasks"], difference["left_out"]) == (pytest.approx(1 / 3), 3, 1)
    page = client.get(EVERYTHING).content.decode()
    assert "pass@3: tasks that any sample solved" in page
    assert "2/3 of 4" in page
    assert "2 corpora: not to be trusted" in page


def test_the_table_shows_tasks_and_tests_them(client: Client) -> None:
    experiment = make_corpora(*["repository"] * 6, tasks=2)
    play(experiment, "no-skill", *[(F, F)] * 12)
    play(experiment, "naive-prompt", *[(F, T), (F, F)] * 6)
    data = client.get(EVERYTHING_JSON).json()
    (own,) = (group for group in data["groups"] if group["condition"] == "naive-prompt")
    assert (own["metrics"]["solved"]["passed"], own["metrics"]["solved"]["scored"]) == (6, 12)
    assert own["differences"]["solved"]["clusters"] == 6
    assert own["differences"]["solved"]["p_holm"] < 0.05


def test_without_a_second_sample_there_is_no_section(client: Client) -> None:
    play(make_corpora("repository"), "naive-prompt", (T,), (F,), (T,))
    assert passes(client)["naive-prompt"] is None
    assert "tasks that any sample solved" not in client.get(EVERYTHING).content.decode()


def test_it_asks_no_more_for_more_runs(client: Client) -> None:
    def make(count: int) -> None:
        for _ in range(count):
            play(make_corpora("repository"), "naive-prompt", (T, F), (F, F), (T, T))

    assert_queries_flat(client, EVERYTHING, make)
