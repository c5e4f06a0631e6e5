"""Skills written after one family and read in tasks of another."""

from __future__ import annotations

import pytest

from benchapp.models import Run, SkillUse, Trial
from benchapp.stats.comparing.certainty import Direction, read_transfer
from tests.worlds.factories import make_learning_run

pytestmark = pytest.mark.django_db
PASSES = (True, False, False, True, False, True, True, True, False)


@pytest.fixture
def run() -> Run:
    """Two families of nine trials, each reading its own skill in every other one;
    then a later and an earlier family read too."""
    return make_learning_run(families=2, outcomes=PASSES)


def read(trial: Trial, skill: str) -> None:
    SkillUse.objects.create(attempt=trial.counting_attempt(), skill=skill, kind="read")


def test_own_later_and_earlier_families_are_told_apart(run: Run) -> None:
    first, second = run.episodes.get().environment.families.order_by("ordinal")
    trials = Trial.objects.filter(episode__run=run)
    read(trials.filter(phase="deployment", task__family=second)[1], first.slug)
    backward = trials.filter(phase="replay", task__family=first, success=True)[0]
    read(backward, second.slug)
    found = read_transfer([run], {})
    assert {direction: each.trials for direction, each in found.directions.items()} == {
        Direction.OWN: 8,
        Direction.FORWARD: 1,
        Direction.BACKWARD: 1,
    }
    assert found.directions[Direction.BACKWARD].share == 1.0
    assert [(cell.writer, cell.reader, cell.direction) for cell in found.cells] == [
        (first, first, "own"),
        (first, second, "forward"),
        (second, first, "backward"),
        (second, second, "own"),
    ]


def test_the_baseline_is_that_of_the_same_tasks(run: Run) -> None:
    own = read_transfer([run], {})
    tasks = Trial.objects.filter(episode__run=run, skills_read__gt=0).values_list("task", flat=True).distinct()
    assert own.directions[Direction.OWN].other is None
    one = tasks[0]
    passed = [each.success for each in Trial.objects.filter(episode__run=run, skills_read__gt=0, task=one)]
    found = read_transfer([run], {one: 0.25, -1: 1.0}).directions[Direction.OWN]
    assert (found.tasks, found.other) == (1, 0.25)
    assert found.share == sum(passed) / len(passed)


def test_skills_that_nobody_here_wrote_do_not_count(run: Run) -> None:
    SkillUse.objects.filter(attempt__trial__episode__run=run).update(skill="given-from-outside")
    assert read_transfer([run], {}) is None


def test_tainted_and_unscored_trials_are_left_out(run: Run, django_assert_num_queries) -> None:
    with django_assert_num_queries(4):
        read_transfer([run], {})
    Trial.objects.filter(episode__run=run).update(success=None)
    assert read_transfer([run], {}) is None
    Trial.objects.filter(episode__run=run).update(success=True)
    run.episodes.update(is_tainted=True)
    assert read_transfer([run], {}) is None
