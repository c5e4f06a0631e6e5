"""The teacher's method in containers: the same history as in the local sandbox, and no human skill inside."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.__main__ import chronicle
from runner.engine.engine import run_episode
from runner.engine.recorders import ListRecorder
from runner.engine.toolbox import toolbox_for
from runner.protocols.audit import audit
from runner.suites.starter_suite import load_starter
from tests.docker_images import base_image
from tests.runner.protocols.test_golden_skilllearnbench import HISTORIES, PATH, learning_plan
from tests.runner.small_episode import ticking_clock

pytestmark = [pytest.mark.docker, pytest.mark.slow]


def test_a_taught_library_comes_out_of_containers_as_it_does_locally(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKILLGLASS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SKILLGLASS_BASE_IMAGE", base_image())
    plan = learning_plan("teacher-feedback", sandbox="docker")
    recorder = ListRecorder(plan, ticking_clock())
    run_episode(plan, recorder, toolbox_for(plan, load_starter()))
    text = chronicle(plan, recorder.history(), recorder.library, tuple(recorder.decisions))
    assert text == (HISTORIES / "teacher-feedback.txt").read_text()
    assert audit(plan, recorder.history()) == []
    for result in recorder.results.values():
        for trajectory in result.trajectories:
            assert PATH.partition("/")[0] not in repr(trajectory.steps)
