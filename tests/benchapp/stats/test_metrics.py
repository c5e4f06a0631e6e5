from __future__ import annotations

import pytest

from benchapp.models import Attempt, Run, Trial
from benchapp.stats.inference.shares import Rate
from benchapp.stats.metrics.catalogue import rates_of
from benchapp.stats.metrics.comparability import Comparability
from benchapp.stats.metrics.no_skill_sibling import compare_with_no_skill, outcomes_of, read_outcomes, sibling_of
from benchapp.stats.metrics.spending import spent_by
from benchapp.stats.metrics.tally import TrialTally, tally_by
from tests.worlds.factories import make_attempt, make_experiment, make_learning_run, make_run, make_suite, make_trial

pytestmark = pytest.mark.django_db

T, F = True, False


def test_it_counts_the_six_rates() -> None:
    make_learning_run(families=2, outcomes=(T, F, F, T, T, None, T, T, F))
    assert rates_of(tally_by(Trial.objects.all(), "phase", "task__role")) == {
        "LSR": Rate(2, 6, 6),
        "RSR": Rate(4, 6, 6),
        "ESR": Rate(4, 4, 6),
        "CSSR": Rate(2, 2, 2),
        "ARSR": Rate(2, 2, 2),
        "CompSR": Rate(0, 0, 2),
    }


def test_it_keeps_runs_apart() -> None:
    first, second = make_learning_run(families=1), make_learning_run(families=2)
    tallies = tally_by(Trial.objects.all(), "episode__run")
    assert (tallies[first.pk].total, tallies[second.pk].total) == (9, 18)


def test_it_tallies_trials() -> None:
    run = make_learning_run(families=1, outcomes=(T, F, None, T, F, T, T, T, F))
    trial = make_trial(run.episodes.get(), finished=False)
    assert tally_by(Trial.objects.all(), "episode__run") == {run.pk: TrialTally(total=10, done=9, scored=8, passed=5)}
    assert tally_by(Trial.objects.filter(pk=trial.pk), "phase", "status") == {
        ("acquisition", "waiting"): TrialTally(total=1)
    }


def test_it_bills_every_attempt_but_no_superseded_one() -> None:
    trial = make_trial(attempt={"input_tokens": 100, "cost_usd": None})
    make_attempt(trial, counts=False, input_tokens=50, cost_usd=0.5)
    make_attempt(trial, counts=False, input_tokens=7, status=Attempt.Status.SUPERSEDED)
    spent = spent_by(Attempt.objects.billed(), "trial__episode__run")[trial.episode.run_id]
    assert (spent.things, spent.input_tokens, spent.cost_usd, spent.cost_known) == (2, 150, 0.5, 1)
    assert spent.is_partial


def test_it_compares_with_no_skill_only_where_both_were_scored() -> None:
    suite = make_suite(environments=1, families=2)
    experiment = make_experiment(suite=suite)
    base = make_learning_run(experiment, condition="no-skill", outcomes=(T, F, None, F, F, F, T, F, F))
    run = make_learning_run(experiment, outcomes=(T, T, T, T, F, None, T, T, T))
    assert sibling_of(run) == base
    assert sibling_of(base) is None
    found = compare_with_no_skill(outcomes_of(Trial.objects.filter(episode__run=run).for_grid()), read_outcomes(base))
    assert (found["LSR"].own, found["LSR"].sibling) == (Rate(4, 4, 4), Rate(2, 4, 4))
    assert found["ESR"].difference == pytest.approx(0.5)
    assert found["RSR"].phase == "replay"
    assert "CompSR" not in found


def test_it_holds_replay_against_the_first_try_where_the_baseline_replays_nothing() -> None:
    suite = make_suite(environments=1, families=1)
    experiment = make_experiment(suite=suite)
    base = make_learning_run(experiment, condition="no-skill", outcomes=(T, F, F, F, F, F, T, T, T))
    Trial.objects.filter(episode__run=base, phase="replay").update(success=None)
    run = make_learning_run(experiment, outcomes=(T, F, F, F, F, F, T, T, F))
    replay = compare_with_no_skill(outcomes_of(Trial.objects.filter(episode__run=run).for_grid()), read_outcomes(base))[
        "RSR"
    ]
    assert (replay.phase, replay.own.passed, replay.sibling.passed) == ("acquisition", 2, 1)


def test_it_names_what_differs_between_setups() -> None:
    experiment = make_experiment()
    runs = [make_run(experiment, setup={"suite": "a", "limits": {"turns": turns}}) for turns in (20, 30)]
    found = Comparability(runs)
    assert found.differs == ("limits.turns",)
    assert found.parts == ["limits"]
    assert not found.is_comparable


def test_it_compares_across_agents_and_models_but_not_across_feedback() -> None:
    experiment = make_experiment()

    def run(model: str, feedback: str) -> Run:
        agent = {"name": "shell", "version": "1", "model": model}
        return make_run(experiment, setup={"agent": agent, "author": {"model": model, "feedback": feedback}})

    assert Comparability([run("a", "process"), run("b", "process")]).is_comparable
    assert Comparability([run("a", "process"), run("b", "none")]).differs == ("author.feedback",)


def test_one_model_in_two_versions_is_not_comparable_but_two_models_are() -> None:
    experiment = make_experiment()

    def run(model: str, version: str) -> Run:
        return make_run(experiment, setup={"agent": {"model": model, "model_version": version}})

    assert Comparability([run("a", "1"), run("b", "2")]).is_comparable
    assert Comparability([run("a", "1"), run("a", "1")]).is_comparable
    assert Comparability([run("a", "1"), run("a", "2"), run("b", "2")]).differs == ("agent.model_version",)


def test_it_never_calls_an_unknown_setup_equal() -> None:
    experiment = make_experiment()
    runs = [make_run(experiment, setup={}, setup_digest="") for _ in range(2)]
    found = Comparability(runs)
    assert (found.differs, found.unknown) == ((), 2)
    assert not found.is_comparable


def test_two_settings_of_one_benchmark_are_compared_and_two_protocols_are_not() -> None:
    experiment = make_experiment()

    def run(protocol: str, turns: int = 20) -> Run:
        return make_run(experiment, setup={"protocol": protocol, "limits": {"turns": turns}})

    conditioned, agnostic = run("skillgenbench"), run("skillgenbench-agnostic")
    found = Comparability([agnostic, conditioned])
    assert found.is_comparable
    assert found.setting_names == ["task-conditioned", "task-agnostic"]
    assert Comparability([conditioned, conditioned]).settings == ()
    assert Comparability([conditioned, run("skillgenbench-agnostic", 30)]).differs == ("limits.turns",)
    assert Comparability([conditioned, agnostic, run("skillflow")]).differs == ("protocol",)
