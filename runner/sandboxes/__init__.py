"""Where an attempt runs. One file per alternative; SANDBOXES finds it by name."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from runner.errors import SetupError
from runner.types import Files, Task

# Paths inside every sandbox. A local sandbox has them below a private folder, so commands reach them relative to
# the working directory: "../skills", "../tests", "../logs".
WORKSPACE, SKILLS, TESTS, LOGS = "workspace", "skills", "tests", "logs"


@dataclass(frozen=True, slots=True)
class Completed:
    """What a command did. A time limit is a result, not an exception: the partial output is kept."""

    exit_code: int | None  # None when it was ended at the time limit
    output: str  # stdout and stderr together, sandbox paths normalised, capped
    timed_out: bool = False
    truncated: bool = False
    duration_seconds: float = 0.0


class Sandbox(Protocol):
    """A private place with the four folders above. Raises SandboxError when the place itself fails."""

    handle: dict[str, object]  # JSON values; enough for `end_processes` of the same module to clean up after a crash

    def put(self, folder: str, files: Files) -> None: ...
    def files(self, folder: str) -> Files:
        """Everything below `folder`; links are not followed, sizes are capped."""
        ...

    def execute(
        self, command: str, *, timeout_seconds: float, environment: Mapping[str, str] | None = None
    ) -> Completed:
        """Runs `command` with a POSIX shell in the workspace."""
        ...

    def end_processes(self) -> None:
        """Ends everything the agent left running. Called before tests are put in."""
        ...

    def close(self) -> None: ...


class SandboxKind(Protocol):
    """What a sandbox module offers."""

    def open_sandbox(self, task: Task, *, name: str) -> Sandbox: ...
    def end_processes(self, handle: dict[str, object]) -> None:
        """Ends what an interrupted attempt left, on the machine where it ran; elsewhere it does nothing."""
        ...


SANDBOXES: dict[str, str] = {"local": "runner.sandboxes.local"}


def sandbox_kind(name: str) -> Any:
    """The module of that name, as a SandboxKind. SetupError names the known ones."""
    if name not in SANDBOXES:
        raise SetupError(f"unknown sandbox {name!r}; known: {', '.join(sorted(SANDBOXES))}")
    return importlib.import_module(SANDBOXES[name])
