"""Building an image within bounds: memory, share of the processors, time, and the room left on the engine's disk.

A failed build is the task's fault if the same files would fail again, and the machine's if another try may succeed.
"""

from __future__ import annotations

import re
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

import requests
from docker import APIClient

from runner.base.errors import ImageError, SandboxError
from runner.base.types import Machine
from runner.sandboxes.docker.docker_buildkit import BuildKitBuild, what_is_missing
from runner.sandboxes.docker.docker_contexts import Context
from runner.sandboxes.docker.docker_disk import engine_folder
from runner.sandboxes.docker.docker_engine import FAILURES, first_line, word_engine_error
from runner.sandboxes.docker.docker_limits import LIMITS

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
            return _follow(rows, tell)
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


def _follow(rows: Iterable[Mapping[str, object]], tell: Callable[[str], None]) -> str | None:
    """Read the engine's messages to the end. Return the reported error, or None."""
    for row in rows:
        tell(str(row.get("stream") or row.get("status") or row.get("error") or ""))
        if "error" in row:
            return str(row["error"])
    return None


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
        return f"image {bases} is not on the engine and cannot be fetched ({cause}); {context.folder} builds on it: {error}"
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
    r"dial tcp|no such host|timed out|(?:i/o|read|connect|connection|gateway|request) ?timeout|tls handshake|connection (?:was )?(?:refused|reset|aborted)"
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
    r"|not found in build context|excluded by \.dockerignore|cannot copy from stage|invalid from flag|circular dependency"
    r"|requires (?:exactly|at least)|unknown flag|only supported (?:with|if)|the --\w+ (?:option|flag) requires"
    r"|is not allowed|invalid reference format|pull access denied|repository does not exist|manifest (?:for .* )?(?:unknown|not found)"
    r"|failed to resolve source metadata.*: not found|no match(?:ing)? (?:for platform|manifest)"
    r"|unterminated heredoc|file with no instructions|greater than max allowed size|invalid escape token"
    r'|failed to process "|unsupported modifier|must have two arguments|must be of the form|should not be blank'
    r"|cannot parse platform|invalid stage index|unsupported mount type|unexpected key '|invalid mount target"
    r"|invalid containerport|invalid signal|invalid checksum|source can't be a url|secret \S+: not found|unset ssh forward key"
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


def build_error(message: str, said: str, log: str = "") -> ImageError | SandboxError:
    """Make the error to raise, with `message` and `log`. `said` is the builder's own last word.

    A failed command of the Dockerfile is the task's fault, unless it was killed or its end mentions the network or the
    disk. An unknown failure is the machine's: it is tried again.
    """
    if ended := _STEP_ENDED.search(said):
        passing = int(ended[1]) == _KILLED or _PASSING.search(_REPEATED.sub("", log[-MAX_TAIL_CHARS:]))
        return (SandboxError if passing else ImageError)(message, log)
    said = _COMMAND.sub("", said)
    described = _DESCRIBED.search(said) and not _PASSING.search(said)
    return (ImageError if described else SandboxError)(message, log)
