"""Building with the engine's BuildKit, for what the classic builder lacks: heredocs, mounts, syntax lines.

The client is buildx, Docker's own plugin, run as a program: the engine's HTTP interface alone cannot start such a
build. BuildKit takes no limits for a build. So each build gets a container that only waits and has the limits, and
BuildKit's processes run below that container's control group.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from docker import APIClient
from docker.errors import APIError
from docker.types import HostConfig

from runner.sandboxes.docker.docker_contexts import DOCKERFILE, Context
from runner.sandboxes.docker.docker_engine import CARRIER_LABEL, LABEL, OWNER_LABEL, engine_errors, remove
from runner.sandboxes.docker.docker_exec import RunningCommand
from runner.sandboxes.processes import this_process

LEAST_API = (1, 42)  # Docker 23.0, the first engine whose own BuildKit reads heredocs
NO_CLIENT = "install buildx where the worker runs (Debian: docker-buildx, Docker's own packages: docker-buildx-plugin)"
COMPOSE = "docker-compose"
NO_COMPOSE = "install Docker's plugin compose where the worker runs (Debian: docker-compose, Docker's own packages: docker-compose-plugin)"
OLD_ENGINE = "update the engine to Docker 23.0 or newer"
_ROOTS = ("/usr/local/lib", "/usr/local/libexec", "/usr/lib", "/usr/libexec")
# The variables of ours that the client gets: where the engine is, and nothing else.
_PASSED = ("PATH", "HOME", "DOCKER_HOST", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "SSH_AUTH_SOCK", "XDG_RUNTIME_DIR")
_AS_PLUGIN = {"DOCKER_CLI_PLUGIN_ORIGINAL_CLI_COMMAND": "docker"}  # else it ignores DOCKER_TLS_VERIFY
_LOGINS = ("auths", "credHelpers", "credsStore")  # Docker settings that fetching an image may need
_SYNTAX = re.compile(r"\s*#\s*syntax\s*=\s*(\S+)\s*", re.IGNORECASE)
_DIRECTIVE = re.compile(r"\s*#\s*\w+\s*=.*")
_OFFICIAL = re.compile(r"(docker\.io/)?docker/dockerfile(-upstream)?([:@]\S+)?")
_NO_FRONTEND = re.compile(r"failed to resolve source metadata for \S*docker/dockerfile", re.IGNORECASE)
_LONG_COMMAND = re.compile(r'(process ".{300}).*(" did not complete)')  # a whole heredoc, say; the log has it
_WAIT = 'trap "exit 0" TERM; while :; do sleep 86400 & wait; done'
_GROUP_CHARACTERS, _GROUP_SECONDS = 20_000, 60.0
_OWN_GROUP = "while read -r line; do echo $line; done < /proc/1/cgroup"
_PROCESSES = 4_096  # of one build; a compiler's many jobs fit
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of linux/prctl.h
_libc = ctypes.CDLL(None)


def buildx() -> Path | None:
    return find_plugin("docker-buildx")


def find_plugin(name: str) -> Path | None:
    """Find a client where Docker's own command line looks for its plugins, or return None."""
    own = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker")
    places = [own / "cli-plugins" / name, *(Path(root, "docker", "cli-plugins", name) for root in _ROOTS)]
    found = next((place for place in places if os.access(place, os.X_OK)), None)
    on_path = shutil.which(name)
    return found or (Path(on_path) if on_path else None)


def plugin_environment(settings: Path) -> dict[str, str]:
    """The variables that a plugin gets. `settings`: a folder as `docker_settings` makes it."""
    given = {name: value for name in _PASSED if (value := os.environ.get(name))}
    return {**given, "DOCKER_CONFIG": str(settings), "DOCKER_CONTEXT": "default"}


def what_is_missing(client: APIClient) -> str | None:
    """Explain what to do so that images can be built with BuildKit, or return None."""
    if buildx() is None:
        return NO_CLIENT
    with engine_errors("asking the engine for its version"):
        version = str(client.version().get("ApiVersion") or "")
    return None if tuple(map(int, re.findall(r"\d+", version)[:2])) >= LEAST_API else OLD_ENGINE


class BuildKitBuild:
    """One build. `run` follows it; `end`, from another thread, ends it at once: the engine drops a build whose
    client is gone."""

    def __init__(
        self,
        client: APIClient,
        context: Context,
        name: str,
        labels: dict[str, str],
        limits: dict[str, int],
        shells: tuple[str, ...],
    ) -> None:
        """`limits` as for the classic builder. `shells`: images for the container that holds the limits."""
        self.client, self.context, self.name, self.labels = client, context, name, labels
        self.limits, self.shells = limits, shells
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = False

    def run(self, tell: Callable[[str], None]) -> str | None:
        """Pass on each line of the build. Return what went wrong, or None."""
        with _control_group(self.client, self.shells, self.limits) as group, docker_settings() as settings:
            if group is None:
                tell("[no image with a shell is available to hold the limits: this build's memory is not limited]\n")
            error = self._build(group, settings, None, tell)
            syntax = syntax_of(self.context.dockerfile)
            if error is None or syntax is None or not _NO_FRONTEND.search(error) or self._ended:
                return error
            if not _OFFICIAL.fullmatch(syntax):
                return error
            tell(f"[{syntax} cannot be fetched: built without its syntax line, by the engine's own BuildKit]\n")
            return self._build(group, settings, without_syntax(self.context.dockerfile), tell)

    def end(self) -> bool:
        self._ended = True
        if self._process is not None:
            self._process.kill()
        return True

    def _build(
        self, group: str | None, settings: Path, dockerfile: str | None, tell: Callable[[str], None]
    ) -> str | None:
        process = subprocess.Popen(
            self._command(group),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=plugin_environment(settings) | {"BUILDX_NO_DEFAULT_ATTESTATIONS": "1"} | _AS_PLUGIN,
            preexec_fn=_die_with_parent,
        )
        self._process = process
        if self._ended:
            process.kill()
        assert process.stdin is not None
        assert process.stdout is not None
        feeder = _Feeder(process.stdin, self.context.stream(dockerfile))
        feeder.start()
        try:
            last = _follow(process.stdout, tell)
        except BaseException:
            process.kill()
            raise
        finally:
            status = process.wait()
            process.stdout.close()
            feeder.join()
        if feeder.error is not None:
            return f"its context cannot be sent: {feeder.error}"
        return None if status == 0 else last

    def _command(self, group: str | None) -> list[str]:
        words = [str(buildx()), "buildx", "build", "--builder=default", "--progress=plain", f"--tag={self.name}"]
        words += [] if self.context.name == DOCKERFILE else [f"--file={self.context.name}"]
        words += [f"--label={key}={value}" for key, value in self.labels.items()]
        # A cache mount's content is the engine's: with a name of its own, no other task's build can have filled it.
        words.append(f"--build-arg=BUILDKIT_CACHE_MOUNT_NS={self.name}")
        return [*words, *([f"--cgroup-parent={group}"] if group else []), "-"]


def syntax_of(dockerfile: str) -> str | None:
    """The frontend named in the Dockerfile's first lines."""
    place = _syntax_line(dockerfile)
    match = None if place is None else _SYNTAX.fullmatch(dockerfile.splitlines()[place])
    return match[1] if match else None


def without_syntax(dockerfile: str) -> str:
    place, lines = _syntax_line(dockerfile), dockerfile.splitlines(keepends=True)
    return dockerfile if place is None else "".join(lines[:place] + lines[place + 1 :])


def _syntax_line(dockerfile: str) -> int | None:
    """Find the syntax line. Only directives may precede it."""
    for place, line in enumerate(dockerfile.splitlines()):
        if _SYNTAX.fullmatch(line):
            return place
        if not _DIRECTIVE.fullmatch(line):
            return None
    return None


class _Feeder(threading.Thread):
    """Writes the context while the build's messages are read."""

    def __init__(self, stream: IO[bytes], pieces: Iterator[bytes]) -> None:
        super().__init__(name="build-context", daemon=True)
        self.stream, self.pieces = stream, pieces
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            with self.stream:
                for piece in self.pieces:
                    self.stream.write(piece)
        except BrokenPipeError:  # the client ended, and says why
            return
        except Exception as error:
            self.error = error


def _follow(output: IO[bytes], tell: Callable[[str], None]) -> str:
    """Read the messages to the end, and return the text of the last ERROR."""
    error = "the build's client ended without a word"
    while piece := output.readline(65_536):
        line = piece.decode("utf-8", "replace")
        tell(line)
        if line.startswith("ERROR: "):
            error = _LONG_COMMAND.sub(r"\1...\2", line.removeprefix("ERROR: ").strip())
    return error


def _die_with_parent() -> None:
    """Run in the new process: the kernel ends it with the thread that waits for it, even if that one is killed."""
    if hasattr(_libc, "prctl"):
        _libc.prctl(_DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)


@contextmanager
def docker_settings() -> Iterator[Path]:
    """A folder with Docker settings for one call of a plugin: logins, but no proxies, contexts and builders."""
    source = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker", "config.json")
    given: object = None
    with suppress(OSError, ValueError):
        given = json.loads(source.read_text("utf-8"))
    logins = {name: given[name] for name in _LOGINS if name in given} if isinstance(given, dict) else {}
    with tempfile.TemporaryDirectory(prefix="skillglass-build-", ignore_cleanup_errors=True) as folder:
        Path(folder, "config.json").write_text(json.dumps(logins), "utf-8")
        yield Path(folder)


@contextmanager
def _control_group(client: APIClient, images: tuple[str, ...], limits: dict[str, int]) -> Iterator[str | None]:
    """The control group of a container that waits under these limits, in the first image that can run a shell.

    None if no image can.
    """
    labels = {LABEL: "1", CARRIER_LABEL: "1", OWNER_LABEL: str(this_process())}
    settings = client.create_host_config(
        network_mode="none",
        cap_drop=["ALL"],
        security_opt=["no-new-privileges"],
        log_config={"Type": "none"},
        cgroupns="host",
        mem_limit=limits["memory"],
        memswap_limit=limits["memswap"],
        cpu_shares=limits["cpushares"],
        pids_limit=_PROCESSES,
    )
    made: list[str] = []
    try:
        yield next(
            (group for image in images if (group := _start_waiting(client, image, settings, labels, made))), None
        )
    finally:
        for container in made:
            remove(client, "container", container)


def _start_waiting(
    client: APIClient, image: str, settings: HostConfig, labels: dict[str, str], made: list[str]
) -> str | None:
    """The control group of a waiting container of the image. None without a shell. Its id is added to `made`."""
    with engine_errors("making the container that holds a build's limits"):
        command = ["/bin/sh", "-c", _WAIT]
        container = client.create_container(
            image, command, user="0", entrypoint=[], host_config=settings, labels=labels
        )
        made.append(str(container["Id"]))
        try:
            client.start(made[-1])
            asked = RunningCommand(client, made[-1], _OWN_GROUP, folder="/", user="0", environment={})
            listing = asked.follow(_GROUP_CHARACTERS, time.monotonic() + _GROUP_SECONDS)
        except APIError:
            return None
    return memory_group(listing.text, made[-1])


def memory_group(listing: str, container: str) -> str | None:
    """The container's group in its /proc/PID/cgroup: the one that bounds memory, or the only one (version 2)."""
    rows = [line.split(":", 2) for line in listing.splitlines() if line.count(":") >= 2]
    paths = [path for _, controllers, path in rows if "memory" in controllers.split(",")]
    paths += [path for number, controllers, path in rows if number == "0" and not controllers]
    return next((path for path in paths if container in path and ".." not in path), None)
