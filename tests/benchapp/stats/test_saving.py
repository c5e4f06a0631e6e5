"""What a saved comparison declares, corrects, and says about a record that moved on."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from benchapp.exports.latex import condition_table, escape
from benchapp.models import Experiment, Run, Trial
from benchapp.stats.comparing.answer import judge_groups
from benchapp.stats.comparing.choices import Choices
from benchapp.stats.comparing.comparison import comparison_of
from benchapp.stats.comparing.effects import Effect
from benchapp.stats.comparing.hypotheses import Corrected, Reopened, save_comparison
from benchapp.stats.metrics.catalogue import METRICS
from benchapp.stats.metrics.metric import TrialMetric
from runner.base.types import Phase
from tests.worlds.factories import make_episode, make_experiment, make_run, make_suite

pytestmark = pytest.mark.django_db

ESR, LSR, CSSR = METRICS["ESR"], METRICS["LSR"], METRICS["CSSR"]
PLACES = ((Phase.ACQUISITION, "canonical"), (Phase.DEPLOYMENT, "context-shift"), (Phase.DEPLOYMENT, "adversarial"))


def make_learner(experiment: Experiment, *, learned: bool, deployed: bool, **fields: object) -> Run:
    """One learning run: in every environment one task of acquisition and two of deployment, all with one outcome."""
    run = make_run(experiment, **fields)
    for environment in experiment.suite.environments.all():
        episode = make_episode(run, environment=environment)
        tasks = {task.role: task for task in environment.families.get().tasks.all()}
        Trial.objects.bulk_create(
            Trial(
                episode=episode,
                task=tasks[role],
                phase=phase,
                success=deployed if phase == Phase.DEPLOYMENT else learned,
                status="passed",
                is_done=True,
                settled_at=timezone.now(),
            )
            for phase, role in PLACES
        )
    return run


def make_three(environments: int = 6, **fields: object) -> Experiment:
    experiment = make_experiment(suite=make_suite(environments=environments, families=1))
    make_learner(experiment, condition="no-skill", author_model="", learned=False, deployed=False, **fields)
    make_learner(experiment, condition="selfgen-always", learned=True, deployed=True, **fields)
    make_learner(experiment, condition="raw-trajectory", author_model="", learned=False, deployed=False, **fields)
    return experiment


def saved(*metrics: TrialMetric, **choices: object) -> Reopened:
    return Reopened(save_comparison(Choices(**choices), metrics, name="three"))


def test_it_corrects_every_group_that_has_a_baseline_in_every_declared_metric() -> None:
    make_three()
    corrected = saved(ESR, LSR).corrected
    declared = {(each.group.condition, each.metric.key) for each in corrected.hypotheses}
    assert declared == {(name, key) for name in ("selfgen-always", "raw-trajectory") for key in ("ESR", "LSR")}
    found = {(each.group.condition, each.metric.key): each for each in corrected.hypotheses}
    assert {each.difference.comparisons for each in corrected.hypotheses if each.difference} == {4}
    assert found["selfgen-always", "ESR"].effect is found["selfgen-always", "LSR"].effect is Effect.BETTER
    assert found["raw-trajectory", "ESR"].p == 1.0
    assert (corrected.found, corrected.tested) == (2, 4)
    assert corrected.futile == ""


def test_two_episodes_once_find_nothing() -> None:
    make_three(environments=2)
    said = saved(ESR, LSR).corrected.futile
    assert "2 episodes with one replicate show too little of it. More episodes, or two replicates" in said


def test_it_counts_a_declared_difference_without_a_result() -> None:
    make_three()
    Trial.objects.filter(phase="acquisition").update(success=None)
    Run.objects.all().touch()
    corrected = saved(ESR, LSR).corrected
    untested = [each for each in corrected.hypotheses if each.p is None]
    assert [each.metric.key for each in untested] == ["LSR", "LSR"]
    assert {each.effect for each in untested} == {Effect.TOO_SMALL}
    assert "no task was scored on both sides" in untested[0].sentence
    tested = [each.difference for each in corrected.hypotheses if each.difference]
    assert {each.comparisons for each in tested} == {4}
    assert corrected.tested == 2
    assert corrected.untested_in_words == "2 of 4 have no task scored on both sides, and count all the same."


def test_it_corrects_over_what_was_declared_not_over_what_is_looked_at() -> None:
    make_three()
    narrow, wide = saved(ESR), saved(ESR, LSR, CSSR)
    group = next(group for group in wide.comparison.groups.all if group.condition == "selfgen-always")
    baseline = wide.comparison.groups.baseline_of(group)
    assert baseline is not None
    found = narrow.corrected.find(group, baseline, ESR), wide.corrected.find(group, baseline, ESR)
    assert {(each.group.condition, each.metric.key) for each in found if each} == {("selfgen-always", "ESR")}
    assert [each.difference.comparisons for each in found if each and each.difference] == [2, 6]
    assert narrow.corrected.find(group, baseline, LSR) is None


def test_it_pins_what_nobody_pinned_and_keeps_a_pin() -> None:
    make_three()
    before = timezone.now()
    fresh = saved(ESR)
    assert fresh.choices.as_of is not None
    assert before <= fresh.choices.as_of <= timezone.now()
    assert saved(ESR, as_of=before).choices.as_of == before
    assert fresh.saved.fingerprint == fresh.choices.seen == fresh.comparison.fingerprint
    assert fresh.moved_on() == []


def test_it_announces_runs_that_came_later_and_leaves_them_out() -> None:
    experiment = make_three()
    kept = saved(ESR)
    numbers = [each.p for each in kept.corrected.hypotheses]
    make_learner(experiment, condition="curated-static", author_model="", learned=True, deployed=True)
    again = Reopened(kept.saved)
    assert [each.p for each in again.corrected.hypotheses] == numbers
    assert again.same_numbers
    assert again.moved_on() == ["1 run that matches came later, and is left out here."]


def test_it_announces_trials_that_were_settled_anew() -> None:
    make_three()
    kept = saved(ESR)
    trial = Trial.objects.filter(phase="deployment", episode__run__condition="selfgen-always").first()
    Trial.objects.filter(pk=trial.pk).update(success=False, settled_at=timezone.now() + timedelta(seconds=1))
    Run.objects.filter(pk=trial.episode.run_id).touch()
    said = Reopened(kept.saved).moved_on()
    assert any(sentence.startswith("1 trial of these runs has new") for sentence in said)
    assert any("fingerprint" in sentence for sentence in said)


def test_it_says_when_numbers_changed_without_anything_new() -> None:
    make_three()
    kept = saved(ESR)
    trial = Trial.objects.filter(phase="deployment", success=True).first()
    Trial.objects.filter(pk=trial.pk).update(success=False)  # as if a row had been edited by hand
    Run.objects.filter(pk=trial.episode.run_id).touch()
    (sentence,) = Reopened(kept.saved).moved_on()
    assert kept.saved.fingerprint in sentence


def test_it_names_a_metric_this_version_does_not_know() -> None:
    make_three()
    kept = saved(ESR).saved
    kept.metrics = ["ESR", "of a later version"]
    again = Reopened(kept)
    assert again.unknown_metrics == ["of a later version"]
    assert [metric.key for metric in again.metrics] == ["ESR"]


def test_it_corrects_nothing_where_no_group_has_a_baseline() -> None:
    make_learner(make_experiment(suite=make_suite(environments=1, families=1)), learned=True, deployed=True)
    assert Corrected.of(comparison_of(Choices()), (ESR,)).hypotheses == ()


# --- LaTeX ----------------------------------------------------------------------------------------------------------


def test_it_escapes_everything_latex_would_read() -> None:
    hostile = "50% of {a}_b & c#d $x$ ~^ \\input{/etc/passwd}\n[x]"
    text = escape(hostile)
    assert "\n" not in text
    assert r"\textbackslash{}input\{/etc/passwd\}" in text
    for bare in ("%", "&", "#", "$", "_"):
        assert text.count(bare) == text.count(f"\\{bare}")


def test_it_writes_the_condition_table_with_counts_differences_and_notes() -> None:
    make_three(scripted=True)
    Run.objects.filter(condition="raw-trajectory").update(setup_digest="", setup={})
    comparison = comparison_of(Choices())
    lines = condition_table(comparison, (ESR, LSR)).splitlines()
    rows = [line for line in lines if line.endswith(r"\\") and " & " in line]
    assert all(line.count(" & ") == 2 for line in rows)
    assert rows[:2] == [r"Condition & Deployment & Acquisition \\", r" & {\scriptsize ESR} & {\scriptsize LSR} \\"]
    assert rows[2] == r"No skill$^{\dagger}$ & 0.0 (0/12) & 0/6 \\"
    assert r"Self, always$^{\dagger}$ & 100.0 (12/12) & 6/6 \\" in rows
    raw = next(line for line in rows if line.startswith("Raw traces"))
    assert raw.startswith(r"Raw traces$^{\dagger\ddagger}$")
    differences = rows[rows.index(r"Self, always$^{\dagger}$ & 100.0 (12/12) & 6/6 \\") + 1]
    assert differences.startswith(" & ")
    assert "$+100.0$" in differences
    assert any("numbers say nothing about any LLM" in line for line in lines)
    assert any("Setup unknown" in line for line in lines)
    assert (lines.count(r"\toprule"), lines.count(r"\bottomrule"), lines[-1]) == (1, 1, r"\end{table}")


def test_it_writes_small_counts_without_a_percentage() -> None:
    make_three(environments=1)
    text = condition_table(comparison_of(Choices()), (ESR,))
    assert r"No skill & 0/2 \\" in text


def test_the_table_sets_bold_what_is_clear_after_correction_alone() -> None:
    make_three(environments=6)
    comparison = comparison_of(Choices())
    judged = judge_groups(comparison, ESR)
    text = condition_table(comparison, (ESR,))
    assert text.count(r"\textbf{") == sum(each.effect.is_clear for each in judged)
    assert "for all groups of its experiment together" in text
