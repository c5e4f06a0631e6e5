"""Tasks of several services in real containers: what starts with the agent's, what it reaches, what bounds it,
what is left."""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from pathlib import Path

import pytest

from runner.agents.oracle import Nop, Oracle
from runner.base.errors import SandboxError
from runner.base.types import Task
from runner.sandboxes import WORKSPACE
from runner.sandboxes.docker import docker_engine
from runner.sandboxes.docker.docker_sandbox import DockerSandbox, open_sandbox
from runner.suites import read_suite_folder
from tests.docker_images import base_image
from tests.runner.container_trials import ScriptAgent, attempt, left_behind

pytestmark = [pytest.mark.docker, pytest.mark.slow]

METADATA_NETWORKS = {"skillglass-metadata", "skillglass-metadata-alibaba"}
ASK = (
    "python3 -c 'import urllib.request as u; print(u.urlopen(\"http://store:8000/token\", timeout=5).read().decode())'"
)
FILES = {
    "task.toml": '[environment]\nmemory_mb = 256\nstorage_mb = 300\nnetwork_mode = "no-network"\nbuild_timeout_sec = 60\n',  # noqa: E501
    "instruction.md": "Write the token that the store serves at http://store:8000/token into token.txt.\n",
    "environment/Dockerfile": "FROM {base}\nWORKDIR /work\n",
    "environment/store/Dockerfile.store": "FROM {base}\nCOPY serve.sh /serve.sh\n",
    "environment/store/serve.sh": "#!/bin/sh\ncd /files && exec python3 -m http.server ${PORT:?}\n",
    "environment/files/token": "from-the-store",
    "environment/docker-compose.yaml": """
services:
  main:
    build: {context: "${CONTEXT_DIR}"}
    depends_on: {store: {condition: service_healthy}}
    volumes: ["shared:/shared"]
  store:
    build: {context: ./store, dockerfile: Dockerfile.store}
    command: ["/bin/sh", "/serve.sh"]
    environment: {PORT: "${PORT-8000}"}
    volumes: ["./files:/files:ro", "shared:/shared"]
    ports: ["8000:8000"]
    healthcheck: {test: ["CMD-SHELL", "test -f /proc/1/status && grep -q python3 /proc/1/comm"], interval: 1s}
volumes: {shared: {}}
""",
    "tests/test.sh": """#!/bin/bash
reward=0
[ "$(cat token.txt)" = from-the-store ] && reward=1
echo $reward > /logs/verifier/reward.txt
""",
    "solution/solve.sh": f"#!/bin/bash\n{ASK} > token.txt\n",
}


def make_task(folder: Path, **files: str) -> Task:
    """`files`: contents by the last part of their name."""
    for name, text in FILES.items():
        path = folder / "suite/several" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(files.get(path.name.partition(".")[0].replace("-", "_"), text).replace("{base}", base_image()))
    (task,) = read_suite_folder(folder / "suite").environments[0].families[0].tasks
    return task


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLGLASS_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return make_task(tmp_path)


def test_the_solution_reaches_the_service_and_nobody_elses_hands_do(task: Task) -> None:
    solved, untouched = attempt(Oracle(), task), attempt(Nop(), task)
    assert (solved.error, untouched.error) == (None, None)
    assert (solved.success, untouched.success) == (True, False)
    assert [left_behind(each.mark) for each in (solved, untouched)] == [[], []]


def test_with_network_none_of_them_reaches_metadata_addresses(tmp_path: Path) -> None:
    online = make_task(tmp_path, task=FILES["task.toml"].replace('network_mode = "no-network"\n', ""))
    sandbox = open_sandbox(online, name="t")
    try:
        with contextlib.closing(docker_engine.connect()) as client:
            (store,) = (name for name in left_behind(sandbox.mark) if is_service(sandbox, name))
            for container in (sandbox.container, store):
                assert set(client.inspect_container(container)["NetworkSettings"]["Networks"]) > METADATA_NETWORKS
        assert sandbox.execute(ASK, timeout_seconds=30).exit_code == 0
    finally:
        sandbox.close()


def test_services_are_bounded_as_the_agents_container_is(task: Task) -> None:
    sandbox = open_sandbox(task, name="t")
    try:
        with contextlib.closing(docker_engine.connect()) as client:
            (store,) = (name for name in left_behind(sandbox.mark) if is_service(sandbox, name))
            found = client.inspect_container(store)
            settings, networks = found["HostConfig"], found["NetworkSettings"]["Networks"]
            assert settings["CapDrop"] == ["ALL"]
            assert "no-new-privileges" in settings["SecurityOpt"][0]
            assert (settings["Memory"], settings["MemorySwap"]) == (256 << 20, 256 << 20)
            assert (settings["PidsLimit"], settings["IpcMode"], settings["Privileged"]) == (1024, "private", False)
            assert not settings["PortBindings"]
            assert {row["Type"] for row in found["Mounts"]} == {"volume"}
            assert all(client.inspect_network(name)["Internal"] for name in networks)
        assert (
            sandbox.execute("touch /shared/x; cat /proc/1/comm; getent hosts store", timeout_seconds=30).exit_code == 0
        )
        # The task has no network, so neither has any container of it.
        ways_out = sandbox.execute(
            "python3 -c 'import socket; socket.create_connection((\"1.1.1.1\", 53), 2)'", timeout_seconds=30
        )
        assert ways_out.exit_code != 0
    finally:
        sandbox.close()
    assert left_behind(sandbox.mark) == []


def is_service(sandbox: DockerSandbox, name: str) -> bool:
    with contextlib.closing(docker_engine.connect()) as client:
        found = [each["Id"] for each in client.containers(all=True)]
    return name in found and name != sandbox.container


def test_services_outlive_the_agents_processes_and_no_other_attempt_meets_them(task: Task) -> None:
    first, second = open_sandbox(task, name="a"), open_sandbox(task, name="b")
    try:
        first.execute("echo mine > /shared/note", timeout_seconds=30)
        first.end_processes()
        assert "from-the-store" in first.execute(ASK, timeout_seconds=30).output
        assert second.execute("cat /shared/note", timeout_seconds=30).exit_code != 0
    finally:
        first.close()
        second.close()


def test_a_service_that_fails_is_named_with_what_it_wrote(tmp_path: Path) -> None:
    task = make_task(tmp_path, serve="#!/bin/sh\necho no database here\nexit 3\n")
    with pytest.raises(SandboxError, match="the service store ended with exit code 3") as raised:
        open_sandbox(task, name="t")
    assert "no database here" in raised.value.log


def test_a_service_that_never_becomes_healthy_is_named(tmp_path: Path) -> None:
    compose = (
        FILES["environment/docker-compose.yaml"]
        .replace("grep -q python3", "grep -q nothing")
        .replace("interval: 1s", "interval: 1s, retries: 2")
    )
    with pytest.raises(SandboxError, match=r"store.*(not healthy|unhealthy)"):
        open_sandbox(make_task(tmp_path, docker_compose=compose), name="t")


def test_the_working_directory_is_the_tasks(tmp_path: Path) -> None:
    toml = FILES["task.toml"].replace("[environment]", '[environment]\nworkdir = "/srv/new folder"')
    task = make_task(tmp_path, task=toml)
    done = attempt(ScriptAgent("pwd"), replace(task, machine=replace(task.machine, services=None)))
    assert done.said.strip() == "/srv/new folder"
    sandbox = open_sandbox(replace(task, machine=replace(task.machine, services=None)), name="t")
    try:
        assert sandbox.path(WORKSPACE) == "/srv/new folder"
    finally:
        sandbox.close()


def test_nothing_of_this_machine_reaches_a_service(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORT", "9999")  # a variable of the worker, of a name that the compose file asks for
    monkeypatch.setenv("COMPOSE_FILE", "/etc/passwd")
    assert attempt(Oracle(), task).success is True
    assert os.environ["PORT"] == "9999"
