"""The image of a task: a ready one, one built from its Dockerfile, or the base image that its files are copied into."""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docker.errors import APIError, ImageNotFound, NotFound

from runner.errors import ImageError, SandboxError
from runner.sandboxes.docker_build_errors import build_error
from runner.sandboxes.docker_builds import build
from runner.sandboxes.docker_contexts import Context, read_context
from runner.sandboxes.docker_engine import FAILURES, LABEL, engine_errors, first_line, told
from runner.types import Machine, Task

DEFAULT_BASE = "python:3.12-slim"
WORKSPACE_FOLDER = "/workspace"  # where the image names no working directory
REPOSITORY = "skillglass-task"
CONTEXT_LABEL = "skillglass.context"


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

    ImageError when a named image does not exist or a build can never succeed, SandboxError when it cannot be had or
    built now; both with the log.
    """
    machine = task.machine
    if machine.image is not None:
        return _ready(client, machine.image)
    if machine.context is not None:
        return _built(client, machine, machine.context)
    image = _ready(client, base_name())
    return Image(image.id, image.name, WORKSPACE_FOLDER, image.user)


def has_image(client: Any, name: str) -> bool:
    """Does the engine have it, without fetching it?"""
    return _inspect(client, name) is not None


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
                said = str(row["error"])
                raise build_error(told(f"image {name} is not on the engine and cannot be fetched", said), said)
    except NotFound as error:  # the registry was asked and does not have it, or does not give it to us
        said = str(error.explanation or error)
        if "access denied" in said or "not found" in said or "manifest unknown" in said:
            raise ImageError(f"image {name} is not on the engine and its registry does not have it: {said}") from error
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
                build(client, context, machine, name, {LABEL: "1", CONTEXT_LABEL: digest})
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
