"""The record shows what a loop logged, also while the loop still runs. Broken parts are reported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.apps import apps

import skillglass
from benchapp.imports.batch import ImportReport, import_paths
from benchapp.models import Attempt, Blob, Decision, Entry, Episode, Experiment, Run, Trial
from runner.base.types import DecisionStatus
from tests.skillglass.test_run_log import SKILL, log_all, start

pytestmark = pytest.mark.django_db


def read(folder: Path) -> ImportReport:
    return import_paths([folder])


def said(report: ImportReport) -> str:
    return "\n".join(map(str, report.problems))


def test_a_logged_run_is_what_the_record_shows(tmp_path: Path) -> None:
    log_all(tmp_path)
    report = read(tmp_path)
    assert [problem.message for problem in report.problems] == [
        "1 have; left out",  # usage of a decision
        "sort/b.txt: binary; left out",  # of the rejected proposal
    ]
    run = Run.objects.get()
    assert (run.experiment.name, run.condition, run.agent_model, run.harness) == (
        "sorting",
        "with-skills",
        "lab/agent",
        "mine",
    )
    first, second = Trial.objects.order_by("pk").select_related("task__family")
    assert (first.task.key, first.task.title, first.task.family.key) == ("task one", "The first", "lists")
    assert (first.success, first.reward, first.input_tokens, first.output_tokens) == (False, 0.5, 15, 3)
    assert first.phase == "acquisition"
    verdict = first.counting_attempt().verdicts.get()
    checks = list(verdict.checks.values_list("name", "status"))
    assert checks == [("is sorted", "passed"), ("is fast", "error")]
    assert verdict.rewards == {"speed": 0.5}
    assert (second.phase, second.success, second.counting_attempt().exception_type) == (
        "replay",
        None,
        "ZeroDivisionError",
    )
    kinds = [entry.kind for entry in Entry.objects.order_by("sequence")]
    assert kinds == ["seed", "trial", "trial", "decision", "decision", "freeze"]
    rejected, applied = Decision.objects.order_by("number")
    assert (rejected.status, rejected.summary) == (DecisionStatus.REJECTED, "slower")
    assert applied.status == DecisionStatus.APPLIED
    assert applied.read_patch().summary == "I rewrote it"
    assert Episode.objects.get().library.read()["sort/SKILL.md"].content == b"new"
    assert second.snapshot.digest != first.snapshot.digest, "it had a proposed library"


def test_a_run_that_goes_on_adds_what_is_new(tmp_path: Path) -> None:
    run = start(tmp_path, skills=SKILL)
    with run.trial("a", "acquisition", id="a") as trial:
        trial.log({"role": "user", "content": "one"})
        trial.check("right", True)
    under_way = run.trial("b", "acquisition", id="b")
    under_way.log({"role": "user", "content": "two"})
    read(tmp_path)
    assert sorted(Trial.objects.values_list("task__key", "success")) == [("a", True), ("b", None)]
    assert read(tmp_path).counts["unchanged"] == 3

    under_way.check("right", False)
    under_way.end()
    run.decision({"sort/SKILL.md": "new"}, evidence=[trial, under_way])
    run.finish()
    report = read(tmp_path)
    assert not said(report)
    assert sorted(Trial.objects.values_list("task__key", "success")) == [("a", True), ("b", False)]
    assert Attempt.objects.filter(counts=True).count() == 2
    assert Decision.objects.get().evidence.count() == 2
    assert read(tmp_path).counts["unchanged"] == 3


def test_a_trial_that_was_cut_off_and_begun_again_is_one_trial(tmp_path: Path) -> None:
    run = start(tmp_path, skills=SKILL)
    run.trial("a", "acquisition", id="a").log({"role": "user", "content": "first try"})
    read(tmp_path)
    run._file.close()  # as a killed process does
    run = start(tmp_path)
    with run.trial("a", "acquisition", id="a") as trial:
        trial.log({"role": "user", "content": "second try"})
        trial.check("right", True)
    run.finish()
    report = read(tmp_path)
    assert "1 were cut off and repeated" in said(report)
    assert list(Trial.objects.values_list("task__key", "success")) == [("a", True)]


def test_runs_of_one_experiment_are_compared(tmp_path: Path) -> None:
    for condition in ("no-skill", "with-skills"):
        skills = SKILL if condition == "with-skills" else None
        with skillglass.start("e", condition=condition, agent_model="m", folder=tmp_path, skills=skills) as run:
            for sample in range(2):
                with run.trial("t", "evaluation") as trial:
                    trial.end(success=bool(skills), reward=float(sample))
    read(tmp_path)
    assert Experiment.objects.count() == 1
    assert sorted(Run.objects.values_list("condition", flat=True)) == ["no-skill", "with-skills"]
    assert sorted(Trial.objects.values_list("sample", flat=True)) == [0, 0, 1, 1]


def test_two_logs_of_one_name_are_two(tmp_path: Path) -> None:
    for place in ("here", "there"):
        with start(tmp_path / place) as run, run.trial("t", "evaluation", id="t") as trial:
            trial.end(success=True)
    read(tmp_path)
    assert Trial.objects.count() == 2
    assert (Run.objects.count(), Episode.objects.count()) == (1, 2)


def test_steps_of_atif_are_steps(tmp_path: Path) -> None:
    with start(tmp_path) as run, run.trial("t", "evaluation") as trial:
        trial.log({"source": "user", "message": "sort"}, {"source": "agent", "message": "done"})
        with pytest.raises(ValueError, match="messages of one kind"):
            trial.log({"role": "user", "content": "x"})
        trial.end(success=True)
    report = read(tmp_path)
    assert not said(report)
    assert (report.counts["steps"], Trial.objects.get().success) == (2, True)


def change(folder: Path, number: int, **told: object) -> None:
    """Change a line of the log."""
    log = folder / "one" / "run.jsonl"
    lines = log.read_text().splitlines()
    lines[number] = json.dumps({**json.loads(lines[number]), **told})
    log.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize(
    ("number", "told", "expected"),
    [
        (3, {"phase": "training"}, "one of acquisition, replay, evaluation, deployment"),
        (3, {"trial": "../../etc/passwd"}, "an event of this format, about a trial that began once"),
        (4, {"status": "fine"}, "one of passed, failed, skipped, error"),
        (7, {"success": "yes"}, "true, false or null"),
        (7, {"reward": 1e400}, "finite numbers"),
        (7, {"usage": {"input_tokens": -4}}, "a whole number from 0"),
        (7, {"at": "yesterday"}, "an ISO 8601 time"),
        (1, {"files": [{"path": "../../x", "sha256": "0" * 64}]}, "blobs/000"),
        (2, {"library": "0" * 64}, "a library of this log"),
        (4, {"type": "surprise"}, "an event of this format"),
        (0, {"version": 2}, "the event run of skillglass-run-log, version 1"),
    ],
)
def test_what_is_broken_is_said_and_the_rest_comes_in(
    number: int, told: dict[str, object], expected: str, tmp_path: Path
) -> None:
    log_all(tmp_path)
    change(tmp_path, number, **told)
    report = read(tmp_path)
    assert expected in said(report)
    if number:
        assert Trial.objects.filter(task__key="two").exists()


def test_files_that_are_gone_or_changed_are_said(tmp_path: Path) -> None:
    log_all(tmp_path)
    for blob in (tmp_path / "one" / "blobs").iterdir():
        blob.write_bytes(b"other")
    (tmp_path / "one" / "messages" / "00001-task-one.jsonl").unlink()
    report = read(tmp_path)
    assert "it has other bytes; left out" in said(report)
    assert "the trial has no trajectory" in said(report)
    assert Trial.objects.count() == 2


def test_a_key_that_a_loop_logs_stays_in_its_folder(tmp_path: Path) -> None:
    key = "sk-proj-" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6"
    with start(tmp_path, config={"api_key": key}, skills={"a/SKILL.md": f"key {key}"}) as run:
        with run.trial("t", "acquisition") as trial:
            trial.log({"role": "user", "content": f"use {key}"})
            trial.check(f"check {key}", True, key)
            trial.end(output=key, error=("Error", key))
        run.decision({"a/SKILL.md": f"other {key}"}, reason=key, reply=key, status="rejected")
    read(tmp_path)
    rows = [row for model in apps.get_app_config("benchapp").get_models() for row in model.objects.values()]
    assert any(row.get("harness") is not None for row in rows)
    assert [row for row in rows if key in str(row)] == []
    assert [blob.pk for blob in Blob.objects.all() if key.encode() in blob.content()] == []
