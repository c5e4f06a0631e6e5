"""The runner's small episode (tests/runner/small_episode.py) as rows, ready to be advanced."""

from __future__ import annotations

from pathlib import Path

from benchapp.experiments.launch import record_episode
from benchapp.models import Episode, Experiment, Run
from benchapp.record.sets.suite_files import record_suite
from benchapp.record.writing.recording import RowRecorder
from runner.base.suite import Suite
from runner.protocols.plan import EpisodePlan
from tests.runner.small_episode import small_environment, small_plan


def small_suite(folder: Path) -> Suite:
    return Suite("small", "Small", "1", "d" * 64, (small_environment(folder),), trusted=True)


def make_episode(suite: Suite, condition: str = "selfgen-always") -> tuple[Episode, EpisodePlan]:
    """An episode with all its waiting trials, and the plan it was made from."""
    rows = record_suite(suite)
    plan = small_plan(condition, suite.environments[0])
    experiment = Experiment.objects.create(name="small", suite=rows.suite, spec={})
    run = Run.objects.create(experiment=experiment, condition=condition, setup_digest=plan.setup_digest)
    return record_episode(run, plan, 1, rows), plan


def hold(episode: Episode, seconds: float = 60) -> int:
    """Takes the lease and gives its epoch."""
    epoch = Episode.objects.take(episode.pk, owner="a test", seconds=seconds)
    assert epoch is not None
    return epoch


def recorder_of(episode: Episode) -> RowRecorder:
    return RowRecorder(episode, hold(episode))
