"""What limits a container: the engine's own limits, and the shell that is its first process."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from docker import APIClient
from docker.types import HostConfig

from runner.base.types import Machine

# Everything is dropped except what a package manager or build tool needs as root in its container. None of these
# reaches outside: they concern files and processes of the container's own users.
CAPABILITIES = (
    "CHOWN",  # unpacking an archive as root gives files their owners
    "DAC_OVERRIDE",  # root writes into folders of other users
    "FOWNER",  # and changes modes of their files
    "SETUID",  # end the processes they started that way
    "SETGID",
    "KILL",  # and end what they started so
)

# The first process must not end and must reap orphans. A signal from inside cannot kill it; `kill -9 -1` takes its
# sleep, and the loop starts another. Folders are made each time it starts. The user only gets what the process made
# itself, and only if no link leads elsewhere: the image decides who owns its own files.
_INIT = (
    "mkdir -p {roots}; for folder in {users}; do"
    ' [ -e "$folder" ] || {{ mkdir -p "$folder" && [ "$(cd "$folder" && pwd -P)" = "$folder" ] && chown {user} "$folder"; }};'
    " done;"
    ' trap "" HUP INT QUIT TERM; while :; do sleep 86400 & wait; done'
)


@dataclass(frozen=True, slots=True)
class ContainerLimits:
    """What one container may use, in addition to what its task asks for."""

    processes: int = 1_024  # threads count too
    output_characters: int = 1_000_000  # of one command
    command_bytes: int = 100_000  # below the 128 KiB that Linux allows one argument
    files: int = 1_000_000  # in the container's own layer
    free_bytes: int = 2 * 1024**3  # the engine's disk must keep this much


LIMITS = ContainerLimits()


def init_command(roots: tuple[str, ...], users: tuple[str, ...], user: str) -> list[str]:
    """The first process. It makes the folders `roots` and `users` if they are missing, the latter for the image's
    user (empty: root)."""
    name = user.partition(":")[0] or "0"
    told = {"roots": shlex.join(roots), "users": shlex.join(users), "user": shlex.quote(name)}
    return ["/bin/sh", "-c", _INIT.format(**told)]


def host_config(
    client: APIClient, machine: Machine, limits: ContainerLimits, *, processors: int, **more: object
) -> HostConfig:
    """The engine's settings for one container. `more`: network_mode, mounts, dns.

    No log is kept of the first process: any process could fill it. A task that asks for more processors than the engine
    has gets all there are.
    """
    memory = machine.memory_mb * 1024 * 1024
    return client.create_host_config(
        cap_drop=["ALL"],
        cap_add=list(CAPABILITIES),
        security_opt=["no-new-privileges"],
        mem_limit=memory,
        memswap_limit=memory,
        nano_cpus=int(min(machine.cpus, processors) * 1e9),
        pids_limit=limits.processes,
        ipc_mode="private",
        log_config={"Type": "none"},
        **more,
    )
