"""The places where attempts run. One file per alternative; SANDBOXES finds it by name."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast

from runner.base.errors import SetupError
from runner.base.trees import Tree
from runner.base.types import Files, Task
from runner.sandboxes.needs import NOTHING, Needs

if TYPE_CHECKING:
    from runner.sandboxes.gateway.gateway import Gateway


# Paths inside every sandbox. A local sandbox has them below a private folder, so commands reach them relative to the
# working directory: "../skills", "../tests", "../logs". SOLUTION only exists after the oracle (or the trap) has put
# files into it.
WORKSPACE, SKILLS, TESTS, LOGS, SOLUTION = "workspace", "skills", "tests", "logs", "solution"
AT_TIME_LIMIT = "ended at the time limit"  # used in outputs
NOT_CLEARED = "tests and logs cannot be cleared: {}"
OWN_FOLDER = ".skillglass"  # below the tests: what we need there ourselves


@dataclass(frozen=True, slots=True)
class Completed:
    """The result of a command. A time limit is a result, not an exception: the partial output is kept."""

    exit_code: int | None  # None if it was ended at the time limit
    output: str  # stdout and stderr together, sandbox paths normalised, capped
    timed_out: bool = False
    truncated: bool = False
    duration_seconds: float = 0.0


class Sandbox(Protocol):
    """A private place with the folders above. Raises SandboxError if the place itself fails."""

    handle: dict[str, object]  # JSON values; enough for `end_processes` of the same module to clean up after a crash
    provider_url: str | None  # where the program reaches its provider, until `end_processes`
    gateway: Gateway | None  # the server at that address; it knows what was refused and what went wrong

    @property
    def has_own_user(self) -> bool:
        """Do commands run as a user with fewer rights until `end_processes`, so that write protection works?"""
        ...

    def path(self, folder: str) -> str:
        """Return a folder's name in commands: "../tests" in a local sandbox, "/tests" in a container."""
        ...

    def put(self, folder: str, files: Files) -> None: ...
    def files(self, folder: str) -> Files:
        """Return everything below `folder`. Links are not followed, sizes are capped."""
        ...

    def tree(self, folder: str, below: str = "", names: frozenset[str] | None = None) -> Tree:
        """Like `files`, with what was left out and why. `below`: only this path of the folder; `names`: only these
        paths of it. Both keep unused files from counting towards the caps."""
        ...

    def execute(
        self, command: str, *, timeout_seconds: float, environment: Mapping[str, str] | None = None
    ) -> Completed:
        """Run `command` with a POSIX shell in the workspace."""
        ...

    def end_processes(self) -> None:
        """End everything the agent left running, and its way to the provider. Called before tests are put in.

        Later calls raise SandboxRuined if the agent left nothing that commands can run in.
        """
        ...

    def remove_links(self, first: str) -> list[str]:
        """Run the command `first`, which clears the verifier's folders. Then remove the agent's links that lead into
        tests, logs or solution, to a folder above them, or to what is each process's own (/proc/self/cwd). Return a
        sentence for each. Called after `end_processes`, before tests. SandboxError if `first` fails."""
        ...

    def copy_to(self, other: Sandbox, path: str) -> None:
        """Copy the file or folder at an absolute path to the same path of another sandbox, as plain files."""
        ...

    def resume(self) -> None:
        """Let an agent work again after `end_processes`, on the files as they are: with the rights and the way to the
        provider that it had, and without tests, logs and solution."""
        ...

    def close(self) -> None: ...


class SandboxKind(Protocol):
    """What a sandbox module offers."""

    SKILLS_PATH: str  # the library's folder in the instruction; a container's working directory may be anywhere

    def open_sandbox(self, task: Task, *, name: str, needs: Needs = NOTHING) -> Sandbox: ...
    def engine(self) -> str:
        """Identify what its sandboxes run on, the same for all workers that use it."""
        ...

    def end_processes(self, handle: dict[str, object]) -> None:
        """End what an interrupted attempt left, on the machine where it ran. Elsewhere it does nothing."""
        ...

    def end_named(self, name: str) -> None:
        """Do the same for every sandbox of this machine that was opened under this name."""
        ...


SANDBOXES: dict[str, str] = {
    "docker": "runner.sandboxes.docker.docker_sandbox",
    "local": "runner.sandboxes.local",
    "harbor": "runner.sandboxes.harbor",
}


def sandbox_kind(name: str) -> SandboxKind:
    """Return the module of that name. SetupError names the known ones."""
    if name not in SANDBOXES:
        raise SetupError(f"unknown sandbox {name!r}; known: {', '.join(sorted(SANDBOXES))}")
    return cast("SandboxKind", importlib.import_module(SANDBOXES[name]))
