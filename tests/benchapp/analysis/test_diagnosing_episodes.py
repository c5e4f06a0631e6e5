"""What an episode's library is held against: what came before it, and what no skill had said yet."""

from __future__ import annotations

import pytest
from django.core.management import call_command

from benchapp.analysis.diagnoses import diagnosis_queue
from benchapp.analysis.diagnoses.diagnosis import RULES_VERSION
from benchapp.analysis.diagnoses.diagnosis_queue import (
    diagnose_episode,
    enqueue_reading,
    read_libraries,
    select_unread,
    select_with_library,
)
from benchapp.analysis.lineage.library_states import read_named_libraries
from benchapp.management.commands.sweep import sweep
from benchapp.models import Episode, LibraryDiagnosis, LibraryFinding, Seeding, SkillUse, Trial
from benchapp.record import slices
from runner.base.types import Check, CheckGroup, CheckStatus, Observation, Source, Step
from tests.worlds.factories import (
    add_entry,
    make_decision,
    make_episode,
    make_experiment,
    make_family,
    make_run,
    make_snapshot,
    make_task,
    make_trial,
    make_unordered_episode,
    make_verdict,
    record_steps,
)

pytestmark = pytest.mark.django_db

SKILL = "---\nname: a\ndescription: Merge supplier records by tax number when lists from two systems overlap.\n---\n\n"
SECRET = "ACME-20391-X"


def library(line: str) -> object:
    return make_snapshot({"a/SKILL.md": f"{SKILL}{line}\n"})


def saw(trial: Trial, text: str, *, number: int = 2) -> None:
    record_steps(
        trial.attempts.get(counts=True),
        [
            Step(1, Source.USER, "Do the task."),
            *(Step(at, Source.AGENT, "Going on.") for at in range(2, number)),
            Step(number, Source.AGENT, "Looking.", observations=(Observation(text),)),
        ],
    )


def on_spine(episode: Episode, task: object, text: str, **fields: object) -> Trial:
    trial = make_trial(episode, task, **fields)
    if not hasattr(trial.attempts.get(), "entry"):
        add_entry(episode, "trial", attempt=trial.attempts.get(counts=True))
    saw(trial, text)
    return trial


@pytest.fixture
def family():
    return make_family()


@pytest.fixture
def episode(family):
    return make_episode(make_run(make_experiment()), environment=family.environment)


def leaks(episode: Episode) -> list[tuple[str, str]]:
    rows = LibraryFinding.objects.filter(diagnosis__episode=episode, rule="episode-constant")
    return list(rows.order_by("pk").values_list("quote", "severity"))


def test_a_constant_of_one_earlier_task_is_an_alarm_with_its_step(episode, family):
    first, second, third = family.tasks.all()[:3]
    trial = on_spine(episode, first, f"row {SECRET} found")
    on_spine(episode, second, "row 1 found")
    on_spine(episode, third, "row 2 found")
    make_decision(episode, family, after_trial=trial, after=library(f"Start at {SECRET}."))
    assert diagnose_episode(episode) == 1
    assert leaks(episode) == [(SECRET, "alarm")]
    finding = LibraryFinding.objects.get(rule="episode-constant")
    assert (finding.trial, finding.step, finding.field) == (trial, 2, "observations/0")


def test_what_two_tasks_showed_belongs_to_the_family(episode, family):
    first, second = family.tasks.all()[:2]
    trial = on_spine(episode, first, f"row {SECRET} found")
    on_spine(episode, second, f"again {SECRET}")
    make_decision(episode, family, after_trial=trial, after=library(f"Start at {SECRET}."))
    diagnose_episode(episode)
    assert leaks(episode) == []


def test_what_is_met_only_after_it_was_written_is_no_leak(episode, family):
    first, second = family.tasks.all()[:2]
    trial = on_spine(episode, first, "nothing here")
    make_decision(episode, family, after_trial=trial, after=library(f"Start at {SECRET}."))
    on_spine(episode, second, f"the agent did as told: {SECRET}")
    make_decision(episode, family, after_trial=trial, after=library(f"Start at {SECRET}, then go on."))
    assert diagnose_episode(episode) == 2
    assert leaks(episode) == []


def test_what_was_read_out_of_a_skill_is_no_sighting(episode, family):
    first, second = family.tasks.all()[:2]
    trial = on_spine(episode, first, f"# A skill\nStart at {SECRET}")
    attempt = trial.attempts.get(counts=True)
    SkillUse.objects.create(attempt=attempt, trajectory=attempt.trajectories.get(), skill="a", kind="read", step=2)
    on_spine(episode, second, "x")
    make_decision(episode, family, after_trial=trial, after=library(f"Start at {SECRET}."))
    diagnose_episode(episode)
    assert leaks(episode) == []


def test_another_runs_trial_of_a_later_task_weighs_less_and_is_named(episode, family):
    bare = make_run(episode.run.experiment, condition="no-skill")
    elsewhere = make_trial(make_unordered_episode(bare), family.tasks.last())
    saw(elsewhere, f"row {SECRET} found")
    trial = on_spine(episode, family.tasks.first(), "x")
    make_decision(episode, family, after_trial=trial, after=library(f"Start at {SECRET}."))
    diagnose_episode(episode)
    assert leaks(episode) == [(SECRET, "warning")]
    assert "outside this episode" in LibraryFinding.objects.get(rule="episode-constant").says


def test_words_of_a_check_and_the_names_of_hidden_ones_are_found(episode, family):
    said = "expected the supplier totals to be rounded half up after the last sum"
    checks = (Check(CheckGroup.HIDDEN, "test_totals_are_rounded_half_up", CheckStatus.FAILED, said),)
    trial = on_spine(episode, family.tasks.first(), "x", success=False, verdict=make_verdict(False, checks=checks))
    make_decision(
        episode, family, after_trial=trial, after=library(f"Mind: {said}. See test_totals_are_rounded_half_up.")
    )
    diagnose_episode(episode)
    found = LibraryFinding.objects.filter(severity="alarm").values_list("rule", "trial")
    assert sorted(found) == [("hidden-check-name", trial.pk), ("verifier-text", trial.pk)]


def test_what_a_verifier_printed_is_a_warning_and_bounded(episode, family, monkeypatch):
    said = "the reference sheet lists nine suppliers and their rounded totals"
    output = make_verdict(False, output=f"collected 3 items\n{said}\n")
    trial = on_spine(episode, family.tasks.first(), "x", success=False, verdict=output)
    make_decision(episode, family, after_trial=trial, after=library(f"Mind: {said}."))
    diagnose_episode(episode)
    found = LibraryFinding.objects.get(rule="verifier-text")
    assert (found.severity, found.quote, found.trial) == ("warning", said, trial)
    assert found.says.endswith("printed")
    monkeypatch.setattr(diagnosis_queue, "MAX_SPOKEN_CHARS", 30)
    diagnose_episode(episode, again=True)
    assert not LibraryFinding.objects.filter(rule="verifier-text").exists()


def test_text_of_a_human_skill_of_the_same_family_is_found(episode, family):
    said = "Group the rows by their tax number, keep the newest filled cell of each column, and list what was dropped."
    human = make_run(episode.run.experiment, condition="human-authored")
    make_episode(human, environment=family.environment, library=make_snapshot({"h/SKILL.md": f"# H\n{said}\n"}))
    trial = on_spine(episode, family.tasks.first(), "x")
    make_decision(episode, family, after_trial=trial, after=library(f"So: {said}"))
    diagnose_episode(episode)
    found = LibraryFinding.objects.get(rule="reference-text")
    assert "human-authored skill's h/SKILL.md" in found.says


@pytest.mark.parametrize(("condition", "found"), [("curated-revision", 1), ("library-probe", 0)])
def test_a_library_that_a_probe_starts_from_is_nobodys_reference(episode, family, condition, found):
    said = "Group the rows by their tax number, keep the newest filled cell of each column, and list what was dropped."
    trial = on_spine(episode, family.tasks.first(), "x")
    make_decision(episode, family, after_trial=trial, after=library(f"So: {said}"))
    started = make_episode(make_run(make_experiment(), condition=condition), environment=family.environment)
    skill = make_snapshot({f"{family.slug}/SKILL.md": f"{SKILL}So: {said}\n"})
    add_entry(started, "seed", seeding=Seeding.objects.create(family=family, snapshot=skill))
    diagnose_episode(episode)
    assert LibraryFinding.objects.filter(rule="reference-text").count() == found


def test_it_is_read_once_until_something_changes(episode, family):
    trial = on_spine(episode, family.tasks.first(), "x")
    make_decision(episode, family, after_trial=trial, after=library("One."))
    assert [diagnose_episode(episode), diagnose_episode(episode)] == [1, 0]
    bare = make_trial(
        make_unordered_episode(make_run(episode.run.experiment, condition="no-skill")), family.tasks.last()
    )
    saw(bare, "y")
    assert [diagnose_episode(episode), diagnose_episode(episode)] == [1, 0]
    LibraryDiagnosis.objects.update(rules_version="older")
    assert diagnose_episode(episode) == 1
    assert LibraryDiagnosis.objects.get().rules_version == RULES_VERSION


def test_every_state_is_read_and_the_empty_one_is_not(episode, family):
    trial = on_spine(episode, family.tasks.first(), "x")
    for line in ("One.", "Two."):
        make_decision(episode, family, after_trial=trial, after=library(line))
    make_decision(episode, family, after_trial=trial, status="rejected")
    assert [state.snapshot.files_total for state in read_named_libraries(episode)] == [1, 1]
    assert diagnose_episode(episode) == 2


def test_the_job_and_the_command_do_the_same(episode, family, capsys):
    make_decision(episode, family, after_trial=make_trial(episode, family.tasks.first()), after=library("One."))
    assert list(select_unread(Episode.objects.all())) == [episode]
    read_libraries([str(episode.public_id)])
    assert not select_unread(Episode.objects.all()).exists()
    call_command("diagnose_libraries")
    assert "checked 0 library states" in capsys.readouterr().out
    call_command("diagnose_libraries", "--again", "--run", str(episode.run.public_id))
    assert "checked 1 library states" in capsys.readouterr().out


def test_an_import_without_a_spine_is_held_against_other_runs_only():
    task = make_task()
    run = make_run(make_experiment(origin="imported"), condition="one-shot")
    episode = make_unordered_episode(run, library=library(f"Start at {SECRET}."))
    saw(make_trial(episode, task), f"row {SECRET} found")
    assert diagnose_episode(episode) == 1
    assert leaks(episode) == []
    oracle = make_trial(make_unordered_episode(make_run(run.experiment, condition="unknown")), task)
    saw(oracle, f"row {SECRET} found")
    assert diagnose_episode(episode) == 1
    assert leaks(episode) == [(SECRET, "warning")]


def test_a_deleted_experiment_takes_its_diagnoses_along(episode, family):
    make_decision(episode, family, after_trial=make_trial(episode, family.tasks.first()), after=library("One."))
    diagnose_episode(episode)
    experiment = episode.run.experiment
    experiment.deleted_at = experiment.created_at
    experiment.save()
    sweep()
    assert not LibraryDiagnosis.objects.exists()


def test_a_state_that_another_worker_stored_at_this_moment_does_not_stop_the_others(episode, family, monkeypatch):
    trial = on_spine(episode, family.tasks.first(), "x")
    for line in ("One.", "Two."):
        make_decision(episode, family, after_trial=trial, after=library(line))
    first, second = (state.snapshot for state in read_named_libraries(episode))
    told, met = diagnosis_queue.timezone.now, []

    def meanwhile() -> object:
        """Between taking the old row away and writing the new one."""
        if not met:
            met.append(first)
            counts = dict.fromkeys("alarms warnings notes tasks_seen trials_read trials_left_out references".split(), 0)
            LibraryDiagnosis.objects.create(episode=episode, snapshot=first, diagnosed_at=told(), **counts)
        return told()

    monkeypatch.setattr(diagnosis_queue.timezone, "now", meanwhile)
    diagnose_episode(episode)  # the first is rolled back here with the row that stood in its way
    assert list(LibraryDiagnosis.objects.values_list("snapshot", flat=True)) == [second.pk]


def test_many_libraries_are_one_job_that_takes_turns_and_a_broken_one_stops_no_other(episode, family, monkeypatch):
    make_decision(episode, family, after_trial=make_trial(episode, family.tasks.first()), after=library("One."))
    other = make_unordered_episode(make_run(episode.run.experiment, condition="one-shot"), library=library("Two."))
    queued: list[list[str]] = []
    monkeypatch.setattr(diagnosis_queue, "_enqueue", queued.append)
    assert enqueue_reading(select_with_library(Episode.objects.all())) == 2
    assert queued == [[str(episode.public_id), str(other.public_id)]]
    monkeypatch.setattr(slices, "SLICE_SECONDS", -1)
    read_libraries(queued[0])
    assert queued[1:] == [[str(other.public_id)]]
    assert list(select_unread(Episode.objects.all())) == [other]

    def broken(each: Episode) -> int:
        if each == episode:
            raise ValueError("a rule that fails")
        return diagnose_episode(each)

    monkeypatch.setattr(slices, "SLICE_SECONDS", 60)
    monkeypatch.setattr(diagnosis_queue, "diagnose_episode", broken)
    read_libraries(queued[0])
    assert not select_unread(Episode.objects.all()).exists()
    assert enqueue_reading(Episode.objects.none()) == 0
    assert len(queued) == 2
