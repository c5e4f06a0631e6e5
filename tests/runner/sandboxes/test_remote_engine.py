"""A Docker engine on another machine: namespaces of this one, with a folder that cannot be seen from here,
reached by TLS."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from benchapp.management.commands.doctor import limits
from runner.base.errors import SandboxError, SetupError
from runner.base.types import Task
from runner.sandboxes.docker import docker_engine
from runner.sandboxes.docker.docker_limits import engine_folder
from runner.sandboxes.docker.docker_sandbox import end_processes, open_sandbox
from runner.sandboxes.needs import Needs, Provider
from tests.conftest import require
from tests.docker_images import base_image
from tests.runner.container_trials import ANSWER, MACHINE, Outcome, ScriptAgent, attempt, container_task, left_behind

pytestmark = [pytest.mark.docker, pytest.mark.slow]
HERE, THERE = "10.78.7.1", "10.78.7.2"
PROGRAMS = ("unshare", "nsenter", "ip", "dockerd", "openssl")


@dataclass(frozen=True, slots=True)
class RemoteEngine:
    url: str
    certificates: Path
    strangers: Path  # of another authority
    inside: tuple[str, ...] = ()  # a command that starts another one there

    def use(self, patch: pytest.MonkeyPatch) -> None:
        patch.setenv("DOCKER_HOST", self.url)
        patch.setenv("DOCKER_TLS_VERIFY", "1")
        patch.setenv("DOCKER_CERT_PATH", str(self.certificates))


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RemoteEngine]:
    require(os.getuid() == 0, "only root can make namespaces")
    require(all(map(shutil.which, PROGRAMS)), f"one of {', '.join(PROGRAMS)} is not installed")
    folder = tmp_path_factory.mktemp("remote")
    certificates, strangers = make_certificates(folder / "ours"), make_certificates(folder / "strangers")
    # The engine's folder has the name of this machine's; what lies there is another one.
    (folder / "docker").mkdir()
    hidden = f"mount --bind {folder}/docker /var/lib/docker && mount -t tmpfs none /run"
    spaces = ["--net", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    keeper = subprocess.Popen(
        ["unshare", *spaces, "sh", "-c", f"hostname elsewhere && {hidden} && echo ready && exec sleep 1800"],
        stdout=subprocess.PIPE,
    )
    link = f"sgr{os.getpid()}"[:15]
    try:
        assert keeper.stdout is not None
        assert keeper.stdout.readline() == b"ready\n"
        pid = Path(f"/proc/{keeper.pid}/task/{keeper.pid}/children").read_text().split()[0]
        inside = ["nsenter", "--target", pid, "--net", "--uts", "--mount", "--pid"]
        connect_hosts(link, pid, inside)
        start_engine(inside, certificates, folder / "dockerd.log")
        engine = RemoteEngine(f"tcp://{THERE}:2376", certificates, strangers)
        await_engine(engine, folder / "dockerd.log")
        load_base_image(engine)
        yield replace(engine, inside=tuple(inside))
    finally:
        keeper.kill()
        keeper.wait()
        subprocess.run(["ip", "link", "del", link], capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)


NOWHERE = "neither on the machine of the Docker engine nor in a container of it"


@pytest.fixture
def remote(machine: RemoteEngine, monkeypatch: pytest.MonkeyPatch) -> RemoteEngine:
    machine.use(monkeypatch)
    return machine


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return container_task(tmp_path, replace(MACHINE, image=base_image()))


def make_certificates(folder: Path) -> Path:
    """An authority, and a certificate of it that serves as client's and server's.
    The names are those Docker looks for."""
    folder.mkdir()
    (folder / "more").write_text(f"subjectAltName=IP:{THERE}\nextendedKeyUsage=serverAuth,clientAuth\n")
    for command in (
        "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority -keyout ca-key.pem -out ca.pem",
        "req -newkey rsa:2048 -nodes -subj /CN=engine -keyout key.pem -out request.pem",
        "x509 -req -days 2 -in request.pem -CA ca.pem -CAkey ca-key.pem -CAcreateserial -extfile more -out cert.pem",
    ):
        subprocess.run(["openssl", *command.split()], cwd=folder, check=True, capture_output=True)
    return folder


def connect_hosts(link: str, pid: str, inside: list[str]) -> None:
    for command in (
        ["ip", "link", "add", link, "type", "veth", "peer", "name", "lan", "netns", pid],
        ["ip", "addr", "add", f"{HERE}/30", "dev", link],
        ["ip", "link", "set", link, "up"],
        [*inside, "ip", "addr", "add", f"{THERE}/30", "dev", "lan"],
        [*inside, "ip", "link", "set", "lan", "up"],
        [*inside, "ip", "link", "set", "lo", "up"],
    ):
        subprocess.run(command, check=True)


def start_engine(inside: list[str], certificates: Path, log: Path) -> None:
    files = {"--tlscacert": "ca.pem", "--tlscert": "cert.pem", "--tlskey": "key.pem"}
    trust = [part for option, name in files.items() for part in (option, str(certificates / name))]
    with log.open("wb") as told:
        hosts = ["--host", f"tcp://{THERE}:2376", "--host", "unix:///run/docker.sock"]
        command = [*inside, "dockerd", *hosts, "--tlsverify", *trust]
        subprocess.Popen(command, stdout=told, stderr=told)


def await_engine(engine: RemoteEngine, log: Path) -> None:
    until = time.monotonic() + 90
    while docker(engine, "version").returncode:
        assert time.monotonic() < until, log.read_text()[-3000:]
        time.sleep(0.2)


def docker(engine: RemoteEngine, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    trust = {"DOCKER_HOST": engine.url, "DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": str(engine.certificates)}
    return subprocess.run(["docker", *arguments], env={**os.environ, **trust}, capture_output=True)


def load_base_image(engine: RemoteEngine) -> None:
    archive = engine.certificates / "image.tar"
    subprocess.run(["docker", "save", "--output", str(archive), base_image()], check=True)
    loaded = docker(engine, "load", "--input", str(archive))
    assert loaded.returncode == 0, loaded.stderr
    archive.unlink()


def what_it_was(outcome: Outcome) -> tuple[object, ...]:
    """What must not depend on where it ran."""
    assert outcome.result is not None, outcome.error
    steps = [
        (step.source, step.message, [seen.content for seen in step.observations])
        for step in outcome.result.trajectories[0].steps
    ]
    verdict = outcome.result.verdict
    return steps, verdict and (verdict.success, verdict.reward, verdict.checks), outcome.result.failure


def test_a_trial_there_is_the_same_as_one_here(machine: RemoteEngine, task: Task):
    agent = ScriptAgent(f"cat /skills/s/SKILL.md; id -u; {ANSWER}", skill_folders=("/home/agent/skills",))
    library = {"s/SKILL.md": "a skill\n"}
    here = attempt(agent, task, library)
    with pytest.MonkeyPatch.context() as patch:
        machine.use(patch)
        there = attempt(agent, task, library)
        assert left_behind(there.mark) == []
    assert there.success is True
    assert what_it_was(there) == what_it_was(here)


def test_an_image_is_built_there(remote: RemoteEngine, task: Task):
    context = task.folder / "environment"
    context.mkdir()
    (context / "note.txt").write_text("from the context\n")
    (context / "Dockerfile").write_text(f"FROM {base_image()}\nCOPY note.txt /note.txt\nRUN echo built >> /note.txt\n")
    built = replace(task, machine=replace(task.machine, image=None, context=context))
    outcome = attempt(ScriptAgent(f"cat /note.txt; {ANSWER}"), built)
    assert (outcome.success, outcome.said) == (True, "from the context\nbuilt\n"), outcome.error


def test_what_it_writes_there_is_bounded(remote: RemoteEngine, task: Task):
    outcome = attempt(ScriptAgent("head -c 600M /dev/zero > /big; sleep 60"), task)
    assert "ended: it wrote more than 300 MiB" in outcome.said


def test_the_disk_of_this_machine_is_not_taken_for_the_other_ones(remote: RemoteEngine):
    client = docker_engine.connect()
    assert engine_folder(client) is None
    assert "of disk only the size of a container's layer is seen" in limits()


def test_this_machines_engine_is_known_by_its_folder():
    client = docker_engine.connect()
    assert str(engine_folder(client)) == client.info()["DockerRootDir"]


def test_an_interrupted_attempt_there_is_ended_from_here(remote: RemoteEngine, task: Task):
    opened = open_sandbox(task, name="t")
    end_processes(opened.handle)
    assert left_behind(opened.mark) == []
    opened.client.close()


def test_an_engine_that_does_not_know_us_is_no_engine(
    remote: RemoteEngine, monkeypatch: pytest.MonkeyPatch, task: Task
):
    monkeypatch.setenv("DOCKER_CERT_PATH", str(remote.strangers))
    with pytest.raises(SandboxError, match="no Docker engine answers"):
        open_sandbox(task, name="t")


def test_a_socket_that_ssh_forwards_is_an_engine_too(
    machine: RemoteEngine, task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    require(shutil.which("sshd") is not None, "sshd is not installed")
    for name in ("host", "own"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name)], check=True)
    keys = [f"HostKey={tmp_path}/host", f"AuthorizedKeysFile={tmp_path}/own.pub"]
    settings = [*keys, "StrictModes=no", "UsePAM=no", "PidFile=none", "PermitRootLogin=yes"]
    options = ["StrictHostKeyChecking=no", f"UserKnownHostsFile={tmp_path}/known", "ExitOnForwardFailure=yes"]
    socket, started = tmp_path / "engine.sock", []
    try:
        serve = [shutil.which("sshd") or "", "-D", "-e", "-p", "2222", *(part for x in settings for part in ("-o", x))]
        run = ["mkdir", "-p", "/run/sshd"]
        subprocess.run([*machine.inside, *run], check=True)
        started.append(subprocess.Popen([*machine.inside, *serve], stderr=subprocess.DEVNULL))
        time.sleep(1)
        forward = ["ssh", "-N", "-p", "2222", "-i", str(tmp_path / "own"), *(p for x in options for p in ("-o", x))]
        started.append(subprocess.Popen([*forward, "-L", f"{socket}:/run/docker.sock", f"root@{THERE}"]))
        until = time.monotonic() + 20
        while not socket.exists() and time.monotonic() < until:
            time.sleep(0.1)
        monkeypatch.setenv("DOCKER_HOST", f"unix://{socket}")
        docker_engine.engine_id.cache_clear()  # both sockets have one name for the client
        assert docker_engine.engine_id(docker_engine.connect().base_url) != own_engine()
        outcome = attempt(ScriptAgent(ANSWER), task)
    finally:
        for process in started:
            process.kill()
            process.wait()
        docker_engine.engine_id.cache_clear()
    assert outcome.success is True, outcome.error


def own_engine() -> str:
    environment = {name: value for name, value in os.environ.items() if name != "DOCKER_HOST"}
    command = ["docker", "info", "--format", "{{.ID}}"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()


def test_ssh_is_told_how_to_get_there(monkeypatch: pytest.MonkeyPatch, task: Task):
    monkeypatch.setenv("DOCKER_HOST", "ssh://engine.example.org")
    with pytest.raises(SandboxError, match="expected unix:// or tcp://, not ssh://. Forward the engine's socket"):
        open_sandbox(task, name="t")


def test_an_agent_in_it_that_calls_a_provider_is_told_where_its_worker_must_run(remote: RemoteEngine, task: Task):
    provider = Provider("http://127.0.0.1:9/v1", None)
    with network_here("172.18.0.0/16"), pytest.raises(SetupError, match=NOWHERE):  # the first that an engine gives out
        open_sandbox(task, name="t", needs=Needs(provider=provider))


@contextlib.contextmanager
def network_here(subnet: str) -> Iterator[None]:
    """A network of the engine on this machine, unless it has one there already."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DOCKER_")}
    name = f"skillglass-test-{os.getpid()}"
    command = ["docker", "network", "create", "--subnet", subnet, name]
    subprocess.run(command, env=environment, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["docker", "network", "rm", name], env=environment, capture_output=True)
