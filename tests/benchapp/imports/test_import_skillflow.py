"""A run root becomes a run whose episodes are families; their libraries are replayed from the patches."""

from __future__ import annotations

import json

import pytest
from django.db.models import Count

from benchapp import audit
from benchapp.models import Activity, Decision, Entry, Episode, Refusal, Run, Trial
from tests.benchapp.evolution_folders import FIRST, PATCHES, SECOND, flow_root, flow_trial
from tests.benchapp.import_folders import bring_in, job, told, write
from tests.benchapp.log_files import claude_session

pytestmark = pytest.mark.django_db


@pytest.fixture
def folder(tmp_path):
    return flow_root(tmp_path / "jobs" / "iter-model-1")


def test_it_replays_the_patches(folder):
    report = bring_in(folder)
    assert list(report.problems) == []
    run = Run.objects.get()
    assert (run.condition, run.harness, run.agent_model, run.author_model) == (
        "skill-evolution",
        "claude-code",
        "lab/model-1",
        "lab/model-1",
    )
    episode = Episode.objects.get()
    assert (episode.key, episode.is_ordered, episode.family.key) == ("tables", True, "tables")
    assert list(Decision.objects.order_by("number").values_list("status", "round", "mode", "summary")) == [
        ("applied", 1, "evolve", "Sum with awk"),
        ("no-op", 1, "evolve", "Nothing new"),
        ("applied", 2, "evolve", "Headers"),
    ]
    assert [row.after.read()["totals/SKILL.md"].content.decode() for row in Decision.objects.order_by("number")] == [
        FIRST,
        FIRST,
        SECOND,
    ]
    assert list(Trial.objects.order_by("id").values_list("task__key", "task__ordinal", "phase", "skills_mounted")) == [
        ("task-1", 1, "evaluation", 0),
        ("task-2", 2, "evaluation", 1),
        ("task-3", 3, "evaluation", 1),
    ]
    assert list(audit.flaws()) == []


def test_it_adds_nothing_the_second_time(folder):
    first = bring_in(folder)
    again = bring_in(folder.parent)
    assert first.counts["created"] == 4
    assert (again.counts["created"], again.counts["changed"], again.counts["unchanged"]) == (0, 0, 4)
    assert (Decision.objects.count(), Entry.objects.count()) == (3, 6)


def test_it_names_what_the_patches_do_not_explain(tmp_path):
    folder = flow_root(tmp_path / "jobs" / "iter", end=SECOND + "written by an agent\n")
    report = bring_in(folder)
    assert told(report, "shared_skills") == [": the library that the patches made"]
    assert Refusal.objects.get().paths == ["totals/SKILL.md"]
    assert Episode.objects.get().library.read()["totals/SKILL.md"].content.decode() == SECOND
    assert list(audit.flaws()) == []


def test_it_keeps_an_answer_that_could_not_be_read(tmp_path):
    bring_in(flow_root(tmp_path / "jobs" / "iter", (PATCHES[0], None), end=FIRST))
    failed = Decision.objects.get(status="failed")
    assert (failed.error, failed.before, failed.number) == ("LLM call failed: timeout", failed.after, 2)


@pytest.mark.parametrize("path", ["../../escaped.md", "/etc/escaped.md", "a/../../escaped.md"])
def test_it_follows_no_write_outside_the_library(tmp_path, path):
    outward = {"summary": "out", "upsert_files": {path: "x"}, "delete_paths": ["."]}
    bring_in(flow_root(tmp_path / "jobs" / "iter", (PATCHES[0], outward), end=FIRST))
    decision = Decision.objects.get(number=2)
    assert (decision.status, [found["rule"] for found in decision.findings]) == ("no-op", ["path-confinement"] * 2)
    assert not list(tmp_path.rglob("escaped.md"))


def test_a_run_that_went_on_is_continued(tmp_path):
    folder = flow_root(tmp_path / "jobs" / "iter", PATCHES[:1], end=FIRST)
    bring_in(folder)
    before = Decision.objects.get()
    flow_root(folder, PATCHES)
    report = bring_in(folder)
    assert (report.counts["created"], report.counts["changed"], report.counts["unchanged"]) == (2, 1, 1)
    assert Decision.objects.get(number=1).pk == before.pk
    assert (Decision.objects.count(), Activity.objects.count()) == (3, 0)
    assert list(audit.flaws()) == []


def test_another_past_takes_the_place_of_the_old_one_and_the_old_one_is_kept_as_an_activity(folder):
    bring_in(folder)
    family = folder / "iter-model-1__tables"
    flow_trial(family, 2, {"summary": "New past", "upsert_files": {"totals/x.md": "x"}, "delete_paths": []})
    report = bring_in(folder)
    assert report.counts["changed"] == 1
    assert Decision.objects.get(number=2).summary == "New past"
    assert [row["summary"] for row in Activity.objects.get().detail["before"]["decisions"]] == [
        "Nothing new",
        "Headers",
    ]
    assert list(audit.flaws()) == []


def test_a_plain_job_is_none_of_its_business(tmp_path):
    bring_in(job(tmp_path / "jobs" / "first"))
    assert Run.objects.get().setup["source"] == "harbor"


def test_it_takes_a_baseline_by_the_settings_of_its_runner(tmp_path):
    folder = flow_root(tmp_path / "jobs" / "base", PATCHES)
    family = folder / "base__tables"
    (family / "skill_patch_history.jsonl").unlink()
    (family / "shared_skills/tables/totals/SKILL.md").unlink()
    for path in ("shared_skills/tables/totals", "shared_skills/tables", "shared_skills"):
        (family / path).rmdir()
    write(family / "result.json", {"id": "x", "n_total_trials": 3})
    bring_in(folder)
    assert (Run.objects.get().condition, Run.objects.get().author_model) == ("no-skill", "")
    assert (Trial.objects.count(), Decision.objects.count(), Episode.objects.get().is_ordered) == (3, 0, False)


def test_what_lies_in_a_run_root_beside_the_families_jobs_comes_in(folder):
    job(folder / "plain", trials=2)
    claude_session(folder / "notes" / "s-1.jsonl")
    assert list(bring_in(folder).problems) == []
    told = Trial.objects.values_list("episode__run__setup__source").annotate(Count("pk"))
    assert dict(told) == {"skillflow": 3, "harbor": 2, "sessions": 1}
    assert bring_in(folder, format="skillflow").counts["trials"] == 3


def test_it_names_trials_that_it_passes_over(folder):
    family = next(path for path in folder.iterdir() if path.name.endswith("__tables"))
    write(family / "task-4__cut" / "agent" / "claude-code.txt", "x")
    assert [(problem.expected, problem.message) for problem in bring_in(folder).problems] == [
        ("trials with a result or a config", "task-4__cut is none; left out"),
    ]


def test_run_roots_of_one_name_in_two_checkouts_are_two_runs_and_each_goes_on(tmp_path):
    alice, bob = (flow_root(tmp_path / person / "SkillFlow/jobs/iter", PATCHES[:2]) for person in ("alice", "bob"))
    family = bob / "iter__tables"
    for number in (1, 2):
        folder = family / f"task-{number}__{number:07d}"
        own = json.loads((folder / "result.json").read_text())
        write(folder / "result.json", {**own, "id": f"of-bob-{number}", "trial_name": f"task-{number}__b{number:06d}"})
        folder.rename(family / f"task-{number}__b{number:06d}")
    history = family / "skill_patch_history.jsonl"
    history.write_text(history.read_text().replace("__000000", "__b00000"))
    bring_in(alice)
    bring_in(bob)
    assert [Trial.objects.filter(episode__run=run).count() for run in Run.objects.all()] == [2, 2]
    flow_root(alice, PATCHES)
    assert bring_in(alice).counts["created"] == 1
    assert [Trial.objects.filter(episode__run=run).count() for run in Run.objects.order_by("id")] == [3, 2]
    assert list(audit.flaws()) == []
