"""The image of a task: a ready one, one built from its Dockerfile, or the base image that its files are copied into."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docker.errors import APIError, ImageNotFound, NotFound

from runner.errors import SandboxError, SetupError
from runner.sandboxes.docker_contexts import Context, read_context
from runner.sandboxes.docker_engine import FAILURES, LABEL, engine_errors, first_line, told
from runner.types import Machine, Task

DEFAULT_BASE = "python:3.12-slim"
WORKSPACE_FOLDER = "/workspace"  # where the image names no working directory
REPOSITORY = "skillglass-task"
CONTEXT_LABEL = "skillglass.context"
MAX_LOG_CHARS = 200_000
_DOWNLOAD_SECONDS = 1_800.0


@dataclass(frozen=True, slots=True)
class Image:
    """An image of the engine. `id` is its content digest; `user` is empty for root; `folder` is absolute."""

    id: str
    name: str
    folder: str
    user: str


def base_name() -> str:
    return os.environ.get("SKILLGLASS_BASE_IMAGE", "").strip() or DEFAULT_BASE


def image_for(client: Any, task: Task) -> Image:
    """The task's image, built or fetched where the engine does not have it.

    SetupError when a named image does not exist, SandboxError when it cannot be had or built (with the log).
    """
    machine = task.machine
    if machine.image is not None:
        return _ready(client, machine.image)
    if machine.context is not None:
        return _built(client, machine, machine.context)
    image = _ready(client, base_name())
    return Image(image.id, image.name, WORKSPACE_FOLDER, image.user)


def _ready(client: Any, name: str) -> Image:
    found = _inspect(client, name)
    if found is None:
        _fetch(client, name)
        found = _inspect(client, name)
    if found is None:
        raise SandboxError(f"image {name} vanished right after it was fetched")
    return found


def _inspect(client: Any, name: str) -> Image | None:
    with engine_errors(f"looking for the image {name}"):
        try:
            found = client.inspect_image(name)
        except ImageNotFound:
            return None
    settings = found["Config"] or {}
    folder = settings.get("WorkingDir") or WORKSPACE_FOLDER
    user = str(settings.get("User") or "")
    return Image(found["Id"], name, "/" + folder.strip("/"), "" if user.partition(":")[0] in ("0", "root") else user)


def _fetch(client: Any, name: str) -> None:
    try:
        for row in client.pull(name, stream=True, decode=True):
            if "error" in row:
                raise SandboxError(told(f"image {name} is not on the engine and cannot be fetched", row["error"]))
    except NotFound as error:  # the registry was asked and does not have it, or does not give it to us
        said = str(error.explanation or error)
        if "access denied" in said or "not found" in said or "manifest unknown" in said:
            raise SetupError(f"image {name} is not on the engine and its registry does not have it: {said}") from error
        raise SandboxError(f"image {name} is not on the engine and cannot be fetched: {said}") from error
    except APIError as error:
        said = str(error.explanation or error)
        raise SandboxError(told(f"image {name} is not on the engine and cannot be fetched", said)) from error
    except FAILURES as error:
        raise SandboxError(f"image {name} cannot be fetched: {first_line(error)}") from error


# --- building ---------------------------------------------------------------------------------------------------


def _built(client: Any, machine: Machine, folder: Path) -> Image:
    """The image of this context and the images it stands on, built once. Of two that build at once one waits."""
    context = read_context(folder, machine.blank_folders)
    digest = context.digest(_base_ids(client, context))
    name = f"{REPOSITORY}:{digest[:32]}"
    found = _inspect(client, name)
    if found is None:
        with _alone(name):
            found = _inspect(client, name)
            if found is None:
                _build(client, context, name, digest, machine.build_timeout_seconds)
                found = _inspect(client, name)
    if found is None:
        raise SandboxError(f"{folder}: the engine says it built {name}, and does not have it")
    return found


def _base_ids(client: Any, context: Context) -> tuple[str, ...]:
    """So that a base image made anew under its old name makes a new task image."""
    return tuple(found.id if (found := _inspect(client, base)) else base for base in context.bases if "$" not in base)


@contextmanager
def _alone(name: str) -> Iterator[None]:
    """Among the processes of this machine. Elsewhere the engine's own cache keeps a second build short."""
    place = Path(
        tempfile.gettempdir(), f"skillglass-build-{os.getuid()}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"
    )
    descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _build(client: Any, context: Context, name: str, digest: str, seconds: float) -> None:
    log, label, deadline = _Log(), {LABEL: "1", CONTEXT_LABEL: digest}, time.monotonic() + seconds
    try:
        rows = client.build(
            fileobj=context.stream(),
            custom_context=True,
            tag=name,
            labels=label,
            rm=True,
            forcerm=True,
            decode=True,
            timeout=seconds,  # of silence
        )
        error = _follow(rows, log, deadline)
    except TimeoutError:
        late = True
    except (*FAILURES, ValueError) as raised:
        error = str(getattr(raised, "explanation", None) or first_line(raised))
        late = "timed out" in str(raised).lower()
    else:
        late = False
    if late:
        raise SandboxError(f"{context.folder}: the image was not built within {seconds:g} s", log.text)
    if error is not None:
        raise SandboxError(_why(context, error), log.text)


def _follow(rows: Any, log: _Log, deadline: float) -> str | None:
    """The engine's messages to the end. What it says went wrong, or None. TimeoutError: leaving ends the build."""
    for row in rows:
        log.add(str(row.get("stream") or row.get("status") or row.get("error") or ""))
        if "error" in row:
            return str(row["error"])
        if time.monotonic() > deadline:
            raise TimeoutError
    return None


_NO_BASE = re.compile(
    r"pull access denied|manifest .*(unknown|not found)|lookup .*no such host|dial tcp|i/o timeout", re.I
)


def _why(context: Context, error: str) -> str:
    if _NO_BASE.search(error):
        bases = ", ".join(context.bases)
        return f"{context.folder}: an image that its Dockerfile builds on ({bases}) is not on the engine and cannot be fetched: {error}"
    return told(f"{context.folder}: its image cannot be built", error)


class _Log:
    """The last MAX_LOG_CHARS characters of what a build said."""

    def __init__(self) -> None:
        self.text = ""

    def add(self, piece: str) -> None:
        self.text = (self.text + piece)[-MAX_LOG_CHARS:]
