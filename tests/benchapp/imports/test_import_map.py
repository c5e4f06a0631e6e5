"""A map says what files do not tell, before or after the import, and every later change leaves a trace."""

from __future__ import annotations

import pytest

from benchapp.imports.audited_edits import Author, EditRefused, RunEdit, TrialEdit, edit_runs, edit_trials
from benchapp.imports.import_map import MapError, read_map
from benchapp.models import Activity, Episode, Run, SearchDocument, Trial
from benchapp.search.indexing import index_waiting
from tests.benchapp.import_folders import bring_in, job, release, trial, write
from tests.worlds.factories import make_run, make_trial, make_user


def the_map(tmp_path, text):
    return read_map(write(tmp_path / "map.yaml", text))


RULES = """
rules:
  - match: {path: "*__0000001", agent: tester}
    set: {condition: no-skill, replicate: 1}
  - match: {path: "*__000000[23]"}
    set: {condition: curated-static, replicate: 2, author_model: "", family: tables, role: canonical, phase: deployment}
  - match: {path: "*__0000003"}
    set: {replicate: 3}
"""


@pytest.mark.django_db
def test_it_sets_what_a_first_import_is_told(tmp_path):
    folder = job(tmp_path / "job")
    report = bring_in(folder, mapping=the_map(tmp_path, RULES))
    assert report.exit_status == 0
    assert set(Run.objects.values_list("condition", "replicate", "author_model")) == {
        ("no-skill", 1, "unknown"),
        ("curated-static", 2, ""),
        ("curated-static", 3, ""),
    }
    assert set(Trial.objects.values_list("phase", "task__family__key", "task__role")) == {
        ("evaluation", "tables", "canonical"),
        ("deployment", "tables", "canonical"),
    }
    again = bring_in(folder, mapping=the_map(tmp_path, RULES))
    assert (again.counts["created"], again.counts["changed"], again.counts["unchanged"]) == (0, 0, 3)
    assert bring_in(folder).counts["changed"] == 0


@pytest.mark.django_db
def test_it_moves_trials_imported_before_and_says_so(tmp_path):
    folder = job(tmp_path / "job")
    bring_in(folder)
    index_waiting()
    before = set(Trial.objects.values_list("public_id", flat=True))
    documents = SearchDocument.objects.count()
    report = bring_in(folder, mapping=the_map(tmp_path, RULES))
    assert (report.counts["created"], report.counts["changed"]) == (0, 3)
    assert sorted(Run.objects.values_list("condition", flat=True)) == ["curated-static", "curated-static", "no-skill"]
    assert set(Trial.objects.values_list("public_id", flat=True)) == before
    moved = Activity.objects.filter(target_kind="trial")
    assert moved.count() == 3
    assert moved.last().detail["before"]["condition"] == "unknown"
    index_waiting()
    assert (
        SearchDocument.objects.filter(run__in=Run.objects.all()).count() == documents > 0
    )  # search finds them as before
    assert bring_in(folder, mapping=the_map(tmp_path, RULES)).counts["changed"] == 0


@pytest.mark.django_db
def test_it_edits_the_run_of_a_library(tmp_path):
    rules = "rules: [{match: {path: '*human_authored*'}, set: {condition: curated-static}}]"
    folder = release(tmp_path / "release")
    bring_in(folder)
    report = bring_in(folder, mapping=the_map(tmp_path, rules))
    assert (report.counts["created"], Episode.objects.count(), Run.objects.count()) == (0, 3, 3)
    assert Run.objects.filter(condition="curated-static").count() == 1
    assert Activity.objects.get().detail == {
        "before": {"condition": "human-authored"},
        "after": {"condition": "curated-static"},
    }


@pytest.mark.django_db
def test_it_reports_a_rule_that_matches_nothing(tmp_path):
    rules = "rules: [{match: {path: '*nowhere*'}, set: {condition: x}}]"
    report = bring_in(job(tmp_path / "job"), mapping=the_map(tmp_path, rules))
    assert report.exit_status == 3
    assert [(problem.place, problem.expected) for problem in report.problems] == [
        ("rules[0]", "a rule that matches something")
    ]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("rules: [", "line 1, column 9"),
        ("rules: []", "rules"),
        ("[]", "whole file"),
        ("", "whole file"),
        ("rules: [{match: {path: x}, set: {}}]", "rules[0].set"),
        ("rules: [{match: {}, set: {role: r}}]", "rules[0].match"),
        ("rules: [{match: {path: x}, set: {phase: never}}]", "rules[0].set.phase"),
        ("rules: [{match: {path: x}, set: {replicate: 0}}]", "rules[0].set.replicate"),
        ("rules: [{match: {pth: x}, set: {role: r}}]", "rules[0].match.pth"),
        ("rules: [{match: {path: x}, set: {role: r, role: s}}]", "line 1, column 33"),
        ("rules: [{match: {task: 2026-13-45}, set: {role: r}}]", "whole file"),
        (f"rules: [{{match: {{task: {'9' * 5_000}}}, set: {{role: r}}}}]", "whole file"),
        ("rules: [{match: {path: x}, set: {condition: !!python/object:os.system {}}}]", "line 1, column 45"),
    ],
)
def test_it_refuses_a_map_with_the_place_of_the_fault(tmp_path, text, place):
    with pytest.raises(MapError) as caught:
        the_map(tmp_path, text)
    assert [problem.place for problem in caught.value.problems][0] == place


# --- edits on the page ------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_it_edits_imported_runs_with_who_what_and_why(tmp_path):
    bring_in(job(tmp_path / "job"))
    user = make_user()
    edit = RunEdit(condition="curated-static", replicate=2)
    assert edit_runs(Run.objects.all(), edit, author=Author(user), reason="told by the lab") == 1
    assert edit_runs(Run.objects.all(), edit, author=Author(user), reason="again") == 0
    activity = Activity.objects.get()
    assert (activity.actor, activity.actor_name, activity.reason) == (user, user.username, "told by the lab")
    assert activity.detail == {
        "before": {"condition": "unknown", "replicate": None},
        "after": {"condition": "curated-static", "replicate": 2},
    }
    report = bring_in(tmp_path / "job")
    assert (report.counts["changed"], Run.objects.get().condition) == (0, "curated-static")


@pytest.mark.django_db
def test_it_edits_trials_into_free_slots(tmp_path):
    for number in (1, 2):
        trial(tmp_path, number)
    bring_in(tmp_path)
    edited = edit_trials(
        Trial.objects.order_by("id"),
        TrialEdit(family="tables", phase="deployment"),
        author=Author(name="me"),
        reason="r",
    )
    assert edited == 2
    assert list(Trial.objects.order_by("sample").values_list("phase", "sample", "task__family__key")) == [
        ("deployment", 0, "tables"),
        ("deployment", 1, "tables"),
    ]


@pytest.mark.django_db
def test_it_refuses_to_edit_what_was_launched_here():
    run = make_run()
    with pytest.raises(EditRefused, match="setup is fixed"):
        edit_runs([run], RunEdit(condition="x"), author=Author(name="me"), reason="r")
    with pytest.raises(EditRefused, match="slot is fixed"):
        edit_trials([make_trial()], TrialEdit(phase="replay"), author=Author(name="me"), reason="r")


@pytest.mark.django_db
@pytest.mark.parametrize("edit", [RunEdit(condition=""), RunEdit(replicate=0), RunEdit(author_model="x" * 201)])
def test_it_refuses_values_that_no_run_can_have(edit):
    with pytest.raises(EditRefused):
        edit_runs([], edit, author=Author(), reason="")
