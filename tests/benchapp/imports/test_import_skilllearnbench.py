"""A release becomes runs with one library per task, key points, and an oracle's run without verdicts."""

from __future__ import annotations

import pytest

from benchapp.imports.releases.skilllearnbench_release import split_config
from benchapp.models import Activity, Episode, Experiment, KeyPoint, Run, Snapshot, Task, Trial
from tests.benchapp.import_folders import SKILL, bring_in, job, release, told, write

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("b1-one-shot-claude-haiku-4-5", ("one-shot", "claude-haiku-4-5")),
        ("b4-skill-creator-gemini-3.1-pro-preview", ("skill-creator", "gemini-3.1-pro-preview")),
        ("b2-self-feedback-gpt-5.2", ("self-feedback", "gpt-5.2")),
        ("human_authored", ("human-authored", "")),
        ("my-claudette-method", ("my-claudette-method", "unknown")),
        ("claude-sonnet", ("claude-sonnet", "unknown")),
    ],
)
def test_it_splits_a_config_before_the_first_vendor(name, expected):
    assert split_config(name) == expected


def test_it_brings_in_a_release(tmp_path):
    report = bring_in(release(tmp_path / "release"))
    assert list(report.problems) == []
    counts = report.as_json()
    names = ("experiments", "runs", "trials", "trajectories", "snapshots", "skills", "created")
    assert {name: counts[name] for name in names} == {
        "experiments": 1,
        "runs": 3,
        "trials": 1,
        "trajectories": 1,
        "snapshots": 2,
        "skills": 2,
        "created": 3,
    }
    assert set(Run.objects.values_list("condition", "author_model", "agent_model")) == {
        ("human-authored", "", "unknown"),
        ("teacher-feedback", "claude-sonnet-4-6", "unknown"),
        ("unknown", "unknown", "claude-sonnet-4-6"),
    }
    episode = Episode.objects.get(run__condition="human-authored")
    assert (episode.key, episode.family.key, episode.is_ordered, episode.decisions.count()) == (
        "words",
        "words",
        False,
        0,
    )
    assert set(episode.library.manifest()) == {"count-words/SKILL.md", "count-words/scripts/count.py"}
    assert (Trial.objects.get().status, Trial.objects.get().task.key) == ("unscored", "words-2")


def test_it_hangs_key_points_on_the_instance(tmp_path):
    bring_in(release(tmp_path))
    task = Task.objects.get(key="words-2")
    assert list(task.key_points.values_list("kind", "text", "reason", "reference")) == [
        ("oracle", "Read the file", "it has the words", "cat"),
        ("skill", "Split at blanks.", "why", "Use wc -w."),
    ]
    bring_in(release(tmp_path))
    assert KeyPoint.objects.count() == 2


def test_it_takes_faulty_front_matter_as_it_is_and_makes_nothing_up(tmp_path):
    folder = release(tmp_path)
    bad = "no front matter: [\n"
    write(folder / "skills/human_authored/words/run3_skill-1/SKILL.md", bad)
    write(folder / "MANIFEST.json", {"omitted": [{"source_path": "skills/human_authored/words/count-words/x.py"}]})
    report = bring_in(folder)
    assert list(report.problems) == []
    library = Episode.objects.get(run__condition="human-authored").library.read()
    assert library["run3_skill-1/SKILL.md"].content.decode() == bad
    assert not [path for path in library if path.endswith("x.py")]
    assert Experiment.objects.get().spec["omitted"] == ["skills/human_authored/words/count-words/x.py"]


def test_it_keeps_the_old_library_when_the_source_changes(tmp_path):
    folder = release(tmp_path)
    bring_in(folder)
    old = Episode.objects.get(run__condition="human-authored").library
    write(folder / "skills/human_authored/words/count-words/SKILL.md", SKILL + "Then sort.\n")
    report = bring_in(folder)
    assert (report.counts["created"], report.counts["changed"], report.counts["unchanged"]) == (0, 1, 2)
    new = Episode.objects.get(run__condition="human-authored").library
    assert new != old
    assert Snapshot.objects.filter(pk=old.pk).exists()
    assert Activity.objects.get().detail["before"] == {"library": old.digest}


def test_it_reports_what_it_cannot_take(tmp_path):
    folder = release(tmp_path)
    write(folder / "skills/human_authored/words/loose.md", "x")
    write(folder / "skills/human_authored/words/empty-folder/notes.md", "x")
    write(folder / "eval_keypoints/words/words-2/traj-key-points.generated.json", '[{"key_point": 5}, 7')
    write(folder / "eval_keypoints/words/words-2/skill-key-points.generated.json", [{"key_point": 5}, 7])
    report = bring_in(folder)
    assert report.exit_status == 3
    assert told(report, "loose.md") == [": files inside a skill's folder"]
    assert told(report, "empty-folder") == [": a SKILL.md in the skill's folder"]
    assert told(report, "traj-key-points.generated.json") == ["line 1, column 21: JSON"]
    assert [place.split(":")[0] for place in told(report, "skill-key-points.generated.json")] == [
        "[0].key_point",
        "[0].key_point",
        "[1]",
    ]
    assert report.counts["snapshots"] == 2


def test_it_finds_releases_and_jobs_side_by_side(tmp_path):
    job(tmp_path / "jobs" / "first")
    release(tmp_path / "published" / "release")
    report = bring_in(tmp_path)
    assert list(report.problems) == []
    assert (report.counts["experiments"], report.counts["trials"], report.counts["snapshots"]) == (2, 4, 2)


def test_it_obeys_the_format_that_is_named(tmp_path):
    report = bring_in(release(tmp_path), format="harbor")
    assert report.exit_status == 1
    assert [problem.message for problem in report.problems] == ["none was found in it"]


def test_it_names_a_second_log_of_an_instance(tmp_path):
    folder = release(tmp_path / "release")
    log = folder / "eval_keypoints/words/words-2/claude-code.txt"
    (log.parent / "codex.txt").write_bytes(log.read_bytes())
    assert [problem.message for problem in bring_in(folder).problems] == [
        "a second log next to claude-code.txt; it was left out"
    ]
    assert Trial.objects.count() == 1


def test_the_output_of_its_runner_is_found_inside_the_release(tmp_path):
    folder = release(tmp_path / "release")
    place = folder / "output" / "evaluation_log" / "none" / "words" / "words-2" / "20260301110000_abc123"
    write(place / "result.json", {"task_id": "words/words-2", "agent": "claude-code", "model": "m", "reward": 1.0})
    assert list(bring_in(folder).problems) == []
    assert Trial.objects.filter(episode__run__condition="no-skill").count() == 1


def test_a_collection_of_skills_in_folders_is_no_release(tmp_path):
    for name in ("engineering/backend/api", "claude-tables", "claude-tables/references/columns"):
        write(tmp_path / "team" / "skills" / name / "SKILL.md", SKILL)
    bring_in(tmp_path)
    assert Experiment.objects.get().name.startswith("Skills ")
