"""Sandboxes that Harbor makes, with Docker, Podman, a cluster or a provider of sandboxes.

Its own agents leave it the whole trial (`harbor_jobs`). Every other agent works in one of its environments
(`environment`), which this process drives.
"""

from __future__ import annotations

import socket
from pathlib import Path

from runner.base.types import Task
from runner.sandboxes import Sandbox
from runner.sandboxes.harbor.environment import open_environment
from runner.sandboxes.harbor.harbor_jobs import (
    SKILLS_PATH,
    HarborSandbox,
    environment_kind,
    find_harbor,
    open_job,
    remove_containers,
)
from runner.sandboxes.local import end_named
from runner.sandboxes.local import end_processes as end_folder
from runner.sandboxes.needs import NOTHING, Needs

__all__ = ["SKILLS_PATH", "end_named", "end_processes", "engine", "open_sandbox"]
HERE = ("docker", "podman", "singularity", "apple-container")  # kinds that run on the worker's own machine


def open_sandbox(task: Task, *, name: str, needs: Needs = NOTHING) -> Sandbox:
    """Raises NotOnThisMachine without Harbor; SetupError if it cannot run the task as it is read here."""
    find_harbor()
    return (
        open_job(task, name=name, needs=needs) if needs.whole_trial else open_environment(task, name=name, needs=needs)
    )


def engine() -> str:
    """One for each kind of environment: a provider's quota is the account's, whichever worker asks."""
    kind = environment_kind()
    return f"{kind} of {socket.gethostname()}" if kind in HERE else kind


def end_processes(handle: dict[str, object]) -> None:
    """End what an interrupted attempt left on this machine: Harbor, its containers here, the folder.

    An environment elsewhere is removed by its driver, which notices that its worker has ended.
    """
    if handle.get("kind") == HarborSandbox.kind and (folder := str(handle.get("folder") or "")):
        end_folder({**handle}, HarborSandbox.kind)
        remove_containers(Path(folder))
