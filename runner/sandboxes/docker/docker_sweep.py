"""Finding what sandboxes left on the engine, and removing what belongs to nobody that lives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from runner.sandboxes.docker import docker_engine
from runner.sandboxes.docker.docker_removal import Removal
from runner.sandboxes.process_names import ProcessName


@dataclass(frozen=True, slots=True)
class Leftover:
    """A container, volume or network of one sandbox. `attempt` and `owner` are empty where the labels do not say."""

    kind: str
    name: str
    mark: str
    attempt: str
    owner: str
    task: str

    @property
    def owner_is_gone(self) -> bool:
        """Did the process that opened it certainly end? False where we cannot know."""
        process = ProcessName.parse(self.owner)
        return process is not None and process.is_gone


@dataclass(frozen=True, slots=True)
class SweptContainers:
    """`kept`: what may still be in use. `failed`: one line for each thing that is not gone, and why."""

    removed: tuple[Leftover, ...]
    kept: tuple[Leftover, ...]
    failed: tuple[str, ...]


def leftovers(client: Any) -> Iterator[Leftover]:
    """Everything that carries the mark of a sandbox. Programs and images are kept for the next one: they have none."""
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
    """Removes (or with dry_run only names) what `is_dead`. SandboxError when no engine answers."""
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
