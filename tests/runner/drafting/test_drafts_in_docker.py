"""Drafted tasks that bring an image, in containers: the smallest Dockerfile is enough,
solutions pass and nothing else does."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.drafting.draft import Loop
from runner.suites import read_suite_folder
from tests.docker_images import base_image
from tests.runner.drafting.test_drafting_loops import STARTS
from tests.runner.drafts import make_brief, play, read_drafted
from tests.runner.suites.test_suites_in_docker import tasks_of, verdict_of

pytestmark = [pytest.mark.docker, pytest.mark.slow]


@pytest.mark.parametrize("loop", [Loop.CORPUS, Loop.EXPANSION])
def test_solutions_pass_in_the_image_of_the_brief_and_untouched_files_fail(
    loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKILLGLASS_CACHE", str(tmp_path / "cache"))
    brief = make_brief(loop, tasks=1, image=base_image())
    read_drafted(brief, play(brief, STARTS[loop]).files, tmp_path / "suite")
    suite = read_suite_folder(tmp_path / "suite")
    environment, task = list(tasks_of(suite))[-1]
    assert task.machine.context is not None
    assert verdict_of(suite, environment, task, "oracle").success is True
    assert verdict_of(suite, environment, task, "nop").success is False
