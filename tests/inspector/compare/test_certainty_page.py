"""`/compare/certainty/`: what differences hold for."""

from __future__ import annotations

import numpy as np
import pytest
from django.test import Client

from benchapp.models import Experiment, Probe, Trial
from benchapp.stats.comparing.certainty import Certainty, assess, list_costs
from benchapp.stats.comparing.choices import Choices
from benchapp.stats.comparing.comparison import comparison_of
from benchapp.stats.metrics.catalogue import METRICS
from benchapp.stats.metrics.metric import MetricUnit
from tests.worlds.factories import make_experiment, make_learning_run, make_suite
from tests.worlds.probe_factories import make_probe

pytestmark = pytest.mark.django_db
T, F = True, False
ESR = METRICS["ESR"]


def make_arms(families: int = 3) -> Experiment:
    """Of three new tasks a family, no skill passes the first; selfgen-always all;
    the last one of E1 is passed by none."""
    experiment = make_experiment(suite=make_suite(environments=4, families=families))
    for condition, outcomes in (("selfgen-always", (T,) * 9), ("no-skill", (T, F, F, T, F, F, T, F, F))):
        author = {"author_model": ""} if condition == "no-skill" else {}
        make_learning_run(experiment, condition=condition, outcomes=outcomes, **author)
    return experiment


def look(experiment: Experiment) -> Certainty:
    return assess(comparison_of(Choices(experiment=(experiment.public_id,))), ESR)


def test_other_tasks_widen_the_interval_and_never_narrow_it() -> None:
    (group,) = look(make_arms()).groups
    assert group.families == 12
    assert group.other_tasks is not None
    assert group.difference.interval is not None
    assert group.other_tasks.low <= group.difference.interval.low
    assert group.other_tasks.high >= group.difference.interval.high


def test_two_families_say_nothing_of_others() -> None:
    experiment = make_experiment(suite=make_suite(environments=2, families=1))
    for condition in ("selfgen-always", "no-skill"):
        make_learning_run(experiment, condition=condition)
    assert {group.other_tasks for group in look(experiment).groups} == {None}


def test_a_task_that_no_trial_passes_never_moves() -> None:
    experiment = make_arms()
    passed_by_all = {item.task for item in look(experiment).items if item.never_moves}
    assert len(passed_by_all) == 12
    dead = Trial.objects.filter(phase="deployment").exclude(task__in=passed_by_all).first().task
    Trial.objects.filter(task=dead).update(success=False)
    experiment.runs.touch()
    found = look(experiment)
    assert {item.task for item in found.items if item.never_moves} == {*passed_by_all, dead}
    assert found.items[0].task == dead, "the hardest first"
    assert found.moving == len(found.items) - 13
    assert {(item.baseline, item.gain, item.loss) for item in found.items if not item.never_moves} == {(0.0, 1.0, 0.0)}


def test_trials_that_read_no_skill_are_left_out_of_the_last_column() -> None:
    experiment = make_arms()
    own = Trial.objects.filter(episode__run__condition="selfgen-always", phase="deployment")
    own.update(skills_read=1)
    idle = own.order_by("pk").first()
    Trial.objects.filter(pk=idle.pk).update(skills_read=0, success=False)
    experiment.runs.touch()
    (group,) = look(experiment).groups
    assert group.read is not None
    assert group.read.tasks == group.difference.tasks - 1
    assert group.read.own == 1


def test_the_page_answers_first_and_its_twin_has_the_same_numbers(
    client: Client, django_assert_max_num_queries
) -> None:
    experiment = make_arms()
    address = f"/compare/certainty/?experiment={experiment.public_id}"
    body = client.get(address).content.decode()
    assert "Sure of the direction, of 1 difference: 1 for these tasks" in body
    twin = client.get(address.replace("certainty/", "certainty.json")).json()
    assert twin["groups"][0]["difference"]["delta"] == pytest.approx(2 / 3)
    assert len(twin["items"]) == 36
    assert np.isfinite(twin["measured"]["spread"]["sample"])
    with django_assert_max_num_queries(30):
        client.get(address)


def test_a_passed_trial_has_a_price_in_dollars_or_else_in_tokens(client: Client) -> None:
    experiment = make_arms()
    trials = Trial.objects.filter(episode__run__experiment=experiment, phase="deployment")
    trials.update(cost_usd=0.5, input_tokens=900, output_tokens=100)
    experiment.runs.touch()
    of = {
        cost.group.condition: cost
        for cost in list_costs(comparison_of(Choices(experiment=(experiment.public_id,))), ESR)
    }
    assert {cost.unit for cost in of.values()} == {MetricUnit.USD}
    assert of["selfgen-always"].cost.per_solved == 0.5, "each of its trials passed"
    assert of["no-skill"].cost.per_solved == pytest.approx(1.5), "one of three passed"
    page = client.get(f"/compare/cost/?experiment={experiment.public_id}").content.decode()
    assert "What a passed trial cost" in page
    assert "$1.50" in page
    trials.filter(pk=trials.first().pk).update(cost_usd=None)
    experiment.runs.touch()
    twin = client.get(f"/compare/cost.json?experiment={experiment.public_id}").json()
    assert {(each["unit"], round(each["cost"]["per_trial"])) for each in twin["groups"]} == {("tokens", 1000)}


def test_who_read_what_others_learned_is_on_the_page(client: Client) -> None:
    experiment = make_arms()
    page = client.get(f"/compare/certainty/?experiment={experiment.public_id}").content.decode()
    assert "Whose skills were read where" in page
    assert "the family that wrote it" in page
    twin = client.get(f"/compare/certainty.json?experiment={experiment.public_id}").json()
    own = twin["transfer"]["directions"]["own"]
    assert own["other"] is not None
    assert sum(cell["trials"] for cell in twin["transfer"]["cells"]) == own["trials"]


def test_a_skill_that_was_left_out_says_what_it_adds(client: Client) -> None:
    experiment = make_arms()
    episode = experiment.runs.get(condition="selfgen-always").episodes.first()
    make_probe(episode, "pppf")
    left_out = make_probe(episode, "pfff", reverted=1)
    Probe.objects.filter(pk=left_out.pk).update(skill="table-joins", decision=None)
    text = client.get("/compare/certainty/", {"experiment": str(experiment.public_id)}).text
    table = text[text.index("What a skill adds") :]
    assert "<code>table-joins</code>" in table
    assert "<b>+50.0 points</b>" in table
    assert "too small to say" in table, "one library has no error"
