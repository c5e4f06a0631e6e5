"""The sandbox in a container: what a command can do, what bounds it, and that nothing of it is left behind."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import docker
import pytest
from docker.errors import APIError

from runner.base.errors import SandboxError, SandboxRuined, SetupError
from runner.base.types import File, Machine, Task
from runner.programs import Program
from runner.sandboxes import LOGS, sandbox_kind
from runner.sandboxes.docker import docker_engine, docker_programs, docker_sandbox
from runner.sandboxes.docker.docker_engine import Leftover, connect, leftovers, remove_marked, sweep
from runner.sandboxes.docker.docker_limits import ContainerLimits
from runner.sandboxes.docker.docker_sandbox import DockerSandbox, end_processes, open_sandbox
from runner.sandboxes.needs import Needs, Provider
from runner.sandboxes.processes import this_process
from tests.docker_images import base_image
from tests.runner.container_trials import ANSWER, MACHINE, ScriptAgent, attempt, container_task, left_behind

pytestmark = [pytest.mark.docker, pytest.mark.slow]


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return container_task(tmp_path, replace(MACHINE, image=base_image()))


@pytest.fixture
def sandbox(task: Task) -> Iterator[DockerSandbox]:
    opened = open_sandbox(task, name="t")
    yield opened
    opened.close()
    assert left_behind(opened.mark) == []


def run(sandbox: DockerSandbox, command: str, seconds: float = 120) -> str:
    return sandbox.execute(command, timeout_seconds=seconds).output


def test_it_is_found_by_name() -> None:
    assert sandbox_kind("docker").open_sandbox is open_sandbox


def test_it_gives_back_files_with_their_executable_bit(sandbox: DockerSandbox) -> None:
    files = {"a.txt": File(b"one"), "deep/er/run.sh": File(b"#!/bin/sh\necho ran\n", 0o755)}
    sandbox.put("workspace", files)
    assert run(sandbox, "pwd; deep/er/run.sh") == "/workspace\nran\n"
    assert sandbox.files("workspace") == files


def test_it_replaces_what_stands_in_the_way_of_a_file(sandbox: DockerSandbox) -> None:
    run(sandbox, "rm -rf /tests; ln -s /etc /tests; mkdir -p /skills/a.txt; ln -s /etc /skills/b")
    sandbox.put("tests", {"test.sh": File(b"true")})
    sandbox.put("skills", {"a.txt": File(b"a"), "b/c.txt": File(b"c")})
    assert run(sandbox, "ls /tests; ls /etc/test.sh /etc/c.txt 2>&1 | grep -c 'No such'") == "test.sh\n2\n"
    assert set(sandbox.files("skills")) == {"a.txt", "b/c.txt"}


def test_it_puts_nothing_outside_its_folder(sandbox: DockerSandbox) -> None:
    with pytest.raises(SandboxError, match="not a plain relative path"):
        sandbox.put("workspace", {"../x": File(b"")})


def test_it_names_what_it_does_not_read(sandbox: DockerSandbox) -> None:
    run(sandbox, "mkdir -p /skills/s; cd /skills/s; ln -s /etc/passwd link; mkfifo pipe; echo x > file; ln file hard")
    tree = sandbox.tree("skills")
    assert tree.files == {"s/file": File(b"x\n"), "s/hard": File(b"x\n")}
    assert tree.left_out == ["s/link: a link", "s/pipe: a special file"]


def test_files_asked_for_by_name_come_whatever_lies_beside_them(sandbox: DockerSandbox) -> None:
    """A verifier's core dumps and caches come before "reward.txt" in the alphabet, and links are plain files there."""
    made = (
        "cd /logs && truncate -s 9G agent.log && echo 1 > /tmp/r && ln /tmp/r reward.txt && ln -s /etc/passwd ctrf.json"
    )
    run(sandbox, f"{made} && truncate -s 100M score_report.json && mkdir process_report.json")
    names = frozenset({"reward.txt", "ctrf.json", "score_report.json", "process_report.json", "reward.json"})
    tree = sandbox.tree(LOGS, names=names)
    assert tree.files["reward.txt"].content == b"1\n"
    assert sorted(tree.files) == ["reward.txt", "score_report.json"]
    told = ["ctrf.json: a link", "process_report.json: a special file", "score_report.json: 104,857,600 bytes, only"]
    assert [line[: len(start)] for line, start in zip(sorted(tree.left_out), told, strict=True)] == told


def test_it_keeps_the_callers_secrets_out(sandbox: DockerSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    assert "sk-secret" not in run(sandbox, "env; cat /proc/1/environ")


def test_it_gives_a_command_its_variables(sandbox: DockerSandbox) -> None:
    done = sandbox.execute("echo $EXTRA", timeout_seconds=120, environment={"EXTRA": "here"})
    assert (done.exit_code, done.output) == (0, "here\n")


def test_it_reports_exit_codes_and_both_streams(sandbox: DockerSandbox) -> None:
    done = sandbox.execute("echo out; echo err >&2; exit 7", timeout_seconds=120)
    assert (done.exit_code, done.timed_out, done.truncated) == (7, False, False)
    assert sorted(done.output.splitlines()) == ["err", "out"]


def test_it_cuts_long_output_in_the_middle_and_says_so(sandbox: DockerSandbox) -> None:
    sandbox.limits = ContainerLimits(output_characters=1_000)
    done = sandbox.execute("echo first; head -c 5000 /dev/zero | tr '\\0' x; echo last", timeout_seconds=120)
    assert done.truncated
    assert done.output.startswith("first\nxx")
    assert done.output.endswith("xxlast\n")
    assert "\n[... 4,011 characters left out ...]\n" in done.output


def test_it_ends_a_command_at_its_time_limit_with_its_children_and_keeps_the_rest(sandbox: DockerSandbox) -> None:
    run(sandbox, "setsid sleep 501 >/dev/null 2>&1 &")
    done = sandbox.execute("echo early; sleep 502 & sleep 503; echo late", timeout_seconds=1)
    assert (done.exit_code, done.timed_out, done.output) == (None, True, "early\n\n[ended at the time limit]\n")
    assert run(sandbox, "ps -o args= ax | grep -o '^sleep 50.'") == "sleep 501\n"


def test_it_does_not_wait_for_background_processes(sandbox: DockerSandbox) -> None:
    run(sandbox, "true")
    done = sandbox.execute("sleep 500 & echo started", timeout_seconds=60)
    assert done.output == "started\n"
    assert done.duration_seconds < 20


def test_it_buries_orphans(sandbox: DockerSandbox) -> None:
    run(sandbox, "for i in 1 2 3 4 5; do (sleep 0.1 & ); done; sleep 1")
    assert run(sandbox, "ps -o stat= ax | grep -c Z") == "0\n"


def test_it_ends_every_process_and_keeps_the_files(sandbox: DockerSandbox) -> None:
    run(sandbox, "echo kept > a.txt; setsid sleep 1000 >/dev/null 2>&1 & trap '' TERM; nohup sleep 1001 &")
    sandbox.end_processes()
    assert sandbox.files("workspace") == {"a.txt": File(b"kept\n")}
    assert "sleep 100" not in run(sandbox, "ps ax")
    assert run(sandbox, "cat a.txt") == "kept\n"


def test_it_lives_on_when_its_container_went_down(sandbox: DockerSandbox) -> None:
    run(sandbox, "echo kept > a.txt")
    docker.from_env().containers.get(sandbox.container).kill()
    assert run(sandbox, "cat a.txt") == "kept\n"


def test_it_tells_an_agent_that_nothing_can_run_any_more_and_the_verifier_that_it_is_ruined(
    sandbox: DockerSandbox,
) -> None:
    run(sandbox, "rm /bin/sh")
    told = sandbox.execute("true", timeout_seconds=120)
    assert told.exit_code in (126, 127)
    assert "/bin/sh" in told.output
    sandbox.end_processes()
    with pytest.raises(SandboxRuined, match="the sandbox can no longer run anything"):
        sandbox.execute("true", timeout_seconds=120)


def test_a_container_that_somebody_else_removed_is_no_doing_of_the_agent(sandbox: DockerSandbox) -> None:
    run(sandbox, "true")
    sandbox.end_processes()
    sandbox.client.remove_container(sandbox.container, force=True)
    with pytest.raises(SandboxError, match="removed by somebody else") as caught:
        sandbox.execute("true", timeout_seconds=120)
    assert not isinstance(caught.value, SandboxRuined)


def test_it_has_the_limits_of_the_task(task: Task) -> None:
    opened = open_sandbox(replace(task, machine=replace(MACHINE, cpus=0.5, memory_mb=99)), name="t")
    try:
        settings = docker.from_env().containers.get(opened.container).attrs["HostConfig"]
    finally:
        opened.close()
    assert settings["Memory"] == settings["MemorySwap"] == 99 * 2**20
    assert (settings["NanoCpus"], settings["PidsLimit"], settings["NetworkMode"]) == (500_000_000, 1024, "none")
    assert (settings["CapDrop"], settings["SecurityOpt"]) == (["ALL"], ["no-new-privileges"])


def test_it_mounts_one_writable_library_at_every_place_and_removes_it(task: Task) -> None:
    needs = Needs(skill_folders=("/root/.claude/skills", "/root/.agents/skills"))
    opened = open_sandbox(task, name="t", needs=needs)
    try:
        opened.put("skills", {"s/SKILL.md": File(b"one")})
        assert run(opened, "cat /root/.claude/skills/s/SKILL.md; echo two > /root/.agents/skills/s/new") == "one"
        opened.end_processes()
        assert opened.files("skills") == {"s/SKILL.md": File(b"one"), "s/new": File(b"two\n")}
    finally:
        opened.close()
    assert left_behind(opened.mark) == []


def test_what_the_engine_does_not_let_go_of_costs_no_result_and_the_rest_goes(
    task: Task, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    opened = open_sandbox(task, name="t", needs=Needs(skill_folders=("/root/.claude/skills",)))
    with monkeypatch.context() as patch:
        patch.setattr(type(opened.client), "remove_container", refused)
        opened.close()
    assert "removing the container" in caplog.text
    assert "removing the volume" in caplog.text  # tried all the same; the container holds it
    assert len(remove_marked(opened.mark)) == 2
    assert left_behind(opened.mark) == []


def test_a_container_that_takes_long_to_remove_holds_no_worker(
    task: Task, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As one with 120,000 files. Closing, taking over and sweeping go on; container and volume go when they can."""
    opened = open_sandbox(task, name="t", needs=Needs(skill_folders=("/root/.claude/skills",)))
    go_on, waiting = threading.Event(), []
    real = type(opened.client).remove_container

    def slowly(*given: object, **more: object) -> None:
        waiting.append(1)
        go_on.wait(60)
        real(*given, **more)

    monkeypatch.setattr(docker_engine, "PATIENCE", 0.5)
    monkeypatch.setattr(type(opened.client), "remove_container", slowly)
    opened.close()
    end_processes(opened.handle)
    swept = sweep(lambda found: found.mark == opened.mark and found.kind == "container")
    until = time.monotonic() + 60
    while len(waiting) < 3 and time.monotonic() < until:
        time.sleep(0.1)
    assert (len(waiting), len(left_behind(opened.mark))) == (3, 2)
    assert "the engine is still removing it" in caplog.text
    assert [line for line in swept.failed if "the engine is still removing it" in line] == list(swept.failed) != []
    go_on.set()
    until = time.monotonic() + 60
    while left_behind(opened.mark) and time.monotonic() < until:
        time.sleep(0.1)
    assert left_behind(opened.mark) == []


def refused(*_: object, **__: object) -> None:
    raise APIError("busy")


def test_it_mounts_a_program_read_only_from_a_volume_loaded_once(task: Task, tmp_path: Path) -> None:
    folder = tmp_path / "program"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "hello").write_text("#!/bin/sh\necho hello from $0\n")
    (folder / "bin" / "hello").chmod(0o755)
    (folder / "current").symlink_to("bin")
    program = Program("skillglass-test", "1.0", folder, "/opt/program")
    said = []
    for _ in range(2):
        opened = open_sandbox(task, name="t", needs=Needs(program=program))
        try:
            said.append(run(opened, "/opt/program/current/hello; touch /opt/program/x 2>&1"))
        finally:
            opened.close()
    volumes = docker.from_env().volumes.list(filters={"label": "skillglass.program=skillglass-test 1.0"})
    for volume in volumes:
        volume.remove()
    assert said[0] == said[1]
    assert said[0].startswith("hello from /opt/program/current/hello\ntouch: ")
    assert "Read-only file system" in said[0]
    assert len(volumes) == 1


def test_it_loads_a_program_again_whose_volume_somebody_removed(tmp_path: Path) -> None:
    (tmp_path / "hello").write_text("hello")
    program, engine = Program("skillglass-test", "3.0", tmp_path, "/opt/program"), connect()
    for before in ("nothing", "removed", "made anew"):
        name = docker_programs.program_volume(engine, program, base_image())
        settings = engine.create_host_config(mounts=[docker_programs.mount(name, "/p", read_only=True)])
        held = engine.create_container(base_image(), ["true"], host_config=settings)["Id"]
        try:
            assert b"hello" in b"".join(engine.get_archive(held, "/p/hello")[0]), before
        finally:
            engine.remove_container(held)
            engine.remove_volume(name)
        if before == "removed":  # so the next one finds an empty volume of that name
            time.sleep(1.1)  # the engine tells seconds
            engine.create_volume(name)
    engine.close()


def test_workers_that_share_no_folder_load_a_program_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does a loader that died keep them waiting."""
    (tmp_path / "hello").write_text("hello")
    program = Program("skillglass-test", "2.0", tmp_path, "/opt/program")
    name, image, packed, real = "skillglass-program-test-2.0", base_image(), [], docker_programs._pack

    def slowly(folder: Path) -> Iterator[bytes]:
        packed.append(folder)
        time.sleep(1)
        yield from real(folder)

    def load() -> None:
        client = connect()
        docker_programs._load(client, program, name, image)
        client.close()

    monkeypatch.setattr(docker_programs, "_pack", slowly)
    dead = replace(this_process(), started="long-ago")
    engine = connect()
    engine.create_container(image, ["true"], name=f"{name}-loading", labels={"skillglass.owner": str(dead)})
    workers = [threading.Thread(target=load) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert engine.containers(all=True, filters={"name": f"{name}-loading"}) == []
    engine.remove_volume(name)
    engine.close()
    assert len(packed) == 1


class _Answering(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        content = json.dumps({"authorization": self.headers["Authorization"]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    monkeypatch.setenv("SKILLGLASS_TEST_KEY", "sk-outside")
    server = HTTPServer(("127.0.0.1", 0), _Answering)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield Provider(f"http://127.0.0.1:{server.server_port}", "SKILLGLASS_TEST_KEY")
    server.shutdown()
    server.server_close()


ASK = """python3 - <<'END'
import urllib.request, socket
request = urllib.request.Request("{url}/v1/chat/completions", b'{{"model": "m", "messages": []}}')
try:
    print("answered", urllib.request.urlopen(request, timeout=5).status)
except Exception as error:
    print("refused", error)
for place in (("1.1.1.1", 53), ("169.254.169.254", 80)):
    try:
        socket.create_connection(place, 2); print("reached", place)
    except OSError as error:
        print("no way", error)
try:
    print("found", socket.getaddrinfo("example.org", 80))
except OSError as error:
    print("no name", error)
END"""


def test_its_only_way_out_is_the_provider_until_the_agent_ends(task: Task, provider: Provider) -> None:
    opened = open_sandbox(task, name="t", needs=Needs(provider=provider))
    try:
        url = opened.provider_url
        assert url is not None
        during = run(opened, ASK.format(url=url), 60)
        opened.end_processes()
        after = run(opened, ASK.format(url=url), 60)
        assert opened.provider_url is None
    finally:
        opened.close()
    assert "answered 200" in during
    assert (during.count("no way"), during.count("no name")) == (2, 1)
    assert "sk-outside" not in during
    assert "refused" in after
    assert left_behind(opened.mark) == []


METADATA = """python3 - <<'END'
import socket
for place in ("169.254.169.254", "169.254.170.2", "100.100.100.200"):
    try:
        socket.create_connection((place, 80), 2); print("reached", place)
    except OSError as error:
        print("no way", place)
END"""


def test_a_way_out_does_not_lead_to_metadata_addresses(task: Task) -> None:
    """Each of two sandboxes with network, which do not see each other on the networks that they share."""
    online = replace(task, machine=replace(task.machine, network=True))
    one, other = open_sandbox(online, name="one"), open_sandbox(online, name="other")
    try:
        told = [run(sandbox, METADATA, 60) for sandbox in (one, other)]
        inside = docker.from_env().api.inspect_container(other.container)["NetworkSettings"]["Networks"]
        assert len(inside) == 3
        listen = "python3 -m http.server 8080 >/dev/null 2>&1 & sleep 2; echo up"
        assert "up" in run(other, listen, 60)
        addresses = [each["IPAddress"] for each in inside.values()]
        ask = f'for place in {" ".join(addresses)}; do timeout 2 bash -c "</dev/tcp/$place/8080" && echo reached $place; done; true'  # noqa: E501
        assert "reached" not in run(one, ask, 60)
        assert "reached" in run(other, ask, 60)
    finally:
        one.close()
        other.close()
    assert [text.count("no way") for text in told] == [3, 3]
    routes = subprocess.run(["ip", "route"], capture_output=True, text=True).stdout
    assert not re.search(r"^(169\.254\.0\.0|100\.100\.64\.0)/", routes, re.MULTILINE)


def test_it_scores_through_the_runners_own_code(task: Task) -> None:
    right, wrong = attempt(ScriptAgent(ANSWER), task), attempt(ScriptAgent("echo 41 > answer.txt"), task)
    assert (right.success, wrong.success) == (True, False)
    assert left_behind(right.mark) == left_behind(wrong.mark) == []


# --- what can go wrong --------------------------------------------------------------------------------------------


def test_it_says_that_no_engine_answers(task: Task, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    with pytest.raises(SandboxError, match="no Docker engine answers; start it or set DOCKER_HOST"):
        open_sandbox(task, name="t")


def test_it_says_that_an_image_has_no_shell(task: Task) -> None:
    client = docker.from_env()
    image = client.api.import_image_from_data(b"\0" * 1024, repository="skillglass-test-empty", tag="1")
    assert image
    try:
        with pytest.raises(SetupError, match="cannot run /bin/sh"):
            open_sandbox(replace(task, machine=Machine(image="skillglass-test-empty:1")), name="t")
    finally:
        client.images.remove("skillglass-test-empty:1", force=True)


def test_it_says_that_the_engines_disk_is_full(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker_sandbox, "LIMITS", replace(ContainerLimits(), free_bytes=2**60))
    opened = open_sandbox(task, name="t")
    try:
        done = opened.execute("sleep 30", timeout_seconds=30)
    finally:
        opened.close()
    assert done.exit_code in (None, 126)  # ended, or refused where the first look at the disk came before it
    assert done.duration_seconds < 30
    assert "MiB are left on the engine's disk" in done.output


OPEN_AND_DIE = """
import os, sys
from pathlib import Path
from dataclasses import replace
from runner.sandboxes import Needs
from runner.sandboxes.docker.docker_sandbox import open_sandbox
from tests.runner.container_trials import container_task
sandbox = open_sandbox(container_task(Path(sys.argv[1])), name="", needs=Needs(skill_folders=("/root/.x",)))
sandbox.execute("setsid sleep 1000 >/dev/null 2>&1 &", timeout_seconds=30)
import json
print(json.dumps(sandbox.handle), flush=True)
os._exit(9)
"""


@pytest.fixture
def orphan(task: Task, tmp_path: Path) -> dict[str, object]:
    """The handle of a sandbox whose process died."""
    done = subprocess.run(
        [sys.executable, "-c", OPEN_AND_DIE, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 9, done.stderr
    handle: dict[str, object] = json.loads(done.stdout)
    assert len(left_behind(str(handle["mark"]))) == 2
    return handle


def test_it_removes_what_an_interrupted_attempt_left(orphan: dict[str, object]) -> None:
    end_processes({**orphan, "engine": "another engine"})
    assert len(left_behind(str(orphan["mark"]))) == 2
    end_processes(orphan)
    end_processes(orphan)
    assert left_behind(str(orphan["mark"])) == []


def test_a_sweep_removes_what_nobody_owns_and_leaves_what_somebody_does(
    orphan: dict[str, object], sandbox: DockerSandbox
) -> None:
    ours = {str(orphan["mark"]), sandbox.mark}

    def is_dead(found: Leftover) -> bool:
        return found.mark in ours and found.owner_is_gone

    assert len(sweep(is_dead, dry_run=True).removed) == 2
    assert len(left_behind(str(orphan["mark"]))) == 2
    assert {found.kind for found in sweep(is_dead).removed} == {"container", "volume"}
    assert left_behind(str(orphan["mark"])) == []
    assert len(left_behind(sandbox.mark)) == 1
    assert sandbox.mark in {found.mark for found in leftovers(sandbox.client)}


def test_it_refuses_a_handle_that_is_not_its_own() -> None:
    end_processes({"kind": "local", "mark": "x"})
    with pytest.raises(SandboxError, match="not the mark"):
        end_processes({"kind": "docker", "mark": "skillglass=1"})


def test_many_short_commands_lose_nothing(sandbox: DockerSandbox) -> None:
    began = time.monotonic()
    assert [run(sandbox, f"echo {number}") for number in range(30)] == [f"{number}\n" for number in range(30)]
    assert time.monotonic() - began < 60
