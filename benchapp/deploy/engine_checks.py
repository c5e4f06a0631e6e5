"""What `manage.py doctor` reports about the Docker engine and of the agent programs in its volumes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from runner.base.errors import NotOnThisMachine
from runner.programs import find_installed, pin_of
from runner.sandboxes.docker.docker_builds import COMPOSE, NO_COMPOSE, buildx, find_plugin, what_is_missing
from runner.sandboxes.docker.docker_disk import engine_folder
from runner.sandboxes.docker.docker_engine import connect
from runner.sandboxes.docker.docker_images import list_built_images
from runner.sandboxes.docker.docker_programs import volume_name

# Limits that the engine's kernel can enforce: its name in the engine's answer, and ours.
LIMITS = {"MemoryLimit": "memory", "SwapLimit": "swap", "CpuCfsQuota": "processors", "PidsLimit": "processes"}


class NoLimits(Exception):
    """The engine ignores some limits of a task."""


class NoPlugin(Exception):
    """A Docker client plugin is missing, or the engine is too old for it."""


@contextmanager
def engine() -> Iterator[Any]:
    client = connect(timeout=5)
    try:
        yield client
    finally:
        client.close()


def version() -> str:
    """Return the engine's version, the machine that it runs on and how it is reached. Raises as `storage` does."""
    with engine() as client:
        way = f", by {os.environ['DOCKER_HOST']}" if os.environ.get("DOCKER_HOST") else ""
        return f"engine {client.version()['Version']} on {client.info().get('Name')}{way}"


def storage() -> str:
    """Return where and how the engine keeps its images. Raise SandboxError when no engine answers."""
    with engine() as client:
        info = client.info()
    under = dict(info.get("DriverStatus") or ()).get("Backing Filesystem", "an unknown file system")
    size = f"{info.get('NCPU')} processors, {info.get('MemTotal', 0) / 1024**3:.1f} GiB of memory"
    return f"{info.get('Driver')} on {under}, in {info.get('DockerRootDir')}; {size}"


def limits() -> str:
    """Return the limits that the engine enforces. NoLimits names those it does not."""
    with engine() as client:
        info, folder = client.info(), engine_folder(client)
    if missing := [name for key, name in LIMITS.items() if not info.get(key)]:
        raise NoLimits(f"the engine does not enforce: {', '.join(missing)}")
    return f"{', '.join(LIMITS.values())} enforced by the engine; {_describe_disk(folder, info.get('DockerRootDir'))}"


def task_images() -> str:
    """Return how many images were built for tasks, and their size."""
    with engine() as client:
        images = list_built_images(client)
    size = sum(image.size for image in images) / 1e9
    return (
        f"{len(images):,} built for tasks, {size:,.1f} GB with what they share; `manage.py prune_images` removes them"
    )


def buildkit() -> str:
    """Return how images of tasks are built. NoPlugin explains what to do about the classic builder."""
    with engine() as client:
        if missing := what_is_missing(client):
            raise NoPlugin(missing)
    return f"the engine's own, through {buildx()}"


def compose() -> str:
    """Return what starts the services of a task that has several. NoPlugin explains what to do if nothing does."""
    if (found := find_plugin(COMPOSE)) is None:
        raise NoPlugin(NO_COMPOSE)
    return str(found)


def _describe_disk(folder: Path | None, root: object) -> str:
    """Describe how well a worker like this process sees what containers write (docs/explanation/sandboxes.md)."""
    if folder is not None:
        return "disk watched from outside"
    return f"of disk only the size of a container's layer is seen: {root} cannot be read from here"


def volumes() -> set[str] | None:
    """Return names of the engine's volumes; None when no engine answers."""
    try:
        with engine() as client:
            return {row["Name"] for row in client.volumes()["Volumes"] or ()}
    except Exception:  # any error of the client; the engine has a line of its own
        return None


def program(name: str, there: set[str] | None) -> str:
    """Return version and place of a pinned program. Raise NotOnThisMachine when it is not installed."""
    pin = pin_of(name)
    try:
        found = find_installed(name)
    except NotOnThisMachine as error:
        raise NotOnThisMachine(f"pinned {pin.version} ({pin.digest[:12]}), not installed") from error
    if there is None:
        loaded = "no engine to load it into"
    elif volume_name(found) in there:
        loaded = "its volume is on the engine"
    else:
        loaded = "no volume on the engine yet: the first trial loads it"
    return f"{pin.version} ({pin.digest[:12]}), installed; {loaded}"
