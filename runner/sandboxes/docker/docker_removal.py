"""Removing what sandboxes had on the engine, and sweeping up what dead processes left.

No worker waits long for it: a container may hold a million files. The engine continues to remove a container when
nobody waits. What it fails to remove keeps its labels, so the next sweep finds it.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from docker import APIClient

from runner.base.errors import SandboxError
from runner.sandboxes.docker import docker_engine
from runner.sandboxes.docker.docker_networks import leave
from runner.sandboxes.processes import ProcessName

PATIENCE = 10.0  # seconds that any caller waits
_PAUSES = (0.2, 0.5, 1.0)  # between tries
_LONGEST_REMOVAL = 3_600.0  # seconds of silence of the engine, for the thread alone


def remove_marked(mark: str) -> list[str]:
    """Remove the container, volumes and networks with the label `mark`, and return their names or ids.

    SandboxError if something stays. Objects already gone, or still being removed after PATIENCE, do not count.
    """
    wanted = [f"{docker_engine.MARK_LABEL}={mark}"]
    with contextlib.closing(docker_engine.connect()) as client:
        found = [
            (kind, name)
            for kind in docker_engine.KINDS
            for name, _ in docker_engine.list_labelled(client, kind, wanted)
        ]
    removal = Removal(found)
    if removal.problems:
        raise SandboxError("; ".join(removal.problems))
    return [name for _, name in found]


class Removal:
    """Removes things, each as (kind, name or id), in this order. Creating it starts a thread and waits for PATIENCE at
    most. `problems`: one line for each thing that stays; the others are tried all the same."""

    def __init__(self, things: Sequence[tuple[str, str]]) -> None:
        self.things, self.problems = things, list[str]()
        self._thread = threading.Thread(target=self._remove_all, name="docker-removal", daemon=True)
        self._thread.start()
        self._thread.join(PATIENCE)

    @property
    def goes_on(self) -> bool:
        return self._thread.is_alive()

    def _remove_all(self) -> None:
        try:
            client = docker_engine.connect(_LONGEST_REMOVAL)
        except SandboxError as error:
            self.problems.append(str(error))
            return
        with contextlib.closing(client):
            for kind, name in self.things:
                try:
                    _remove(client, kind, name)
                except SandboxError as error:
                    self.problems.append(str(error))


def _remove(client: APIClient, kind: str, name: str) -> None:
    """Retry for a moment: the engine releases a container's volumes a little after the container is gone."""
    if kind == "network":
        leave(client, name)
    for pause in _PAUSES:
        with contextlib.suppress(SandboxError):
            docker_engine.remove(client, kind, name)
            return
        time.sleep(pause)
    docker_engine.remove(client, kind, name)


@dataclass(frozen=True, slots=True)
class Leftover:
    """A container, volume or network of one sandbox. `attempt` and `owner` are empty if the labels lack them."""

    kind: str
    name: str
    mark: str
    attempt: str
    owner: str
    task: str

    @property
    def owner_is_gone(self) -> bool:
        """Did the process that opened it certainly end? False if we cannot know."""
        process = ProcessName.parse(self.owner)
        return process is not None and process.is_gone


@dataclass(frozen=True, slots=True)
class SweptContainers:
    """`kept`: may still be in use. `failed`: one line with the reason for each thing that stays."""

    removed: tuple[Leftover, ...]
    kept: tuple[Leftover, ...]
    failed: tuple[str, ...]


def leftovers(client: APIClient) -> Iterator[Leftover]:
    """Everything with the mark of a sandbox. Programs and images are kept for the next one: they have none."""
    for kind in docker_engine.KINDS:
        for name, labels in docker_engine.list_labelled(client, kind, [docker_engine.LABEL]):
            if labels.get(docker_engine.MARK_LABEL) or labels.get(docker_engine.CARRIER_LABEL):
                yield Leftover(
                    kind,
                    name,
                    labels.get(docker_engine.MARK_LABEL, ""),
                    labels.get(docker_engine.ATTEMPT_LABEL, ""),
                    labels.get(docker_engine.OWNER_LABEL, ""),
                    labels.get("skillglass.task", ""),
                )


def sweep(is_dead: Callable[[Leftover], bool], *, dry_run: bool = False) -> SweptContainers:
    """Remove (or with dry_run only name) what `is_dead`. SandboxError if no engine answers."""
    removed, kept, failed = [], [], []
    client = docker_engine.connect()
    try:
        for found in leftovers(client):
            if not is_dead(found):
                kept.append(found)
                continue
            problems = [] if dry_run else _problems(found)
            failed += problems
            if not problems:
                removed.append(found)
    finally:
        client.close()
    return SweptContainers(tuple(removed), tuple(kept), tuple(failed))


def _problems(found: Leftover) -> list[str]:
    removal = Removal([(found.kind, found.name)])
    if removal.goes_on:
        return [f"the {found.kind} {found.name[:40]} is large: the engine is still removing it"]
    return removal.problems
