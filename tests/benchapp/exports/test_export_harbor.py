"""A run as a Harbor job: Harbor's validator takes every trajectory,
and what comes back through the importer is the same."""

from __future__ import annotations

import json
from collections import Counter
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from benchapp.exports.harbor_export import trial_name, write_harbor_job
from benchapp.models import Experiment, Run, Trajectory, Trial, Verdict
from benchapp.record.trajectory_store import iterate_steps, pack_steps, save_packed
from benchapp.record.writing.rows import PackedTrajectory
from lab.synthesis.campaign import Size, write_campaign
from runner.base.types import Observation, Source, Step, ToolCall, TrajectoryHead, TrajectoryKind
from tests.benchapp.import_folders import bring_in
from tests.harbor_validator import complaints
from tests.worlds.factories import make_trial, record_steps

pytestmark = pytest.mark.django_db

STEPS = [
    Step(1, Source.USER, "Sum the column."),
    Step(
        2,
        Source.AGENT,
        "Looking.",
        tool_calls=(ToolCall("c1", "shell", {"command": "cat data.csv", "long": "x" * 70_000}),),
        observations=(Observation("1\n2\n", "c1"),),
        timestamp="2026-03-01T10:00:02Z",
    ),
]


def read(path: Path) -> Any:
    return json.loads(path.read_text())


def one_trial() -> Trial:
    """With a trajectory that can be read."""
    trial = make_trial(attempt={"steps": None})
    attempt = trial.counting_attempt()
    assert attempt is not None
    record_steps(attempt, STEPS)
    trial.settle(attempt)
    return trial


def a_run() -> Run:
    """Of a made-up campaign: with decisions, checks and steps that can be read."""
    run = write_campaign(Size(30, 60, 12)).runs.first()
    assert run is not None
    return run


def test_harbors_validator_takes_every_trajectory_of_a_learning_run(tmp_path: Path) -> None:
    run = a_run()
    _, trajectories, _ = write_harbor_job(run, tmp_path / "job")
    documents = sorted(tmp_path.glob("job/*/agent/trajectory.json"))
    assert len(documents) == trajectories > 0
    assert complaints(*documents) == {}


def test_a_sub_agent_lies_inside_and_long_texts_are_whole(tmp_path: Path) -> None:
    trial = one_trial()
    attempt = trial.counting_attempt()
    assert attempt is not None
    head = TrajectoryHead(kind=TrajectoryKind.SUBAGENT, name="helper")
    packed = pack_steps(STEPS[:1])
    save_packed([(PackedTrajectory(head, packed, "test").row(attempt, 1), packed)])
    write_harbor_job(trial.episode.run, tmp_path / "job")
    (path,) = tmp_path.glob("job/*/agent/trajectory.json")
    assert complaints(path) == {}
    found = read(path)
    assert [inside["trajectory_id"] for inside in found["subagent_trajectories"]] == ["helper"]
    main = attempt.trajectories.get(kind="main")
    assert len(found["steps"]) == main.steps_total == found["final_metrics"]["total_steps"]


def test_what_comes_back_through_the_importer_is_the_same(tmp_path: Path) -> None:
    run = a_run()
    written, *_ = write_harbor_job(run, tmp_path / "job")
    report = bring_in(tmp_path / "job")
    assert list(report.problems) == []
    experiment = Experiment.objects.exclude(pk=run.experiment_id).get()
    assert experiment.runs.count() == 1
    ours = Trial.objects.filter(episode__run=run, attempts__counts=True).select_related("task")
    assert report.counts["trials"] == written == ours.count()
    back = Trial.objects.filter(episode__run__experiment=experiment).select_related("task")
    told = [
        Counter((trial.task.key, trial.reward, trial.steps, trial.checks_total) for trial in trials)
        for trials in (ours, back)
    ]
    assert told[0] == told[1]
    digests = {"attempt__counts": True, "kind": "main"}
    mine = Trajectory.objects.filter(attempt__trial__episode__run=run, **digests)
    other = Trajectory.objects.filter(attempt__trial__episode__run__experiment=experiment, **digests)
    texts = [sorted(repr([step.message for step in iterate_steps(found)]) for found in rows) for rows in (mine, other)]
    assert texts[0] == texts[1]


def test_what_is_not_known_stays_so(tmp_path: Path) -> None:
    run = a_run()
    verdicts = Verdict.objects.filter(attempt__trial__episode__run=run)
    verdicts.filter(pk=verdicts.first().pk).update(success=None, reward=None, rewards={})
    unscored = Verdict.objects.filter(attempt__trial__episode__run=run, success=None)
    write_harbor_job(run, tmp_path / "job")
    results = [read(path) for path in tmp_path.glob("job/*/result.json")]
    silent = {result["id"] for result in results if result["verifier_result"] is None}
    assert silent == {str(verdict.attempt.trial.public_id) for verdict in unscored}
    job = read(tmp_path / "job" / "result.json")
    assert job["stats"]["n_completed_trials"] == len(results)


def test_a_hostile_name_stays_inside_the_folder(tmp_path: Path) -> None:
    trial = one_trial()
    trial.task.key = "../../etc/\x1b[2Jpass wd"
    trial.task.save()
    write_harbor_job(trial.episode.run, tmp_path / "job")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["job"]
    (found,) = [path for path in (tmp_path / "job").iterdir() if path.is_dir()]
    assert found.name.startswith("2Jpass-wd__")
    assert trial_name("..", trial.public_id).startswith("task__")


def test_it_writes_into_no_folder_that_holds_something(tmp_path: Path) -> None:
    run = one_trial().episode.run
    (tmp_path / "kept.txt").write_text("kept")
    with pytest.raises(CommandError, match="empty folder"):
        call_command("export_harbor", str(run.public_id), str(tmp_path))
    said = StringIO()
    call_command("export_harbor", str(run.public_id), str(tmp_path / "job"), stdout=said)
    assert "1 trials" in said.getvalue()
    assert Run.objects.count() == 1
