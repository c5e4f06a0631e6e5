"""The image of a task: a ready one, one built from its Dockerfile, or the base image that its files are copied into."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from docker import APIClient
from docker.errors import APIError, ImageNotFound, NotFound

from runner.base.errors import ImageError, SandboxError, SetupError
from runner.base.types import MAIN_IMAGE, Machine, Service, Task
from runner.sandboxes.docker.docker_builds import build, build_error
from runner.sandboxes.docker.docker_contexts import DOCKERFILE, Context, read_context
from runner.sandboxes.docker.docker_engine import (
    FAILURES,
    LABEL,
    engine_errors,
    first_line,
    hold_lock,
    word_engine_error,
)

DEFAULT_BASE = "python:3.12-slim"
WORKSPACE_FOLDER = "/workspace"  # where the image names no working directory
REPOSITORY = "skillglass-task"
CONTEXT_LABEL = "skillglass.context"
STANDS_FOR_LABEL = "skillglass.stands-for"  # the image that a task names and that could not be had
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Image:
    """An image of the engine. `id` is its content digest; `user` is empty for root; `folder` is absolute; `stands_for`
    is the image that the task names, where this one was built because that one cannot be had."""

    id: str
    name: str
    folder: str
    user: str
    stands_for: str = ""


def base_name() -> str:
    return os.environ.get("SKILLGLASS_BASE_IMAGE", "").strip() or DEFAULT_BASE


def image_for(client: APIClient, task: Task) -> Image:
    """The task's image, built or fetched where the engine does not have it; with the working directory that the task
    names, if it names one.

    ImageError when a named image does not exist or a build can never succeed, SandboxError when it cannot be had or
    built now; both with the log.
    """
    image = _find_image(client, task.machine)
    return replace(image, folder=task.machine.workdir) if task.machine.workdir else image


def _find_image(client: APIClient, machine: Machine) -> Image:
    if machine.image is not None and machine.context is not None:
        return _choose_image(client, machine, machine.image, machine.context)
    if machine.image is not None:
        return _find_or_fetch(client, machine.image)
    if machine.context is not None:
        return _find_or_build(client, machine, machine.context)
    image = _find_or_fetch(client, base_name())
    return Image(image.id, image.name, WORKSPACE_FOLDER, image.user)


def image_of_service(client: APIClient, machine: Machine, service: Service, main: Image) -> str:
    """The id of the image of a container that runs next to the agent's, whose image is `main`. Errors as in `image_for`."""
    if service.image == MAIN_IMAGE:
        return main.id
    if service.context is None:
        return _find_or_fetch(client, service.image).id
    return _find_or_build(client, machine, service.context, dockerfile=service.dockerfile).id


def _choose_image(client: APIClient, machine: Machine, name: str, folder: Path) -> Image:
    """The image of that name; where it cannot be had, one built from the task's Dockerfile. Once built it is taken again,
    without asking the registry for every trial, unless the named one has come to the engine."""
    found = _inspect(client, name)
    if found is not None:
        return found
    context = read_context(folder, machine.blank_folders)
    built = _inspect(client, _name_and_digest(client, context, name)[0])
    if built is None:
        try:
            return _find_or_fetch(client, name)
        except (SetupError, SandboxError) as error:
            log.warning("%s; it is built from the task's Dockerfile instead", error)
            built = _find_or_build(client, machine, folder, stands_for=name)
    log.warning("image %s replaces %s, which is not available; built from the task's Dockerfile", built.name, name)
    return replace(built, stands_for=name)


@dataclass(frozen=True, slots=True)
class BuiltImage:
    """An image that was built for a task. `size` in bytes, layers that others share included."""

    id: str
    names: tuple[str, ...]
    size: int
    built_at: datetime


def list_built_images(client: APIClient) -> list[BuiltImage]:
    """All of the engine's that were built for tasks, the largest first. SandboxError where they cannot be listed."""
    with engine_errors("listing the images of tasks"):
        rows = client.images(filters={"label": CONTEXT_LABEL})
    images = (
        BuiltImage(row["Id"], tuple(row["RepoTags"] or ()), row["Size"], datetime.fromtimestamp(row["Created"], UTC))
        for row in rows
    )
    return sorted(images, key=lambda image: -image.size)


def list_image_names(client: APIClient, task: Task) -> list[str]:
    """Names under which an image that is built for this task is found."""
    machine = task.machine
    if machine.context is None:
        return []
    context = read_context(machine.context, machine.blank_folders)
    return [_name_and_digest(client, context, stands_for)[0] for stands_for in {"", machine.image or ""}]


def remove_image(client: APIClient, image: BuiltImage) -> str:
    """Why the image stays; "" where it is gone."""
    try:
        for name in image.names or (image.id,):
            client.remove_image(name)
    except NotFound:
        return ""
    except (APIError, *FAILURES) as error:
        return first_line(error)
    return ""


def has_image(client: APIClient, name: str) -> bool:
    """Does the engine have it, without fetching it?"""
    return _inspect(client, name) is not None


def provide_image(client: APIClient, name: str, same_as: Sequence[str], recipe: Path) -> str:
    """An image of that name on the engine, and how it came there: one that is there stays as it is, one of the names in
    `same_as` is tagged, else the folder `recipe` is built. Errors as in `image_for`."""
    if has_image(client, name):
        return "is on the engine already"
    known = next((other for other in same_as if has_image(client, other)), None)
    found = _find_or_fetch(client, known) if known else _find_or_build(client, Machine(), recipe)
    repository, _, tag = name.rpartition(":")
    with engine_errors(f"naming the image {name}"):
        client.tag(found.id, repository, tag)
    return f"tagged from {known}" if known else f"built from {recipe.name}"


def _find_or_fetch(client: APIClient, name: str) -> Image:
    found = _inspect(client, name)
    if found is None:
        _fetch(client, name)
        found = _inspect(client, name)
    if found is None:
        raise SandboxError(f"image {name} vanished right after it was fetched")
    return found


def _inspect(client: APIClient, name: str) -> Image | None:
    with engine_errors(f"looking for the image {name}"):
        try:
            found = client.inspect_image(name)
        except ImageNotFound:
            return None
        except APIError as error:
            if "invalid reference format" in str(error.explanation):  # whoever builds or fetches it says what is wrong
                return None
            raise
    settings = found["Config"] or {}
    folder = settings.get("WorkingDir") or WORKSPACE_FOLDER
    user = str(settings.get("User") or "")
    return Image(found["Id"], name, "/" + folder.strip("/"), "" if user.partition(":")[0] in ("0", "root") else user)


def _fetch(client: APIClient, name: str) -> None:
    try:
        for row in client.pull(name, stream=True, decode=True):
            if "error" in row:
                said = str(row["error"])
                raise build_error(
                    word_engine_error(f"image {name} is not on the engine and cannot be fetched", said), said
                )
    except NotFound as error:  # the registry was asked and does not have it, or does not give it to us
        said = str(error.explanation or error)
        if "access denied" in said or "not found" in said or "manifest unknown" in said:
            raise ImageError(f"image {name} is not on the engine and its registry does not have it: {said}") from error
        raise SandboxError(f"image {name} is not on the engine and cannot be fetched: {said}") from error
    except APIError as error:
        said = str(error.explanation or error)
        raise build_error(
            word_engine_error(f"image {name} is not on the engine and cannot be fetched", said), said
        ) from error
    except FAILURES as error:
        raise SandboxError(f"image {name} cannot be fetched: {first_line(error)}") from error


# --- building ---------------------------------------------------------------------------------------------------


def _find_or_build(
    client: APIClient, machine: Machine, folder: Path, stands_for: str = "", dockerfile: str = DOCKERFILE
) -> Image:
    """The image of this context and the images it stands on, built once. Of two that build at once one waits."""
    context = read_context(folder, machine.blank_folders if folder == machine.context else (), dockerfile)
    name, digest = _name_and_digest(client, context, stands_for)
    found = _inspect(client, name)
    if found is None:
        with hold_lock(name):  # elsewhere the engine's own cache keeps a second build short
            found = _inspect(client, name)
            if found is None:
                labels = {LABEL: "1", CONTEXT_LABEL: digest} | ({STANDS_FOR_LABEL: stands_for} if stands_for else {})
                build(client, context, machine, name, labels, _with_a_shell(client, context))
                found = _inspect(client, name)
    if found is None:
        raise SandboxError(f"{folder}: the engine says it built {name}, and does not have it")
    return found


def _name_and_digest(client: APIClient, context: Context, stands_for: str) -> tuple[str, str]:
    """An image that stands for another has a name and a label of its own: it is not what the task names."""
    bases = (*_base_ids(client, context), *((f"stands for {stands_for}",) if stands_for else ()))
    digest = context.digest(bases)
    return f"{REPOSITORY}:{digest[:32]}", digest


def _base_ids(client: APIClient, context: Context) -> tuple[str, ...]:
    """So that a base image made anew under its old name makes a new task image."""
    return tuple(found.id if (found := _inspect(client, base)) else base for base in context.bases if "$" not in base)


def _with_a_shell(client: APIClient, context: Context) -> tuple[str, ...]:
    """Images of the engine that may hold a build's limits, ours first: a task's base may bring a shell of its own making.

    BuildKit keeps what it fetches to itself, so a base that is not there is fetched where no image is.
    """
    bases = [base for base in context.bases if "$" not in base]
    found = [image.id for name in (base_name(), *bases) if (image := _inspect(client, name))]
    for base in bases if not found else ():
        with suppress(SandboxError, SetupError):  # the builder says what is wrong
            return (_find_or_fetch(client, base).id,)
    return tuple(found)
