"""Deleting hides at once and removes later; what others share stays."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from benchapp import audit
from benchapp.management.commands.sweep import StillWorking, sweep
from benchapp.models import (
    Activity,
    Blob,
    Chunk,
    CodeExample,
    Comment,
    Decision,
    Entry,
    Episode,
    Experiment,
    ImportBatch,
    ModelCall,
    Seal,
    Snapshot,
    Trial,
)
from benchapp.models.experiments import StillReviewed, StillRunning
from lab.synthesis.campaign import Size, write_campaign
from runner.engine.engine import run_episode
from tests.benchapp.small_rows import make_episode, recorder_of, small_suite
from tests.runner.small_episode import small_toolbox
from tests.worlds.factories import make_decision, make_family, make_snapshot, make_trial, make_user
from tests.worlds.factories import make_episode as make_own_episode
from tests.worlds.review_factories import make_code, make_item, make_queue, make_version

pytestmark = pytest.mark.django_db
SIZE = Size(30, 60, 12)


def test_it_hides_at_once_and_removes_at_the_sweep():
    experiment = write_campaign(SIZE)
    call_command("delete_experiment", str(experiment.public_id), confirm=experiment.name, reason="a try")
    assert not Experiment.objects.not_deleted().exists()
    assert Trial.objects.count() == 30
    assert Activity.objects.get(verb="delete").reason == "a try"
    swept = sweep()
    assert swept.experiments == 1
    assert (Trial.objects.count(), Chunk.objects.count(), Snapshot.objects.count(), Blob.objects.count()) == (
        0,
        0,
        0,
        0,
    )


def test_it_removes_what_our_own_runs_record(tmp_path):
    """Decisions point at calls and compactions, entries at everything:
    all of it belongs to the run and goes with it."""
    episode, plan = make_episode(small_suite(tmp_path), "selfgen-always")
    run_episode(plan, recorder_of(episode), small_toolbox())
    assert Decision.objects.exclude(call=None).filter(evidence__compaction__isnull=False).exists()
    Experiment.objects.update(status="done")
    Episode.objects.update(lease_until=None)
    Experiment.objects.get().entomb(actor=None, reason="")
    assert sweep().experiments == 1
    assert not any(model.objects.exists() for model in (Trial, Decision, ModelCall, Entry, Seal, Snapshot))
    assert list(audit.flaws()) == []


def test_it_keeps_what_another_experiment_shares():
    first, second = write_campaign(SIZE), write_campaign(SIZE, seed=2)
    first.entomb(actor=None, reason="")
    sweep()
    assert list(Experiment.objects.all()) == [second]
    assert list(audit.flaws()) == []


@pytest.mark.parametrize("size", [1, 7])
def test_it_removes_a_batch_at_a_time(tmp_path, monkeypatch, size):
    """The next sweep removes the rows that a killed one left, wherever a batch ended."""
    monkeypatch.setattr("benchapp.management.commands.sweep.TRIALS", size)
    monkeypatch.setattr("benchapp.management.commands.sweep.CONTENTS", size)
    episode, plan = make_episode(small_suite(tmp_path), "selfgen-always")
    run_episode(plan, recorder_of(episode), small_toolbox())
    Experiment.objects.update(status="done")
    Episode.objects.update(lease_until=None)
    kept = write_campaign(SIZE)
    before = Blob.objects.count()
    Experiment.objects.exclude(pk=kept.pk).get().entomb(actor=None, reason="")
    with monkeypatch.context() as killed:
        killed.setattr(Experiment, "delete", _fail)
        with pytest.raises(KeyboardInterrupt):
            sweep()
    swept = sweep()
    assert (swept.experiments, list(Experiment.objects.all())) == (1, [kept])
    assert 0 < swept.blobs == before - Blob.objects.count()
    assert list(audit.flaws()) == []


def _fail(experiment):
    raise KeyboardInterrupt


def test_it_wants_the_right_name():
    experiment = write_campaign(SIZE)
    with pytest.raises(CommandError, match="nothing was deleted"):
        call_command("delete_experiment", str(experiment.public_id), confirm="another")
    assert Experiment.objects.not_deleted().count() == 1


def test_it_does_not_delete_what_still_runs():
    experiment = write_campaign(SIZE)
    Experiment.objects.update(status="running")
    experiment.refresh_from_db()
    with pytest.raises(StillRunning):
        experiment.entomb(actor=None, reason="")


def test_the_sweep_waits_for_those_who_write():
    write_campaign(SIZE).entomb(actor=None, reason="")
    Episode.objects.filter(pk=Episode.objects.first().pk).update(lease_until=timezone.now() + timedelta(seconds=60))
    with pytest.raises(StillWorking, match="episode"):
        sweep()
    Episode.objects.update(lease_until=None)
    ImportBatch.objects.create(paths=[], format="auto")
    with pytest.raises(StillWorking, match="import"):
        sweep()
    assert Trial.objects.count() == 30


# --- what people's work is about ------------------------------------------------------------------------------------


def reviewed() -> Experiment:
    trial = make_trial(success=False)
    make_queue([trial])
    experiment = trial.episode.run.experiment
    Experiment.objects.update(status="done")
    experiment.refresh_from_db()
    return experiment


def test_it_does_not_delete_what_a_review_is_about():
    experiment = reviewed()
    with pytest.raises(StillReviewed, match="people's work is about it: 1 item of a review queue"):
        experiment.entomb(actor=None, reason="")
    with pytest.raises(CommandError, match="people's work is about it"):
        call_command("delete_experiment", str(experiment.public_id), confirm=experiment.name)
    assert Experiment.objects.not_deleted().count() == 1


@pytest.mark.parametrize("unit", ["decision", "snapshot", "example", "comment"])
def test_whatever_people_said_keeps_what_it_is_about(unit):
    episode = make_own_episode()
    decision = make_decision(episode, make_family(), after=make_snapshot({"a/SKILL.md": "x"}))
    if unit == "comment":
        person = make_user()
        Comment.objects.create(on="line", place="x", address="/", run=episode.run, author=person, text="Why?")
    elif unit == "example":
        CodeExample.objects.create(code=make_code(make_version(frozen=False), "x"), decision=decision)
    else:
        target = {"decision": decision} if unit == "decision" else {"snapshot": decision.after, "episode": episode}
        make_item(make_queue([]), **target)
    Experiment.objects.update(status="done")
    experiment = Experiment.objects.get(runs=episode.run)
    with pytest.raises(StillReviewed, match="people's work is about it: 1 "):
        experiment.entomb(actor=None, reason="")


def test_the_sweep_keeps_and_names_what_came_under_review_after_it_was_deleted(capsys):
    experiment = reviewed()
    Experiment.objects.filter(pk=experiment.pk).update(deleted_at=timezone.now())
    write_campaign(SIZE).entomb(actor=None, reason="")
    call_command("sweep")
    said = capsys.readouterr().out
    assert "removed 1 experiments" in said
    assert f"{experiment.name} (1 item of a review queue)" in said
    assert list(Experiment.objects.all()) == [experiment]
