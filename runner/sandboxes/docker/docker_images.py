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
from runner.sandboxes.images import WORKSPACE_FOLDER, base_name

REPOSITORY = "skillglass-task"
CONTEXT_LABEL = "skillglass.context"
STANDS_FOR_LABEL = "skillglass.stands-for"  # the unavailable image that a task names
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Image:
    """An image of the engine. `id` is its content digest; `user` is empty for root; `folder` is absolute.
    `stands_for`: the unavailable image that the task names, if this one was built instead."""

    id: str
    name: str
    folder: str
    user: str
    stands_for: str = ""


def image_for(client: APIClient, task: Task) -> Image:
    """Return the task's image, built or fetched if the engine lacks it, with the task's working directory if it names
    one.

    ImageError if a named image does not exist or a build can never succeed. SandboxError if it is unavailable or cannot
    be built now. Both have the log.
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
    """Return the id of a service container's image. `main`: the agent container's image. Errors as in `image_for`."""
    if service.image == MAIN_IMAGE:
        return main.id
    if service.context is None:
        return _find_or_fetch(client, service.image).id
    return _find_or_build(client, machine, service.context, dockerfile=service.dockerfile).id


def _choose_image(client: APIClient, machine: Machine, name: str, folder: Path) -> Image:
    """Return the image of that name or, if it is unavailable, one built from the task's Dockerfile. A built one is
    used again without asking the registry for every trial, unless the engine has the named one by then."""
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
    """An image that was built for a task. `size` in bytes, including layers that others share."""

    id: str
    names: tuple[str, ...]
    size: int
    built_at: datetime


def list_built_images(client: APIClient) -> list[BuiltImage]:
    """List all images of the engine that were built for tasks, the largest first. SandboxError if that fails."""
    with engine_errors("listing the images of tasks"):
        rows = client.images(filters={"label": CONTEXT_LABEL})
    images = (
        BuiltImage(row["Id"], tuple(row["RepoTags"] or ()), row["Size"], datetime.fromtimestamp(row["Created"], UTC))
        for row in rows
    )
    return sorted(images, key=lambda image: -image.size)


def list_image_names(client: APIClient, task: Task) -> list[str]:
    """Possible names of an image that is built for this task."""
    machine = task.machine
    if machine.context is None:
        return []
    context = read_context(machine.context, machine.blank_folders)
    return [_name_and_digest(client, context, stands_for)[0] for stands_for in {"", machine.image or ""}]


def remove_image(client: APIClient, image: BuiltImage) -> str:
    """Return why the image stays, or "" after its removal."""
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
    """Provide an image of that name on the engine, and return its origin. An existing one is kept. Otherwise an
    image named in `same_as` is tagged, or the folder `recipe` is built. Errors as in `image_for`."""
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
            if "invalid reference format" in str(error.explanation):  # building or fetching it reports the problem
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
                text = str(row["error"])
                raise build_error(
                    word_engine_error(f"image {name} is not on the engine and cannot be fetched", text), text
                )
    except NotFound as error:  # the registry was asked and does not have it, or refuses it
        text = str(error.explanation or error)
        if "access denied" in text or "not found" in text or "manifest unknown" in text:
            raise ImageError(f"image {name} is not on the engine and its registry does not have it: {text}") from error
        raise SandboxError(f"image {name} is not on the engine and cannot be fetched: {text}") from error
    except APIError as error:
        text = str(error.explanation or error)
        raise build_error(
            word_engine_error(f"image {name} is not on the engine and cannot be fetched", text), text
        ) from error
    except FAILURES as error:
        raise SandboxError(f"image {name} cannot be fetched: {first_line(error)}") from error


# --- building ---------------------------------------------------------------------------------------------------


def _find_or_build(
    client: APIClient, machine: Machine, folder: Path, stands_for: str = "", dockerfile: str = DOCKERFILE
) -> Image:
    """Build the image of this context and its base images once. Of two that build at once one waits.

    With SKILLGLASS_IMAGE_REGISTRY it is fetched from there if another machine has built it, else put there.
    """
    context = read_context(folder, machine.blank_folders if folder == machine.context else (), dockerfile)
    name, digest = _name_and_digest(client, context, stands_for)
    found = _inspect(client, name)
    if found is None:
        with hold_lock(name):
            found = _inspect(client, name) or _fetch_built(client, name, digest)
            if found is None:
                labels = {LABEL: "1", CONTEXT_LABEL: digest} | ({STANDS_FOR_LABEL: stands_for} if stands_for else {})
                build(client, context, machine, name, labels, _with_a_shell(client, context))
                found = _inspect(client, name)
                _share_built(client, name)
    if found is None:
        raise SandboxError(f"{folder}: the engine says it built {name}, and does not have it")
    return found


def _shared_name(client: APIClient, name: str) -> tuple[str, str]:
    """(repository, tag) of a built image in the registry, the same on all machines of one architecture.
    ("", "") without one."""
    registry = os.environ.get("SKILLGLASS_IMAGE_REGISTRY", "").strip().rstrip("/")
    if not registry:
        return "", ""
    repository, _, tag = name.partition(":")
    return f"{registry}/{repository}", f"{tag}-{client.version()['Arch']}"


def _fetch_built(client: APIClient, name: str, digest: str) -> Image | None:
    """Fetch an image that another machine has built of the same context. None: build it here."""
    shared, tag = _shared_name(client, name)
    if not shared:
        return None
    try:
        _fetch(client, f"{shared}:{tag}")
        found = client.inspect_image(f"{shared}:{tag}")
        if (labelled := (found["Config"].get("Labels") or {}).get(CONTEXT_LABEL)) != digest:
            raise SandboxError(f"its label {CONTEXT_LABEL} is {labelled!r} (expected {digest})")
        client.tag(found["Id"], *name.split(":"))
    except ImageError:
        return None
    except (SandboxError, SetupError, APIError, *FAILURES) as error:
        log.warning("image %s:%s of the registry is not used, it is built here: %s", shared, tag, first_line(error))
        return None
    return _inspect(client, name)


def _share_built(client: APIClient, name: str) -> None:
    """Put an image into the registry. What fails is logged: this machine has it."""
    shared, tag = _shared_name(client, name)
    if not shared:
        return
    try:
        client.tag(name, shared, tag)
        failed = [row["error"] for row in client.push(shared, tag, stream=True, decode=True) if "error" in row]
    except (APIError, *FAILURES) as error:
        failed = [first_line(error)]
    for reason in failed:
        log.warning("image %s:%s cannot be put into the registry: %s", shared, tag, reason)


def _name_and_digest(client: APIClient, context: Context, stands_for: str) -> tuple[str, str]:
    """An image that replaces another has a name and a label of its own: it is not what the task names."""
    bases = (*_base_ids(client, context), *((f"stands for {stands_for}",) if stands_for else ()))
    digest = context.digest(bases)
    return f"{REPOSITORY}:{digest[:32]}", digest


def _base_ids(client: APIClient, context: Context) -> tuple[str, ...]:
    """Ids of the base images, so that rebuilding one under its old name leads to a new task image."""
    return tuple(found.id if (found := _inspect(client, base)) else base for base in context.bases if "$" not in base)


def _with_a_shell(client: APIClient, context: Context) -> tuple[str, ...]:
    """Images of the engine that may hold a build's limits, ours first: a task's base may bring a manipulated shell.

    BuildKit keeps what it fetches to itself. So if there is no image, a missing base is fetched.
    """
    bases = [base for base in context.bases if "$" not in base]
    found = [image.id for name in (base_name(), *bases) if (image := _inspect(client, name))]
    for base in bases if not found else ():
        with suppress(SandboxError, SetupError):  # the builder reports what is wrong
            return (_find_or_fetch(client, base).id,)
    return tuple(found)
