"""Removing what sandboxes had on the engine, without holding a worker: a container may hold a million files.

The engine goes on removing a container when nobody waits any more. What it does not let go of keeps its labels, so the
next sweep finds it.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence
from typing import Any

from runner.base.errors import SandboxError
from runner.sandboxes.docker import docker_engine
from runner.sandboxes.docker.docker_networks import leave

PATIENCE = 10.0  # seconds for which anybody waits
_PAUSES = (0.2, 0.5, 1.0)  # between tries
_LONGEST_REMOVAL = 3_600.0  # seconds of silence of the engine, for the thread alone


def remove_marked(mark: str) -> list[str]:
    """Removes the container, volumes and networks that carry `mark`, and returns their names or ids.

    What is gone already is no error, nor is what is still being removed after PATIENCE. SandboxError when something stays.
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
    """Removes things, each as (kind, name or id), in this order. It has begun to when it is made, in a thread of its own,
    and waits for PATIENCE at most. `problems`: one line for each thing that stays; the others are tried all the same."""

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


def _remove(client: Any, kind: str, name: str) -> None:
    """Tried again for a moment: the engine lets go of a container's volumes a little after the container is gone."""
    if kind == "network":
        leave(client, name)
    for pause in _PAUSES:
        with contextlib.suppress(SandboxError):
            docker_engine.remove(client, kind, name)
            return
        time.sleep(pause)
    docker_engine.remove(client, kind, name)
