"""A run folder becomes a run whose episodes have the library's whole line: trials, answers, freeze,
contents from git."""

from __future__ import annotations

import json

import pytest

from benchapp import audit
from benchapp.models import Activity, Decision, Entry, Episode, Run, Trial
from tests.benchapp.evolution_folders import FIRST, RUN, SECOND, evolution_run, record
from tests.benchapp.import_folders import bring_in, write

pytestmark = pytest.mark.django_db


@pytest.fixture
def folder(tmp_path):
    return evolution_run(tmp_path / "workspace" / "runs" / RUN)


def test_it_brings_in_a_run_with_its_history(folder):
    report = bring_in(folder)
    assert list(report.problems) == []
    assert (report.counts["trials"], report.counts["snapshots"], report.counts["created"]) == (4, 1, 5)
    run = Run.objects.get()
    assert (run.condition, run.harness, run.agent_model, run.author_model) == (
        "selfgen-always",
        "claude-code",
        "lab/model-1",
        "lab/author-1",
    )
    episode = Episode.objects.get()
    assert (episode.key, episode.is_ordered) == ("E1", True)
    kinds = list(Entry.objects.in_order().values_list("kind", flat=True))
    assert kinds == ["trial", "decision", "trial", "decision", "freeze", "trial", "trial"]
    assert list(audit.flaws()) == []


def test_it_takes_the_contents_from_the_commits(folder):
    bring_in(folder)
    first, second = Decision.objects.order_by("number")
    assert (first.mode, first.status, first.operation_type, first.summary) == (
        "induce",
        "applied",
        "create",
        "Sum with awk",
    )
    assert first.after.read()["totals/SKILL.md"].content.decode() == FIRST
    assert second.after.read()["totals/SKILL.md"].content.decode() == SECOND
    assert (second.before, second.mode, second.lines_added, second.round) == (first.after, "revise", 1, 2)
    assert [shown.trial.task.key for shown in second.evidence.all()] == ["E1-LS1-T1", "E1-LS1-T2"]
    assert Episode.objects.get().library == second.after


def test_it_places_trials_by_phase_and_role_with_the_library_they_were_given(folder):
    bring_in(folder)
    told = Trial.objects.order_by("id").values_list("task__key", "task__role", "phase", "success", "skills_mounted")
    assert list(told) == [
        ("E1-LS1-T1", "canonical", "acquisition", False, 0),
        ("E1-LS1-T2", "enriched", "acquisition", True, 1),
        ("E1-LS1-T4", "context-shift", "deployment", True, 1),
        ("E1-LS1-T1", "canonical", "replay", True, 1),
    ]
    failed = Trial.objects.get(phase="acquisition", success=False)
    assert (failed.reward, failed.checks_passed, failed.checks_total, failed.outcome) == (0.75, 1, 2, 0.5)
    assert (failed.snapshot.files_total, failed.skills_read) == (0, 0)
    assert Trial.objects.get(phase="deployment").skills_read == 1


def test_it_adds_nothing_the_second_time(folder):
    bring_in(folder)
    again = bring_in(folder.parent)
    assert (again.counts["created"], again.counts["changed"], again.counts["unchanged"]) == (0, 0, 5)
    assert (Decision.objects.count(), Entry.objects.count(), Activity.objects.count()) == (2, 7, 0)


def test_it_names_the_trial_folders_that_no_record_names(folder):
    for number in range(7):
        write(folder / "harbor-job" / RUN / f"E1-LS1-T1__again-{number}" / "result.json", {})
    (problem,) = bring_in(folder).problems
    assert problem.expected == "trials that a replay record names"
    assert problem.message.endswith("E1-LS1-T1__again-4 and 2 more are none; left out")


def test_runs_of_one_id_in_two_workspaces_are_two_runs_and_each_goes_on(tmp_path):
    """A run's id is made of its settings and a minute."""
    alice, bob = (evolution_run(tmp_path / name / "workspace" / "runs" / RUN) for name in ("alice", "bob"))
    first = bob / "stores/replay/records/E1-LS1-T1.json"
    write(first, {**json.loads(first.read_text()), "timestamp": "2026-03-01T10:00:41+00:00"})
    bring_in(alice)
    bring_in(bob)
    assert [Trial.objects.filter(episode__run=run).count() for run in Run.objects.all()] == [4, 4]
    record(alice, "E1-LS1-T2__replay", 5, passed=True, given="")
    assert bring_in(alice).counts["created"] == 1
    assert [Trial.objects.filter(episode__run=run).count() for run in Run.objects.order_by("id")] == [5, 4]
    assert list(audit.flaws()) == []
