"""What a probe found stands beside its control, the run it comes from and no-skill, k of n on each side."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from benchapp.experiments.probe_results import CONTROL, NO_SKILL, ORIGINAL, ProbeResult, read_results
from benchapp.models import Episode, Probe, Run, Trial
from tests.worlds.factories import make_experiment, make_learning_run, make_snapshot, make_suite
from tests.worlds.probe_factories import make_probe

pytestmark = pytest.mark.django_db


@pytest.fixture
def origin() -> Episode:
    """Deployment failed, failed, passed with the library; all failed without."""
    experiment = make_experiment(suite=make_suite(environments=1, families=1))
    make_learning_run(experiment, condition="no-skill", author_model="", outcomes=(False,) * 9)
    run = make_learning_run(experiment)
    return run.episodes.get()


def result_of(probe: Probe) -> ProbeResult:
    (found,) = read_results(Probe.objects.not_deleted().filter(pk=probe.pk))
    return found


def told(result: ProbeResult, side: str) -> tuple[int, int]:
    count = result.side(side)
    return count.passed, count.scored


def test_it_counts_its_own_trials_and_says_what_is_missing(origin: Episode) -> None:
    found = result_of(make_probe(origin, "ppf-"))
    assert (found.own.passed, found.own.scored, found.own.total) == (2, 3, 4)
    assert not found.is_over


def test_beside_it_stand_the_same_tasks_of_its_run_and_of_no_skill(origin: Episode) -> None:
    found = result_of(make_probe(origin, "pp"))
    task = found.lines[0].task
    original = Trial.objects.get(episode=origin, task=task, phase="deployment")
    assert told(found, ORIGINAL) == (int(original.success is True), 1)
    assert told(found, NO_SKILL) == (0, 1)
    assert told(found, CONTROL) == (0, 0)


def test_a_probe_without_hunks_is_the_control_of_those_with_some(origin: Episode) -> None:
    control, other_round = (
        make_probe(origin, "ppppp"),
        make_probe(origin, "fff", frozen=make_snapshot({"x/SKILL.md": "x"})),
    )
    found = result_of(make_probe(origin, "fffff", reverted=1))
    assert told(found, CONTROL) == (5, 5)
    assert found.tests[CONTROL].p == pytest.approx(2 / 252)
    assert told(result_of(control), CONTROL) == told(result_of(other_round), CONTROL) == (0, 0)


def test_nothing_is_tested_before_the_last_trial_ended_on_both_sides(origin: Episode) -> None:
    control = make_probe(origin, "pppp-")
    found = result_of(make_probe(origin, "fffff", reverted=1))
    assert (told(found, CONTROL), found.is_over) == ((4, 4), False)
    assert CONTROL not in found.tests
    assert result_of(control).tests == {}
    control.run.episodes.get().trials.filter(is_done=False).update(is_done=True)  # it ended without a score
    found = result_of(Probe.objects.exclude(pk=control.pk).get())
    assert (found.is_over, CONTROL in found.tests) == (True, True)


def test_a_control_of_another_setup_is_none(origin: Episode) -> None:
    control = make_probe(origin, "ppppp")
    Run.objects.filter(pk=control.run_id).update(setup_digest="e" * 64)
    assert told(result_of(make_probe(origin, "fffff", reverted=1)), CONTROL) == (0, 0)


def test_the_original_is_tested_only_where_it_ran_with_that_library(origin: Episode) -> None:
    Trial.objects.filter(episode=origin, phase="deployment").update(snapshot=origin.library)
    assert ORIGINAL in result_of(make_probe(origin, "pp")).tests
    earlier = result_of(make_probe(origin, "pp", frozen=make_snapshot({"y/SKILL.md": "y"})))
    assert ORIGINAL not in earlier.tests
    assert told(earlier, ORIGINAL)[1] == 1


def test_an_acquisition_task_is_held_against_its_replay(origin: Episode) -> None:
    Trial.objects.filter(episode=origin, phase="replay").update(snapshot=origin.library)
    found = result_of(make_probe(origin, "pp", phase="acquisition"))
    assert set(found.tests) == {ORIGINAL, NO_SKILL}
    assert found.untested == []


def test_trials_of_acquisition_are_shown_and_not_tested(origin: Episode) -> None:
    bare = Trial.objects.filter(episode__run__condition="no-skill")
    bare.filter(phase="replay").delete()
    Trial.objects.filter(episode=origin, phase="replay").delete()
    Trial.objects.filter(episode=origin, phase="acquisition").update(snapshot=origin.library)
    found = result_of(make_probe(origin, "pp", phase="acquisition"))
    assert told(found, NO_SKILL) == (0, 1)
    assert (found.tests, found.untested) == ({}, [(ORIGINAL, 1), (NO_SKILL, 1)])


def test_a_tainted_run_is_left_out(origin: Episode) -> None:
    Episode.objects.filter(pk=origin.pk).update(is_tainted=True)
    assert told(result_of(make_probe(origin, "pp")), ORIGINAL) == (0, 0)


def test_a_probe_outlives_the_run_it_comes_from(origin: Episode) -> None:
    probe = make_probe(origin, "pf")
    origin.run.experiment.delete()
    found = result_of(probe)
    assert (found.own.passed, found.own.scored) == (1, 2)
    assert found.tests == {}


def test_any_number_of_probes_asks_as_many_queries(origin: Episode) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as asked:
            assert read_results(Probe.objects.not_deleted())
        return len(asked)

    make_probe(origin, "pf", reverted=1)
    make_probe(origin, "pf")
    few = queries()
    for _ in range(6):
        make_probe(origin, "ppf", reverted=1)
    assert queries() == few
