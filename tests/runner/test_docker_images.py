"""Images of tasks: built once per content, kept apart, and failing with what the engine said."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import docker
import pytest

from runner.agents.oracle import Oracle
from runner.errors import ImageError, SandboxError, SetupError, SuiteError
from runner.sandboxes import docker_builds
from runner.sandboxes.docker_builds import BuildWatch
from runner.sandboxes.docker_images import CONTEXT_LABEL, Image, image_for
from runner.sandboxes.docker_limits import ContainerLimits
from runner.types import Machine, Task
from tests.docker_images import base_image
from tests.runner.container_trials import TEST, ScriptAgent, attempt, container_task

pytestmark = [pytest.mark.docker, pytest.mark.slow]


@pytest.fixture
def client() -> Iterator[docker.APIClient]:
    opened = docker.APIClient(version="auto", timeout=60)
    yield opened
    opened.close()


@pytest.fixture
def task(tmp_path: Path, client: docker.APIClient, monkeypatch: pytest.MonkeyPatch) -> Iterator[Task]:
    """A task with a build context; every image made of contexts in this folder is removed afterwards."""
    monkeypatch.setenv("SKILLGLASS_CACHE", str(tmp_path / "cache"))
    context = tmp_path / "environment"
    context.mkdir()
    before = {row["Id"] for row in client.images(filters={"label": CONTEXT_LABEL})}
    yield replace(container_task(tmp_path), machine=Machine(context=context, build_timeout_seconds=120))
    for row in client.images(filters={"label": CONTEXT_LABEL}):
        labels = client.inspect_image(row["Id"])["Config"]["Labels"]
        if row["Id"] not in before and labels.get("skillglass.test") == "1":
            client.remove_image(row["Id"], force=True)


def dockerfile(task: Task, *lines: str) -> None:
    assert task.machine.context is not None
    text = "\n".join([f"FROM {base_image()}", "LABEL skillglass.test=1", *lines]) + "\n"
    (task.machine.context / "Dockerfile").write_text(text)


def listing(client: docker.APIClient, image: Image) -> str:
    made = client.create_container(image.id, ["find", image.folder, "-mindepth", "1"])
    try:
        client.start(made["Id"])
        client.wait(made["Id"])
        return "\n".join(sorted(client.logs(made["Id"]).decode().split()))
    finally:
        client.remove_container(made["Id"], force=True)


def test_it_builds_once_per_content(task: Task, client: docker.APIClient) -> None:
    dockerfile(task, "WORKDIR /root/task", "COPY . .")
    (task.folder / "environment" / "input.txt").write_text("one")
    first = image_for(client, task)
    assert (first.folder, first.user) == ("/root/task", "")
    assert image_for(client, task) == first
    (task.folder / "environment" / "input.txt").write_text("two")
    assert image_for(client, task).id != first.id


def test_two_that_build_at_once_get_the_same_image(task: Task) -> None:
    dockerfile(task, "RUN sleep 1")
    found: list[str] = []

    def build() -> None:
        own = docker.APIClient(version="auto", timeout=60)
        found.append(image_for(own, task).id)
        own.close()

    threads = [threading.Thread(target=build) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3
    assert len(set(found)) == 1


def test_it_leaves_out_what_is_ignored_and_follows_no_link_out(
    task: Task, client: docker.APIClient, tmp_path: Path
) -> None:
    dockerfile(task, "WORKDIR /t", "COPY . .")
    context = task.folder / "environment"
    (tmp_path / "secret").write_text("outside")
    (context / "link").symlink_to(tmp_path / "secret")
    (context / ".dockerignore").write_text("# nothing big\n*.log\n!keep.log\ncache/\n")
    for name in ("a.log", "keep.log", "cache/x", "b/c.txt"):
        (context / name).parent.mkdir(exist_ok=True)
        (context / name).write_text(name)
    found = listing(client, image_for(client, task)).splitlines()
    assert found == sorted(f"/t/{name}" for name in (".dockerignore", "Dockerfile", "b", "b/c.txt", "keep.log", "link"))


def test_it_gives_a_missing_skills_folder_to_a_dockerfile_that_copies_it(task: Task, client: docker.APIClient) -> None:
    dockerfile(task, "WORKDIR /t", "COPY skills /root/.claude/skills", "COPY --chown=0:0 ./skills/ /t/other")
    assert listing(client, image_for(client, task)) == "/t/other"


def test_a_failing_build_keeps_its_log(task: Task, client: docker.APIClient) -> None:
    dockerfile(task, "RUN echo about to fail; exit 3")
    with pytest.raises(ImageError, match="cannot be built.*returned a non-zero code: 3") as caught:
        image_for(client, task)
    assert "about to fail" in caught.value.log


@pytest.mark.parametrize("command", ["sleep 1077", "while :; do echo still at it; sleep 0.2; done; echo 1077"])
def test_a_build_ends_at_its_time_limit(task: Task, client: docker.APIClient, command: str) -> None:
    dockerfile(task, f"RUN {command}")
    slow = replace(task, machine=replace(task.machine, build_timeout_seconds=4))
    with pytest.raises(SandboxError, match="was not built within 4 s"):
        image_for(client, slow)
    time.sleep(1)
    assert [row["Command"] for row in client.containers() if "1077" in row["Command"]] == []


def test_a_build_that_falls_silent_late_ends_at_its_time_limit_too(task: Task, client: docker.APIClient) -> None:
    dockerfile(task, "RUN sleep 1; echo nearly; sleep 1076")
    began = time.monotonic()
    with pytest.raises(SandboxError, match="was not built within 8 s") as caught:
        image_for(client, replace(task, machine=replace(task.machine, build_timeout_seconds=8)))
    assert time.monotonic() - began < 60
    assert "nearly" in caught.value.log


def test_a_build_has_bounded_memory(task: Task, client: docker.APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker_builds, "LEAST_MEMORY_MB", 64)
    dockerfile(task, "RUN python3 -c 'print(len(bytearray(200 << 20)))'")
    small = replace(task, machine=replace(task.machine, memory_mb=64))
    with pytest.raises(SandboxError, match="137.*a build has 64 MiB of memory"):
        image_for(client, small)
    image_for(client, replace(task, machine=replace(task.machine, memory_mb=400)))


def test_no_build_begins_on_a_full_disk(task: Task, client: docker.APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker_builds, "LIMITS", ContainerLimits(free_bytes=2**60))
    dockerfile(task, "RUN echo begun")
    with pytest.raises(SandboxError, match="not built: less than .* MiB are left on the engine's disk") as caught:
        image_for(client, task)
    assert caught.value.log == ""


def test_a_build_that_fills_the_disk_is_ended(
    task: Task, client: docker.APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([None])  # room at first
    monkeypatch.setattr(BuildWatch, "full", lambda self: next(answers, "none is left"))
    dockerfile(task, "RUN sleep 1075")
    with pytest.raises(SandboxError, match="the image was not built to its end: none is left"):
        image_for(client, task)
    time.sleep(1)
    assert [row["Command"] for row in client.containers() if "1075" in row["Command"]] == []


def test_a_missing_base_is_named(task: Task, client: docker.APIClient) -> None:
    (task.folder / "environment" / "Dockerfile").write_text("FROM localhost:1/skillglass-none:1\n")
    with pytest.raises(SandboxError, match="builds on \\(localhost:1/skillglass-none:1\\) is not on the engine"):
        image_for(client, task)


@pytest.mark.parametrize(
    ("line", "said"),
    [("RUUN echo", "unknown instruction: RUUN"), ("COPY data.csv /data.csv", "data.csv"), ("RUN nosuchcommand", "127")],
)
def test_a_build_that_can_never_succeed_is_the_tasks_fault(
    task: Task, client: docker.APIClient, line: str, said: str
) -> None:
    dockerfile(task, line)
    with pytest.raises(ImageError, match=said):
        image_for(client, task)


def test_a_missing_image_is_named(task: Task, client: docker.APIClient) -> None:
    wanted = replace(task, machine=Machine(image="localhost:1/skillglass-none:1"))
    with pytest.raises((SandboxError, SetupError), match="localhost:1/skillglass-none:1 is not on the engine"):
        image_for(client, wanted)


@pytest.mark.parametrize(
    "lines",
    [
        ("USER nobody",),  # and no WORKDIR: ours is made for that user
        ("USER 1234:1234",),  # no account
        ("RUN useradd -m worker && mkdir /work && chown worker /work", "WORKDIR /work", "USER worker"),
    ],
)
def test_an_image_of_another_user_runs_the_agent_as_that_user_and_the_verifier_as_root(
    task: Task, lines: tuple[str, ...]
) -> None:
    dockerfile(task, *lines)
    as_expected = "[ $(id -u) = 0 ] && [ $(stat -c %u answer.txt) != 0 ] || echo 0 > /logs/verifier/reward.txt\n"
    (task.folder / "tests" / "test.sh").write_text(TEST + as_expected)
    (task.folder / "solution" / "answer").write_text("42\n")
    (task.folder / "solution" / "solve.sh").write_text("cp /solution/answer answer.txt\n")
    assert attempt(Oracle(), task).success
    assert attempt(ScriptAgent("touch x /skills/x /logs/agent/x && echo all"), task).said == "all\n"


def test_a_context_without_a_dockerfile_is_refused(task: Task, client: docker.APIClient) -> None:
    with pytest.raises(SuiteError, match="expected a Dockerfile"):
        image_for(client, task)


def test_a_suite_without_images_gets_the_base_image(
    task: Task, client: docker.APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKILLGLASS_BASE_IMAGE", base_image())
    found = image_for(client, replace(task, machine=Machine()))
    assert (found.name, found.folder) == (base_image(), "/workspace")
