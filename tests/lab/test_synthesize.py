"""Synthetic records have the size asked for and hold like real ones."""

from __future__ import annotations

import pytest

from benchapp import audit
from benchapp.models import Decision, Experiment, Trajectory, Trial
from benchapp.record.record_digest import record_digest
from benchapp.stats.metrics.comparability import Comparability
from lab.synthesis.campaign import AlreadyThere, Size, write_campaign
from lab.synthesis.monster import write_monster
from runner.base.digests import digest_json

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("size", [Size(120, 270, 60), Size(7, 20, 0)])
def test_it_writes_exactly_the_size_asked_for(size):
    write_campaign(size)
    assert Trial.objects.count() == size.trials
    assert sum(Trajectory.objects.values_list("steps_total", flat=True)) == size.steps
    assert Decision.objects.count() == size.decisions
    assert list(audit.flaws()) == []


def test_equal_seeds_give_equal_outcomes():
    outcomes = []
    for _ in range(2):
        experiment = write_campaign(Size(40, 60, 10), seed=4)
        trials = Trial.objects.filter(episode__run__experiment=experiment).order_by("id")
        outcomes.append(list(trials.values_list("success", "steps", "snapshot__digest")))
        experiment.delete()
    assert outcomes[0] == outcomes[1]


def test_the_same_seed_writes_the_same_record_as_ever():
    experiment = write_campaign(Size(280, 600, 90), seed=2)
    assert record_digest(experiment) == "65895567c64960803c3686d443ade6ce63d3e0263fe9ff8ad89f198de576b51c"
    trials = Trial.objects.filter(episode__run__experiment=experiment).order_by("pk")
    numbers = (
        "status",
        "is_done",
        "success",
        "reward",
        "checks_passed",
        "checks_total",
        "steps",
        "turns",
        "input_tokens",
        "cached_tokens",
        "output_tokens",
        "cost_usd",
        "duration_seconds",
        "skills_mounted",
        "skills_read",
        "attempts_total",
        "finished_at",
        "settled_at",
    )
    rows = [[str(value) for value in row] for row in trials.values_list(*numbers)]
    assert digest_json(rows) == "889102954c2955aadae0a334036c508639eb6ef3212700ecd764d26c70b92fa8"


def test_its_runs_may_be_compared_across_conditions():
    runs = write_campaign(Size(280, 280, 0)).runs.all()
    assert len({run.condition for run in runs}) > 1
    assert Comparability(runs).is_comparable


def test_it_says_so_when_the_campaign_is_there_already():
    write_campaign(Size(5, 5, 0))
    with pytest.raises(AlreadyThere, match="already"):
        write_campaign(Size(5, 5, 0))
    assert Experiment.objects.count() == 1


def test_the_monster_has_the_events_and_about_the_bytes_asked_for(tmp_path):
    job = write_monster(tmp_path, events=500, size=1_000_000)
    trajectory = job / "monster__0000001" / "agent" / "trajectory.json"
    assert trajectory.read_bytes().count(b'"step_id"') == 500
    assert 700_000 < trajectory.stat().st_size < 1_300_000
