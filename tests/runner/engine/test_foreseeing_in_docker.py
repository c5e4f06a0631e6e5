"""Images that the engine of this machine does not have, told without fetching any."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from runner.base.errors import SandboxError
from runner.base.types import Machine
from runner.engine.foresight import absent_images
from tests.docker_images import base_image
from tests.runner.container_trials import container_task

ABSENT = "localhost:1/skillglass-none:1"


@pytest.mark.docker
def test_images_that_are_not_on_the_engine_are_told_with_the_tasks_that_need_them(tmp_path: Path) -> None:
    context = tmp_path / "environment"
    context.mkdir(exist_ok=True)
    (context / "Dockerfile").write_text(f"ARG A\nFROM {base_image()} AS one\nFROM {ABSENT}\nFROM $A\nFROM one\n")
    task = container_task(tmp_path)
    built = replace(task, key="built", machine=Machine(context=context))
    named = replace(task, key="named", machine=Machine(image=ABSENT))
    assert absent_images([built, named]) == {ABSENT: ["built", "named"]}


def test_without_an_engine_nothing_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    with pytest.raises(SandboxError):
        absent_images([replace(container_task(tmp_path), machine=Machine(image=ABSENT))])
