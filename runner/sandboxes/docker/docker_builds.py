"""Building an image within bounds: memory, share of the processors, time, and the room left on the engine's disk.

The engine's BuildKit builds it, for what the classic builder lacks: heredocs, mounts, syntax lines. The client is
buildx, Docker's own plugin, run as a program: the engine's HTTP interface alone cannot start such a build. BuildKit
takes no limits for a build. So each build gets a container that only waits and has the limits, and BuildKit's
processes run below that container's control group.

A failed build is the task's fault if the same files would fail again, and the machine's if another try may succeed."""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import requests
from docker import APIClient
from docker.errors import APIError
from docker.types import HostConfig

from runner.base.errors import ImageError, SandboxError
from runner.base.types import Machine
from runner.sandboxes.docker.docker_contexts import DOCKERFILE, OFFICIAL, Context, read_directives
from runner.sandboxes.docker.docker_engine import (
    CARRIER_LABEL,
    FAILURES,
    LABEL,
    OWNER_LABEL,
    engine_errors,
    first_line,
    remove,
    word_engine_error,
)
from runner.sandboxes.docker.docker_exec import RunningCommand
from runner.sandboxes.docker.docker_limits import LIMITS, engine_folder
from runner.sandboxes.processes import this_process

LEAST_API = (1, 42)  # Docker 23.0, the first engine whose own BuildKit reads heredocs
NO_CLIENT = "install buildx where the worker runs (Debian: docker-buildx, Docker's own packages: docker-buildx-plugin)"
COMPOSE = "docker-compose"
NO_COMPOSE = "install Docker's plugin compose where the worker runs (Debian: docker-compose, Docker's own packages: docker-compose-plugin)"  # noqa: E501
OLD_ENGINE = "update the engine to Docker 23.0 or newer"
_ROOTS = ("/usr/local/lib", "/usr/local/libexec", "/usr/lib", "/usr/libexec")
# The variables of ours that the client gets: where the engine is, and nothing else.
_PASSED = ("PATH", "HOME", "DOCKER_HOST", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "SSH_AUTH_SOCK", "XDG_RUNTIME_DIR")
_AS_PLUGIN = {"DOCKER_CLI_PLUGIN_ORIGINAL_CLI_COMMAND": "docker"}  # else it ignores DOCKER_TLS_VERIFY
_LOGINS = ("auths", "credHelpers", "credsStore")  # Docker settings that fetching an image may need
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
            if not OFFICIAL.fullmatch(syntax):
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
        words = [str(buildx()), "buildx", "build", "--builder=default", "--progress=plain", f"--tag={self.name}"]
        words += [] if self.context.name == DOCKERFILE else [f"--file={self.context.name}"]
        words += [f"--label={key}={value}" for key, value in self.labels.items()]
        # A cache mount's content is the engine's: with a name of its own, no other task's build can have filled it.
        words.append(f"--build-arg=BUILDKIT_CACHE_MOUNT_NS={self.name}")
        process = subprocess.Popen(
            [*words, *([f"--cgroup-parent={group}"] if group else []), "-"],
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
            last = _follow_lines(process.stdout, tell)
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


def syntax_of(dockerfile: str) -> str | None:
    """The frontend named in the Dockerfile's first lines."""
    return read_directives(dockerfile).get("syntax", (None, 0))[0]


def without_syntax(dockerfile: str) -> str:
    named, lines = read_directives(dockerfile).get("syntax"), dockerfile.splitlines(keepends=True)
    return "".join(lines[: named[1]] + lines[named[1] + 1 :]) if named else dockerfile


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


def _follow_lines(output: IO[bytes], tell: Callable[[str], None]) -> str:
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


MAX_LOG_CHARS = 200_000
LEAST_MEMORY_MB = 4_096  # compilers and package managers need more than their output does
_SHARES = 512  # half of an attempt's: attempts are timed, builds are not
_PAUSE = 0.5  # seconds between two looks at clock and disk


def build(
    client: APIClient,
    context: Context,
    machine: Machine,
    name: str,
    labels: dict[str, str],
    shells: tuple[str, ...] = (),
) -> None:
    """Build the image under its name with the engine's BuildKit or, if that is missing, the classic builder.

    `shells` are images of the engine that may hold the limits of a build. SandboxError, with the log, if it cannot be
    built within its bounds; ImageError if it never can.
    """
    log, memory = _BuildLog(), max(machine.memory_mb, LEAST_MEMORY_MB)
    missing = what_is_missing(client)
    if missing is not None and context.has_heredocs:
        raise ImageError(f"{context.folder}: its Dockerfile has heredocs, which only BuildKit builds: {missing}")
    limits = {"memory": memory << 20, "memswap": memory << 20, "cpushares": _SHARES}
    building: BuildKitBuild | ClassicBuild
    if missing is None:
        building = BuildKitBuild(client, context, name, labels, limits, shells)
    else:
        building = ClassicBuild(client, context, name, labels, limits, machine.build_timeout_seconds)
        log.add(f"[built by the classic builder; for BuildKit, {missing}]\n")
    watch = BuildWatch(client, machine.build_timeout_seconds, building.end)
    if full := watch.full():
        raise SandboxError(f"{context.folder}: its image is not built: {full}")
    try:
        with watch:
            error = building.run(log.add)
    except (*FAILURES, ValueError) as raised:
        error = str(getattr(raised, "explanation", None) or first_line(raised))
        if "timed out" in str(raised).lower():
            watch.breach = watch.breach or watch.late
    if watch.breach:
        raise SandboxError(f"{context.folder}: the image {watch.breach}", log.text)
    if error is not None:
        raise build_error(_why(context, error, memory, missing), error, log.text)


class ClassicBuild:
    """One build through the engine's HTTP interface. See BuildKitBuild."""

    def __init__(
        self,
        client: APIClient,
        context: Context,
        name: str,
        labels: dict[str, str],
        limits: dict[str, int],
        seconds: float,
    ) -> None:
        self.client, self.context = client, context
        self._settings = {"tag": name, "labels": labels, "container_limits": limits, "timeout": seconds}
        self._settings["dockerfile"] = context.name
        self._responses: list[requests.Response] = []

    def run(self, tell: Callable[[str], None]) -> str | None:
        hooks = self.client.hooks["response"]
        hooks.append(self._keep)
        try:
            rows = self.client.build(
                fileobj=self.context.stream(), custom_context=True, rm=True, forcerm=True, decode=True, **self._settings
            )
            for row in rows:
                tell(str(row.get("stream") or row.get("status") or row.get("error") or ""))
                if "error" in row:
                    return str(row["error"])
            return None
        finally:
            hooks.remove(self._keep)

    def _keep(self, response: requests.Response, **_: object) -> None:
        self._responses.append(response)

    def end(self) -> bool:
        """False while the context is still being sent: there is no response yet to close."""
        if not self._responses:
            return False
        with suppress(OSError, AttributeError):  # it ended by itself
            stream = self.client._get_raw_response_socket(self._responses[-1])
            getattr(stream, "_sock", stream).shutdown(socket.SHUT_RDWR)
        return True


class BuildWatch:
    """While it is entered, a thread ends the build at its time limit or when the engine's disk runs full, even if
    the build is silent: the engine drops a build whose client is gone. `breach` is then the reason."""

    def __init__(self, client: APIClient, seconds: float, end: Callable[[], bool]) -> None:
        self.seconds, self.end = seconds, end
        self.late = f"was not built within {seconds:g} s"
        self.breach: str | None = None
        self._root = engine_folder(client)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="build-watch", daemon=True)

    def __enter__(self) -> None:
        self._until = time.monotonic() + self.seconds
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def full(self) -> str | None:
        """Is the disk almost full? None also if the engine's disk cannot be seen from here."""
        if self._root is None or shutil.disk_usage(self._root).free >= LIMITS.free_bytes:
            return None
        return f"less than {LIMITS.free_bytes // 2**20:,} MiB are left on the engine's disk"

    def _watch(self) -> None:
        while not self._stop.wait(_PAUSE):
            if self.breach is None and time.monotonic() > self._until:
                self.breach = self.late
            if self.breach is None and (full := self.full()):
                self.breach = f"was not built to its end: {full}"
            if self.breach is not None and self.end():
                return


_NO_BASE = re.compile(
    r"pull access denied|manifest .*(unknown|not found)|lookup .*no such host|dial tcp|i/o timeout"
    r"|failed to resolve source metadata",
    re.I,
)
# Errors of the classic builder about a Dockerfile that BuildKit may understand.
_NOT_CLASSIC = re.compile(r"unknown instruction|unknown flag|requires BuildKit", re.I)


def _why(context: Context, error: str, memory: int, missing: str | None) -> str:
    if _NO_BASE.search(error):
        bases, cause = ", ".join(context.bases), error.strip().rpartition(": ")[2][:80]
        return f"image {bases} is not on the engine and cannot be fetched ({cause}); {context.folder} builds on it: {error}"  # noqa: E501
    if error.rstrip().endswith(": 137"):  # killed
        error += f" (a build has {memory:,} MiB of memory; it may need more, which memory_mb of task.toml gives)"
    if missing is not None and _NOT_CLASSIC.search(error):
        error += f" (the classic builder does not read this; for BuildKit, {missing})"
    return word_engine_error(f"{context.folder}: its image cannot be built", error)


class _BuildLog:
    """The last MAX_LOG_CHARS characters of a build's output."""

    def __init__(self) -> None:
        self.text = ""

    def add(self, piece: str) -> None:
        self.text = (self.text + piece)[-MAX_LOG_CHARS:]


MAX_TAIL_CHARS = 8_000  # of the log, where a failed command gives its reason

# Messages of a network, a registry or a disk that another try may not meet.
_PASSING = re.compile(
    r"dial tcp|no such host|timed out|(?:i/o|read|connect|connection|gateway|request) ?timeout|tls handshake|connection (?:was )?(?:refused|reset|aborted)"  # noqa: E501
    r"|temporary failure|could not resolve|name resolution|unreachable|unexpected eof|early eof|broken pipe"
    r"|no space left|disk quota|too many requests|toomanyrequests|service unavailable|bad gateway|internal server error"
    r"|hash sum mismatch|failed to fetch|unable to connect|connection error|network error|failed to establish"
    r"|etimedout|econnreset|econnrefused|enotfound|eai_again|\b(?:error|http|status)[ :]+(?:429|50[0-4])\b",
    re.IGNORECASE,
)
# Messages of a builder about a Dockerfile, its context or the images it names.
_DESCRIBED = re.compile(
    r"dockerfile parse error|unknown instruction|no build stage in current context|cannot be empty"
    r"|(?:copy|add) failed|no source files were specified|failed to compute cache key|failed to calculate checksum"
    r"|not found in build context|excluded by \.dockerignore|cannot copy from stage|invalid from flag|circular dependency"  # noqa: E501
    r"|requires (?:exactly|at least)|unknown flag|only supported (?:with|if)|the --\w+ (?:option|flag) requires"
    r"|is not allowed|invalid reference format|pull access denied|repository does not exist|manifest (?:for .* )?(?:unknown|not found)"  # noqa: E501
    r"|failed to resolve source metadata.*: not found|no match(?:ing)? (?:for platform|manifest)"
    r"|unterminated heredoc|file with no instructions|greater than max allowed size|invalid escape token"
    r'|failed to process "|unsupported modifier|must have two arguments|must be of the form|should not be blank'
    r"|cannot parse platform|invalid stage index|unsupported mount type|unexpected key '|invalid mount target"
    r"|invalid containerport|invalid signal|invalid checksum|source can't be a url|secret \S+: not found|unset ssh forward key"  # noqa: E501
    r"|buildkit-mount\d+/.*: no such file|: not a directory|cannot copy to non-directory"
    r"|unable to find (?:user|group)|no matching entries in (?:passwd|group) file",
    re.IGNORECASE | re.DOTALL,
)
_STEP_ENDED = re.compile(r"(?:returned a non-zero code|did not complete successfully: exit code): (\d+)", re.IGNORECASE)
_COMMAND = re.compile(r'process ".*" did not complete successfully', re.DOTALL)  # it may quote a network's messages
_KILLED = 137
# A builder repeats the Dockerfile in these lines: a command may name a timeout and fail for another reason.
_REPEATED = re.compile(
    r"^(?:#\d+ (?:\[|ERROR)| *\d+ \| | > \[|Step \d+/\d+ :|The command '|ERROR: failed to solve).*", re.MULTILINE
)


def build_error(message: str, output: str, log: str = "") -> ImageError | SandboxError:
    """Make the error to raise, with `message` and `log`. `output` is the builder's own last word.

    A failed command of the Dockerfile is the task's fault, unless it was killed or its end mentions the network or the
    disk. An unknown failure is the machine's: it is tried again.
    """
    if ended := _STEP_ENDED.search(output):
        passing = int(ended[1]) == _KILLED or _PASSING.search(_REPEATED.sub("", log[-MAX_TAIL_CHARS:]))
        return (SandboxError if passing else ImageError)(message, log)
    output = _COMMAND.sub("", output)
    described = _DESCRIBED.search(output) and not _PASSING.search(output)
    return (ImageError if described else SandboxError)(message, log)
