"""Images of tasks: built once per content, kept apart, and failing with what the engine said."""

from __future__ import annotations

import io
import os
import re
import shutil
import signal
import subprocess
import tarfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import IO, cast

import docker
import pytest

from lab.kill_workers import free_port
from runner.agents.oracle import Oracle
from runner.base.errors import ImageError, SandboxError, SetupError, SuiteError
from runner.base.types import Machine, Task
from runner.sandboxes.docker import docker_builds, docker_images
from runner.sandboxes.docker.docker_builds import BuildWatch
from runner.sandboxes.docker.docker_contexts import read_context
from runner.sandboxes.docker.docker_engine import CARRIER_LABEL, OWNER_LABEL, connect, sweep
from runner.sandboxes.docker.docker_images import CONTEXT_LABEL, STANDS_FOR_LABEL, Image, image_for
from runner.sandboxes.docker.docker_limits import ContainerLimits
from runner.sandboxes.docker.docker_sandbox import open_sandbox
from runner.sandboxes.processes import ProcessName, this_process
from tests.conftest import SHARED_DATA, require
from tests.docker_images import base_image
from tests.runner.container_trials import TEST, ScriptAgent, attempt, container_task

pytestmark = [pytest.mark.docker, pytest.mark.slow]


LONG = f"1077.{os.getpid()}"  # seconds that no test waits, and a mark of this process's builds


@pytest.fixture
def client() -> Iterator[docker.APIClient]:
    opened = connect(timeout=60)
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


@pytest.fixture(params=[pytest.param("BuildKit", marks=pytest.mark.buildkit), "classic"])
def builder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which of the two the test's images are built with."""
    if request.param == "classic":
        monkeypatch.setattr(docker_builds, "what_is_missing", lambda client: docker_builds.NO_CLIENT)
    return str(request.param)


def running(words: str) -> list[str]:
    """Commands on this machine, in containers or not, that hold these words; not the one that asks."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode() if entry.name.isdigit() else ""
            if words in command and int(entry.name) != os.getpid():
                found.append(command)
    return found


@pytest.fixture(autouse=True)
def _end_what_a_failed_test_left() -> Iterator[None]:
    """So that one build that does not end fails one test, and not every test after it."""
    yield
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            if f"sleep {LONG}".encode() in (entry / "cmdline").read_bytes().replace(b"\0", b" "):
                os.kill(int(entry.name), signal.SIGKILL)


def ended(words: str) -> bool:
    """Is nothing with these words running any more, at the latest in half a minute?"""
    until = time.monotonic() + 30
    while running(words) and time.monotonic() < until:
        time.sleep(0.1)
    return not running(words)


def held(client: docker.APIClient) -> list[str]:
    """Containers that hold limits of a build of this process."""
    wanted = [CARRIER_LABEL, f"{OWNER_LABEL}={this_process()}"]
    return [row["Id"] for row in client.containers(all=True, filters={"label": wanted})]


def dockerfile(task: Task, *lines: str) -> None:
    assert task.machine.context is not None
    text = "\n".join([f"FROM {base_image()}", "LABEL skillglass.test=1", *lines]) + "\n"
    (task.machine.context / "Dockerfile").write_text(text)


def listing(client: docker.APIClient, image: Image) -> str:
    """Paths below the image's folder, a line each."""
    made = client.create_container(image.id, ["true"])
    try:
        with unpacked(client, made["Id"], image.folder) as archive:
            paths = (PurePosixPath(image.folder, *PurePosixPath(name).parts[1:]) for name in archive.getnames())
            return "\n".join(sorted(str(path) for path in paths if str(path) != image.folder))
    finally:
        client.remove_container(made["Id"], force=True)


def printed_by(client: docker.APIClient, image: Image, command: str) -> str:
    """What the command prints. A container's log may lack its last lines when it ended, so they go to a file."""
    made = client.create_container(image.id, ["sh", "-c", f"({command}) >/printed 2>&1"])
    try:
        client.start(made["Id"])
        client.wait(made["Id"])
        with unpacked(client, made["Id"], "/printed") as archive:
            return cast(IO[bytes], archive.extractfile("printed")).read().decode()
    finally:
        client.remove_container(made["Id"], force=True)


def unpacked(client: docker.APIClient, container: str, path: str) -> tarfile.TarFile:
    return tarfile.open(fileobj=io.BytesIO(b"".join(client.get_archive(container, path)[0])))


@pytest.mark.usefixtures("builder")
def test_it_builds_once_per_content(task: Task, client: docker.APIClient) -> None:
    dockerfile(task, "WORKDIR /root/task", "COPY . .")
    (task.folder / "environment" / "input.txt").write_text("one")
    first = image_for(client, task)
    assert (first.folder, first.user) == ("/root/task", "")
    assert image_for(client, task) == first
    (task.folder / "environment" / "input.txt").write_text("two")
    assert image_for(client, task).id != first.id


@pytest.mark.usefixtures("builder")
def test_two_that_build_at_once_get_the_same_image(task: Task) -> None:
    dockerfile(task, "RUN sleep 1")
    found: list[str] = []

    def build() -> None:
        own = connect(timeout=60)
        found.append(image_for(own, task).id)
        own.close()

    threads = [threading.Thread(target=build) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3
    assert len(set(found)) == 1


@pytest.mark.usefixtures("builder")
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


@pytest.mark.usefixtures("builder")
def test_it_gives_a_missing_skills_folder_to_a_dockerfile_that_copies_it(task: Task, client: docker.APIClient) -> None:
    dockerfile(task, "WORKDIR /t", "COPY skills /root/.claude/skills", "COPY --chown=0:0 ./skills/ /t/other")
    assert listing(client, image_for(client, task)) == "/t/other"


@pytest.mark.usefixtures("builder")
def test_a_failing_build_keeps_its_log(task: Task, client: docker.APIClient) -> None:
    dockerfile(task, "RUN echo about to fail; exit 3")
    with pytest.raises(ImageError, match="cannot be built.*code: 3") as caught:
        image_for(client, task)
    assert "about to fail\n" in caught.value.log


@pytest.mark.usefixtures("builder")
@pytest.mark.parametrize("command", ["sleep {}", "while :; do echo still at it; sleep 0.2; done; echo {}"])
def test_a_build_ends_at_its_time_limit(task: Task, client: docker.APIClient, command: str) -> None:
    dockerfile(task, f"RUN {command.format(LONG)}")
    slow = replace(task, machine=replace(task.machine, build_timeout_seconds=4))
    with pytest.raises(SandboxError, match="was not built within 4 s"):
        image_for(client, slow)
    assert ended(LONG)
    assert held(client) == []


@pytest.mark.usefixtures("builder")
def test_a_build_that_falls_silent_late_ends_at_its_time_limit_too(task: Task, client: docker.APIClient) -> None:
    dockerfile(task, "RUN sleep 1; echo nearly; sleep 1076")
    began = time.monotonic()
    with pytest.raises(SandboxError, match="was not built within 8 s") as caught:
        image_for(client, replace(task, machine=replace(task.machine, build_timeout_seconds=8)))
    assert time.monotonic() - began < 60
    assert "nearly" in caught.value.log


@pytest.mark.usefixtures("builder")
def test_a_build_has_bounded_memory(task: Task, client: docker.APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker_builds, "LEAST_MEMORY_MB", 64)
    dockerfile(task, "RUN python3 -c 'print(len(bytearray(200 << 20)))'")
    small = replace(task, machine=replace(task.machine, memory_mb=64))
    with pytest.raises(SandboxError, match="137.*a build has 64 MiB of memory"):
        image_for(client, small)
    image_for(client, replace(task, machine=replace(task.machine, memory_mb=400)))


@pytest.mark.usefixtures("builder")
def test_no_build_begins_on_a_full_disk(task: Task, client: docker.APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker_builds, "LIMITS", ContainerLimits(free_bytes=2**60))
    dockerfile(task, "RUN echo begun")
    with pytest.raises(SandboxError, match="not built: less than .* MiB are left on the engine's disk") as caught:
        image_for(client, task)
    assert caught.value.log == ""


@pytest.mark.usefixtures("builder")
def test_a_build_that_fills_the_disk_is_ended(
    task: Task, client: docker.APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([None])  # room at first
    monkeypatch.setattr(BuildWatch, "full", lambda self: next(answers, "none is left"))
    dockerfile(task, f"RUN sleep {LONG}")
    with pytest.raises(SandboxError, match="the image was not built to its end: none is left"):
        image_for(client, task)
    assert ended(LONG)
    assert held(client) == []


@pytest.mark.usefixtures("builder")
def test_a_missing_base_is_named(task: Task, client: docker.APIClient) -> None:
    (task.folder / "environment" / "Dockerfile").write_text("FROM localhost:1/skillglass-none:1\n")
    with pytest.raises(
        SandboxError,
        match="image localhost:1/skillglass-none:1 is not on the engine and cannot be fetched .connection refused.",
    ):
        image_for(client, task)


# --- what only BuildKit reads -------------------------------------------------------------------------------------

HEREDOCS = r"""# escape=\
# syntax=docker/dockerfile:1
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
WORKDIR /t
RUN <<'END'
set -euo pipefail
names=\"\"\"
one
two
\"\"\"
printf '%s' \"$names\" | grep . > names
END
RUN mkdir -p /t/made && \
    cat > /t/made/project.xml <<'INNER'
<?xml version="1.0" encoding="UTF-8"?>
<project>
  <packaging>jar</packaging>
</project>
INNER
ENV GREETING=hello
COPY --chmod=755 <<-FIRST <<'SECOND' /t/
	#!/bin/sh
	echo $GREETING
FIRST
$GREETING
SECOND
RUN python3 <<END
print('from a heredoc', file=open('/t/python', 'w'))
END
RUN --mount=type=cache,target=/root/.cache,sharing=locked echo cached > /root/.cache/x && cp /root/.cache/x /t/cached
ARG NAME=value
COPY --link <<END /t/$NAME
$NAME
END
""".replace('\\"', '"')


@pytest.mark.buildkit
def test_heredocs_and_mounts_are_built(task: Task, client: docker.APIClient) -> None:
    first, syntax, rest = HEREDOCS.split("\n", 2)
    text = "\n".join([first, syntax, f"FROM {base_image()}", "LABEL skillglass.test=1", rest])
    (task.folder / "environment" / "Dockerfile").write_text(text)
    image = image_for(client, task)
    said = printed_by(client, image, "cat names made/project.xml; ./FIRST; cat SECOND python cached value").splitlines()
    xml = ['<?xml version="1.0" encoding="UTF-8"?>', "<project>", "  <packaging>jar</packaging>", "</project>"]
    assert said == ["one", "two", *xml, "hello", "$GREETING", "from a heredoc", "cached", "value"]


def test_what_only_buildkit_reads_says_what_to_install(
    task: Task, client: docker.APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Newer engines' classic builder takes a heredoc for nothing, and calls that a success."""
    monkeypatch.setattr(docker_builds, "what_is_missing", lambda client: docker_builds.NO_CLIENT)
    for lines in (
        ("RUN <<END", "touch /x", "END"),
        ("RUN true && \\", "    # a comment", "    cat > /x <<'END'", "<?xml?>", "END"),
        ("COPY <<-E /x", "E"),
    ):
        dockerfile(task, *lines)
        with pytest.raises(ImageError, match="has heredocs, which only BuildKit builds: install buildx"):
            image_for(client, task)
    dockerfile(task, "RUN --mount=type=cache,target=/c true")
    with pytest.raises(ImageError, match="classic builder does not read this; for BuildKit, install buildx") as caught:
        image_for(client, task)
    assert "\n" not in str(caught.value).strip()
    assert "built by the classic builder" in caught.value.log
    dockerfile(task, "RUN bash -c 'cat <<< word' && echo $((1 << 2))")
    image_for(client, task)


@pytest.mark.buildkit
def test_a_frontend_that_cannot_be_fetched_is_replaced_by_the_engines_own_and_the_log_says_so(
    task: Task, client: docker.APIClient
) -> None:
    for frontend, replaced in (("docker/dockerfile:skillglass-none", True), ("localhost:1/other:1", False)):
        text = f"# syntax={frontend}\nFROM {base_image()}\nRUN exit 4\n"
        (task.folder / "environment" / "Dockerfile").write_text(text)
        with pytest.raises((ImageError, SandboxError)) as caught:
            image_for(client, task)
        told = f"[{frontend} cannot be fetched: built without its syntax line, by the engine's own BuildKit]"
        assert (told in caught.value.log) is replaced
        assert ("exit code: 4" in str(caught.value)) is replaced


@pytest.mark.buildkit
def test_lines_of_a_document_are_no_instructions(task: Task, client: docker.APIClient) -> None:
    """An engine refuses `Users;` as the name of an image."""
    lines = ("COPY <<-A <<'B-1' /t/", "SELECT name", "FROM Users;", "\tA", "FROM Other;", "B-1", "RUN : $((1 << 2))")
    dockerfile(task, *lines, "COPY <<C /t/C", "COPY skills /t/", "C")
    context = read_context(task.folder / "environment")
    assert (context.bases, context.extra_folders) == ((base_image(),), ())
    assert listing(client, replace(image_for(client, task), folder="/t")) == "/t/A\n/t/B-1\n/t/C"


def test_an_ignore_file_of_the_dockerfiles_own_counts_before_the_folders(task: Task) -> None:
    dockerfile(task)
    for name, content in {"a": "", "b": "", ".dockerignore": "a\n", "Dockerfile.dockerignore": "b\n"}.items():
        (task.folder / "environment" / name).write_text(content)
    assert set(read_context(task.folder / "environment").paths) >= {"Dockerfile", "a"}
    assert "b" not in read_context(task.folder / "environment").paths


@pytest.mark.buildkit
def test_a_long_document_that_fails_still_says_how_it_ended(task: Task, client: docker.APIClient) -> None:
    dockerfile(task, "RUN <<END", *(f"echo line {number} of many" for number in range(200)), "exit 8", "END")
    with pytest.raises(ImageError, match=r"line 3.*\.\.\..*exit code: 8$"):
        image_for(client, task)


@pytest.mark.buildkit
def test_no_step_joins_the_hosts_network(task: Task, client: docker.APIClient) -> None:
    dockerfile(task, "RUN --network=host true")
    with pytest.raises(ImageError, match="network.host is not allowed"):
        image_for(client, task)


@pytest.mark.parametrize(
    ("text", "frontend", "rest"),
    [
        ("# syntax=docker/dockerfile:1\nFROM a\n", "docker/dockerfile:1", "FROM a\n"),
        ("#syntax = docker/dockerfile:1.7-labs\r\nFROM a", "docker/dockerfile:1.7-labs", "FROM a"),
        ("# escape=`\n# SYNTAX=x/y\nFROM a", "x/y", "# escape=`\nFROM a"),
        ("# a comment\n# syntax=x/y\nFROM a", None, "# a comment\n# syntax=x/y\nFROM a"),
        ("FROM a\n# syntax=x/y\n", None, "FROM a\n# syntax=x/y\n"),
    ],
)
def test_a_syntax_line_counts_where_only_directives_stand_before_it(text: str, frontend: str | None, rest: str) -> None:
    assert docker_builds.syntax_of(text) == frontend
    assert docker_builds.without_syntax(text) == rest


@pytest.mark.buildkit
def test_a_build_ends_with_the_process_that_asked_for_it(task: Task, client: docker.APIClient) -> None:
    """Also where that one is killed and can end nothing any more."""
    dockerfile(task, f"RUN sleep {LONG}")
    pid = os.fork()
    if pid == 0:
        with suppress(BaseException):
            image_for(connect(), task)
        os._exit(0)
    until = time.monotonic() + 60
    while not running(LONG) and time.monotonic() < until:
        time.sleep(0.1)
    began = running(LONG)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert began
    assert ended(LONG)
    removed = sweep(lambda left: getattr(ProcessName.parse(left.owner), "pid", 0) == pid and left.owner_is_gone).removed
    assert [each.kind for each in removed] == ["container"]


@pytest.mark.buildkit
def test_a_build_sees_nothing_of_the_workers_settings(
    task: Task, client: docker.APIClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = docker_builds.buildx()
    (tmp_path / "docker" / "cli-plugins").mkdir(parents=True)
    (tmp_path / "docker" / "cli-plugins" / "docker-buildx").symlink_to(plugin)  # type: ignore[arg-type]
    settings = '{"proxies": {"default": {"httpProxy": "http://user:s3cret@proxy"}}, "currentContext": "elsewhere"}'
    (tmp_path / "docker" / "config.json").write_text(settings)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    monkeypatch.setenv("OPENAI_API_KEY", "s3cret")
    monkeypatch.setenv("HTTPS_PROXY", "http://user:s3cret@proxy")
    dockerfile(task, "RUN --mount=type=secret,id=OPENAI_API_KEY env; cat /run/secrets/* ; exit 5")
    with pytest.raises(ImageError) as caught:
        image_for(client, task)
    assert "exit code: 5" in str(caught.value)
    assert "PATH=" in caught.value.log
    assert "s3cret" not in caught.value.log


@pytest.mark.buildkit
def test_a_cache_is_no_other_tasks(task: Task, client: docker.APIClient) -> None:
    dockerfile(task, "RUN --mount=type=cache,target=/c echo planted > /c/x")
    image_for(client, task)
    dockerfile(task, "RUN --mount=type=cache,target=/c test ! -e /c/x")
    image_for(client, task)


@pytest.mark.buildkit
@pytest.mark.shared_data
@pytest.mark.parametrize("name", ["fix-security-bug", "organize-messy-files"])
def test_released_dockerfiles_are_read(task: Task, client: docker.APIClient, name: str) -> None:
    """Their downloads are nobody's to count on here; their first step must begin."""
    source = SHARED_DATA.parent / "contact" / "skilllearnbench" / "dockerfiles" / f"{name}.Dockerfile"
    if not source.is_file():
        pytest.skip(f"{source.name} does not lie beside the project")
    text = re.sub(r"(?m)^FROM .*", f"FROM {base_image()}", source.read_text())
    text = text.replace("RUN ", "RUN echo begun; exit 6; ", 1)
    for copied in " ".join(re.findall(r"(?m)^COPY (.*) \S+$", text)).split():
        (task.folder / "environment" / copied).touch()
    (task.folder / "environment" / "Dockerfile").write_text(text)
    with pytest.raises(ImageError, match="exit code: 6") as caught:
        image_for(client, task)
    assert "begun" in caught.value.log


def test_groups_are_read_of_both_versions() -> None:
    one = "4:memory:/docker/abc\n1:cpu:/docker/abc\n0::/docker/abc\n"
    assert docker_builds.memory_group(one, "abc") == "/docker/abc"
    two = "0::/system.slice/docker-abc.scope\n"
    assert docker_builds.memory_group(two, "abc") == "/system.slice/docker-abc.scope"
    for foreign in ("0::/\n", "0::/docker/other\n", "4:memory:/../abc\n", ""):
        assert docker_builds.memory_group(foreign, "abc") is None


# --- images that are named -----------------------------------------------------------------------------------------


def test_an_image_that_cannot_be_had_is_built_and_told_apart(
    task: Task, client: docker.APIClient, caplog: pytest.LogCaptureFixture
) -> None:
    dockerfile(task, "WORKDIR /t")
    named = replace(task, machine=replace(task.machine, image="localhost:1/skillglass-none:1"))
    plain, built = image_for(client, task), image_for(client, named)
    assert built.stands_for == "localhost:1/skillglass-none:1"
    assert (built.folder, built.name != plain.name) == ("/t", True)
    assert client.inspect_image(built.id)["Config"]["Labels"][STANDS_FOR_LABEL] == "localhost:1/skillglass-none:1"
    assert "skillglass-none:1 is not on the engine" in caplog.text
    assert "replaces localhost:1/skillglass-none:1" in caplog.text
    sandbox = open_sandbox(named, name="stand-in")
    sandbox.close()
    assert (sandbox.handle["image"], sandbox.handle["stands_for"]) == (built.id, "localhost:1/skillglass-none:1")


def test_an_image_on_the_engine_is_taken_before_the_dockerfile(task: Task, client: docker.APIClient) -> None:
    dockerfile(task, "RUN exit 7")
    found = image_for(client, replace(task, machine=replace(task.machine, image=base_image())))
    assert (found.name, found.stands_for) == (base_image(), "")


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


@pytest.mark.parametrize("name", ["Capital/Letters:1", "base:::1"])
def test_a_name_that_no_image_can_have_is_the_tasks_fault(task: Task, client: docker.APIClient, name: str) -> None:
    place = task.folder / "environment" / "Dockerfile"
    place.write_text(f"FROM {name}\n")
    with pytest.raises(ImageError, match="invalid reference format"):
        image_for(client, task)
    with pytest.raises(ImageError, match="invalid reference format"):
        image_for(client, replace(task, machine=Machine(image=name)))


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


# --- a registry that machines share -----------------------------------------------------------------------------------


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The real program, on a free port of this machine."""
    program = shutil.which("docker-registry")
    require(program is not None, "no program docker-registry")
    address = f"127.0.0.1:{free_port()}"
    (tmp_path / "registry.yml").write_text(
        "version: 0.1\nlog: {accesslog: {disabled: true}, level: error}\nstorage: "
        f"{{filesystem: {{rootdirectory: {tmp_path}/registry}}, delete: {{enabled: true}}}}\nhttp: {{addr: "
        f"{address}}}\n"
    )
    served = subprocess.Popen([str(program), "serve", str(tmp_path / "registry.yml")], stderr=subprocess.DEVNULL)
    try:
        wait_for_answer(f"http://{address}/v2/")
        monkeypatch.setenv("SKILLGLASS_IMAGE_REGISTRY", f"{address}/team")
        yield address
    finally:
        served.kill()
        served.wait()


def forget(client: docker.APIClient, name: str, registry: str) -> None:
    """What another machine has of it: nothing."""
    for each in client.inspect_image(name)["RepoTags"]:
        assert each == name or each.startswith(f"{registry}/team/skillglass-task:")
        client.remove_image(each, force=True)
    assert client.images(name) == []


def test_an_image_is_built_on_one_machine_and_fetched_on_the_others(
    task: Task, client: docker.APIClient, registry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_context(task, f"FROM {base_image()}\nRUN date +%N > /when\n")
    built = image_for(client, task)
    forget(client, built.name, registry)
    monkeypatch.setattr(docker_images, "build", never)
    assert image_for(client, task) == built


def test_an_image_of_the_registry_that_says_it_is_another_is_not_used(
    task: Task, client: docker.APIClient, registry: str, caplog: pytest.LogCaptureFixture
) -> None:
    write_context(task, f"FROM {base_image()}\nRUN date +%N > /when\n")
    built = image_for(client, task)
    shared = next(tag for tag in client.inspect_image(built.id)["RepoTags"] if tag.startswith(registry))
    forget(client, built.name, registry)
    client.tag(base_image(), *shared.rsplit(":", 1))
    assert "error" not in str(list(client.push(shared, stream=True, decode=True)))
    again = image_for(client, task)
    assert again.name == built.name
    assert again.id not in (built.id, client.inspect_image(base_image())["Id"])
    assert "is not used, it is built here" in caplog.text


def test_a_registry_that_is_away_costs_a_warning(
    task: Task, client: docker.APIClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SKILLGLASS_IMAGE_REGISTRY", f"127.0.0.1:{free_port()}/team")
    write_context(task, f"FROM {base_image()}\nRUN date +%N > /when\n")
    assert image_for(client, task).name
    assert "cannot be put into the registry" in caplog.text


def never(*_: object, **__: object) -> None:
    raise AssertionError("it was built again")


def write_context(task: Task, dockerfile: str) -> None:
    assert task.machine.context is not None
    (task.machine.context / "Dockerfile").write_text(f"{dockerfile}LABEL skillglass.test=1\n")


def wait_for_answer(address: str) -> None:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        with suppress(OSError), urllib.request.urlopen(address, timeout=2):
            return
        time.sleep(0.1)
    raise AssertionError(f"{address} does not answer")
