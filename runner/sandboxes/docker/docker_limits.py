"""What confines a container: the engine's limits, the shell that is its first process, and its network: none, or one
of its own, with or without a way out. The size of what it writes is watched from outside, as few file systems support
the engine's own limit.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import shutil
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from docker import APIClient
from docker.errors import APIError, NotFound
from docker.types import HostConfig, IPAMConfig, IPAMPool

from runner.base.errors import SandboxError, SetupError
from runner.base.types import Machine
from runner.sandboxes.docker.docker_engine import FAILURES, PREFIX, connect, engine_errors
from runner.sandboxes.gateway.gateway import Gateway
from runner.sandboxes.needs import Needs
from runner.sandboxes.processes import PROC

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

# The first process says when its folders exist. It must not end and must reap orphans. A signal from inside cannot
# kill it; `kill -9 -1` takes its sleep, and the loop starts another. Folders are made each time it starts. The user
# only gets what the process made itself, and only if no link leads elsewhere: the image decides who owns its own
# files.
_INIT = (
    "mkdir -p {roots}; for folder in {users}; do"
    ' [ -e "$folder" ] || {{ mkdir -p "$folder" && [ "$(cd "$folder" && pwd -P)" = "$folder" ] && chown {user} "$folder"; }};'  # noqa: E501
    " done; echo;"
    ' trap "" HUP INT QUIT TERM; while :; do sleep 86400 & wait; done'
)
_SHORTEST_PAUSE = 0.5
_LONGEST_PAUSE = 2.0  # however long the last look took: what is written in between is the overshoot
_PAUSE_WITHOUT_ANSWER = 2.0
_COST = 4  # below the longest pause, measuring takes at most 1/4 of the time
_ROOM_PAUSE = 0.25  # between two checks of the room left on the disk, which cost next to nothing
_SUDDEN = 4  # if 1/4 of the limit is gone from the disk since the last check, look at once
_LONGEST_LOOK = 30.0
_LONGEST_STOP = 5.0  # the engine may be slow to answer an abandoned look
_BLOCK = 512
_ENTRIES_PER_QUESTION = 1_000  # of a look, between two checks whether to continue


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
    values = {"roots": shlex.join(roots), "users": shlex.join(users), "user": shlex.quote(name)}
    return ["/bin/sh", "-c", _INIT.format(**values)]


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


# The engine's own name server would ask the host's. With this one, names are not found and nothing leaks that way.
NO_NAMES = {"dns": ["127.0.0.1"], "dns_opt": ["timeout:1", "attempts:1"]}

# Addresses where clouds hand out credentials of the machine, and the ranges and subnets of our networks for them. Every
# container with a way out joins these networks: what it sends there stays on them, and nobody answers. The engine's
# machine has no address on them, so its own way to its cloud stays open.
METADATA = {
    "metadata": ("169.254.0.0/16", "169.254.0.0/19"),  # .169.254, and .170.2 for Amazon's containers
    "metadata-alibaba": ("100.100.64.0/18", "100.100.64.0/20"),  # .100.200
}


@dataclass(slots=True)
class Network:
    """name: for the container's settings. address: the host's on it, if that is the machine we run on. has_way_out:
    False if only the host is reachable."""

    name: str
    address: str | None
    has_way_out: bool

    @property
    def settings(self) -> dict[str, object]:
        return {"network_mode": self.name, **({} if self.has_way_out else NO_NAMES)}


NO_NETWORK = Network("none", None, False)


def network_for(
    client: APIClient,
    *,
    way_out: bool,
    provider: bool,
    mark: str,
    labels: dict[str, str],
    other: Network | None = None,
) -> Network:
    """No network at all unless the task wants a way out or the agent its provider; then one for this container alone.

    `other`: one without a way out that the container is on anyway.
    """
    if not (way_out or provider):
        return other or NO_NETWORK
    name = PREFIX + mark
    with engine_errors("making a network"):
        client.create_network(name, driver="bridge", internal=not way_out, labels=labels, check_duplicate=True)
        found = client.inspect_network(name)
    address = next((row.get("Gateway") for row in found["IPAM"]["Config"] or () if row.get("Gateway")), None)
    return Network(name, address.partition("/")[0] if address and _is_on_this_machine(found["Id"]) else None, way_out)


def make_metadata_networks(client: APIClient) -> list[str]:
    """The engine's networks for all sandboxes that lead metadata addresses nowhere. Missing ones are made."""
    for name, (subnet, addresses) in METADATA.items():
        pool = IPAMPool(subnet=subnet, iprange=addresses)
        options = {
            "com.docker.network.bridge.inhibit_ipv4": "true",
            "com.docker.network.bridge.enable_icc": "false",  # sandboxes do not see each other there
        }
        with engine_errors(f"closing the way to metadata addresses ({subnet})"):
            if client.networks(names=[f"^{PREFIX}{name}$"]):
                continue
            try:
                ipam = IPAMConfig(pool_configs=[pool])
                client.create_network(PREFIX + name, "bridge", options, ipam, check_duplicate=True, internal=True)
            except APIError:
                if not client.networks(names=[f"^{PREFIX}{name}$"]):  # another sandbox has made it since
                    raise
    return [PREFIX + name for name in METADATA]


def close_metadata(client: APIClient, container: str) -> None:
    """Block the metadata addresses for a container with a way out, before it runs."""
    for name in make_metadata_networks(client):
        with engine_errors("closing the way to metadata addresses"):
            client.connect_container_to_network(container, name)


def _is_on_this_machine(network: str) -> bool:
    """Check for the network's own bridge: another machine's engine gives out the same addresses."""
    return f"br-{network[:12]}" in (name for _, name in socket.if_nameindex())


def open_gateway(client: APIClient, network: Network, needs: Needs) -> tuple[Gateway, str]:
    """Open the agent's way to its provider. Return its address in the sandbox. SetupError if we are unreachable."""
    gateway = Gateway.of_needs(needs, online=network.has_way_out)
    for address in filter(None, (network.address, _own_address(client, network))):
        try:
            return gateway, gateway.start(address)
        except OSError:
            continue  # not an address of this machine, or container
    raise SetupError(
        "the agent's calls to its provider cannot be passed on: this worker is neither on the machine of the Docker "
        "engine nor in a container of it (docs/explanation/sandboxes.md, 'Where the worker runs')"
    )


def _own_address(client: APIClient, network: Network) -> str | None:
    """Join the network and return our own address on it, if we run in a container of this engine ourselves."""
    with engine_errors("joining the sandbox's network"):
        try:
            own = client.inspect_container(socket.gethostname())
        except NotFound:
            return None
        if network.name not in own["NetworkSettings"]["Networks"]:
            client.connect_container_to_network(own["Id"], network.name)
        joined = client.inspect_container(own["Id"])["NetworkSettings"]["Networks"][network.name]
    return str(joined["IPAddress"]) or None


class DiskWatch:
    """Measures in a thread of its own until `stop`. Over the limit it sets `breach` and calls `end` once.

    folders: what to measure on this machine (the container's own layer, its volumes). If one is unreadable, the engine
    is asked, which costs it more and counts only the layer. The room left on their disk has a second thread, so that no
    slow look delays it. lenient: ignore what cannot be measured.
    """

    def __init__(
        self,
        container: str,
        folders: list[Path],
        *,
        limit: int,
        files: int,
        free: int,
        end: Callable[[], None],
        lenient: bool = False,
    ) -> None:
        self.container, self.folders, self.lenient = container, folders, lenient
        self.limit, self.files, self.free, self.end = limit, files, free, end
        self.breach: str | None = None
        self._client: APIClient | None = None
        self._stopped = False
        self._due = threading.Event()  # the next look, or the end
        self._over = threading.Event()  # stopped, or ended
        self._looking, self._ending = threading.Lock(), threading.Lock()
        self._room_at_look = 0
        watching = [self._measure, self._guard_room] if folders else [self._measure]
        self._threads = [threading.Thread(target=each, name=f"disk-{container[:12]}", daemon=True) for each in watching]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop. A look in progress is given up."""
        self._stopped = True
        self._over.set()
        self._due.set()
        for thread in self._threads:
            if thread.is_alive() and thread is not threading.current_thread():
                thread.join(_LONGEST_STOP)

    def look(self) -> None:
        """Measure now: what was written in one burst is seen when its command ends, at the latest."""
        with contextlib.suppress(*FAILURES, SandboxError):
            self._look()

    def _measure(self) -> None:
        pause = _SHORTEST_PAUSE
        while not self._over.is_set():
            self._due.wait(pause)
            self._due.clear()
            began = time.monotonic()
            try:
                self._look()
            except (*FAILURES, SandboxError):
                pause = _PAUSE_WITHOUT_ANSWER  # it may come back; any user of the container notices, too
                continue
            pause = min(_LONGEST_PAUSE, max(_SHORTEST_PAUSE, _COST * (time.monotonic() - began)))
        with self._looking:
            if self._client is not None:
                self._client.close()

    def _look(self) -> None:
        with self._looking:
            if self._over.is_set():
                return
            if self.folders:
                self._room_at_look = self._room()
                found = measure_folders(self.folders, self.limit, self.files, self._over.is_set, self.container)
            else:
                self._client = self._client or connect()
                found = ask_engine(self._client, self.container)
        if not self._stopped and (why := self._too_much(found)):
            self._end(why)

    def _too_much(self, usage: DiskUse) -> str | None:
        """Return why it must end, or None. What cannot be measured counts as too much."""
        if usage.bytes > self.limit:
            return f"ended: it wrote more than {self.limit // 2**20:,} MiB"
        if usage.count > self.files:
            return f"ended: it made more than {self.files:,} files"
        return f"ended: {usage.problem}" if usage.problem and not self.lenient else None

    def _guard_room(self) -> None:
        while not self._over.wait(_ROOM_PAUSE):
            with contextlib.suppress(OSError):
                room = self._room()
                if room < self.free:
                    self._end(f"ended: less than {self.free // 2**20:,} MiB are left on the engine's disk")
                elif room < self._room_at_look - self.limit // _SUDDEN:
                    self._due.set()

    def _room(self) -> int:
        return min(shutil.disk_usage(folder).free for folder in self.folders)

    def _end(self, why: str) -> None:
        with self._ending:
            if self.breach is not None or self._stopped:
                return
            self.breach = why
        self._over.set()
        self._due.set()
        self.end()


@dataclass(slots=True)
class DiskUse:
    """bytes: disk space, so holes do not count. problem: why not everything could be measured."""

    bytes: int = 0
    count: int = 0
    problem: str = ""
    _linked: set[tuple[int, int]] = field(default_factory=set)

    def add(self, entry: os.DirEntry[str] | _Held) -> None:
        self.count += 1
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError as error:  # of this entry alone: a vanishing file must not hide those listed after it
            self.note(error)
            return
        if status.st_nlink != 1 and not stat.S_ISDIR(status.st_mode):
            if (status.st_dev, status.st_ino) in self._linked:
                return
            self._linked.add((status.st_dev, status.st_ino))
        self.bytes += status.st_blocks * _BLOCK

    def note(self, error: OSError) -> None:
        """Raise if the error says nothing about the container."""
        if error.errno == errno.ENAMETOOLONG:
            self.problem = "its folders are nested too deeply to be measured"
        elif error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ESTALE):
            raise error


def measure_folders(
    folders: list[Path],
    stop_at_bytes: int = 2**62,
    stop_at_count: int = 2**62,
    given_up: Callable[[], bool] = lambda: False,
    container: str = "",
) -> DiskUse:
    """Count what is below the folders and what the container holds open. Stops when either limit is passed, it took
    too long or it is given up. Files that vanish in between are not counted."""
    found, until = DiskUse(), time.monotonic() + _LONGEST_LOOK
    held: Iterator[_Held | None] = iter(())
    if container:
        held = _iterate_held_open(container, {folder.stat().st_dev for folder in folders})
    everything: Iterator[os.DirEntry[str] | _Held | None] = chain(_entries(folders, found), held)
    for number, entry in enumerate(everything):
        if entry is not None:
            found.add(entry)
        if found.bytes > stop_at_bytes or found.count > stop_at_count:
            break
        if number % _ENTRIES_PER_QUESTION:
            continue
        if given_up():
            break
        if time.monotonic() > until:
            found.problem = f"its files take more than {_LONGEST_LOOK:.0f} s to be measured"
            break
    return found


def _entries(folders: list[Path], usage: DiskUse) -> Iterator[os.DirEntry[str]]:
    pending = [str(folder) for folder in folders]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                    yield entry
        except OSError as error:
            usage.note(error)


@dataclass(frozen=True, slots=True)
class _Held:
    status: os.stat_result

    def stat(self, *, follow_symlinks: bool) -> os.stat_result:
        return self.status


def _iterate_held_open(container: str, devices: set[int]) -> Iterator[_Held | None]:
    """Files of the container that were removed and take space until the last process closes them: no folder shows them.
    None if the engine's processes are not visible from here."""
    for process in PROC.iterdir():
        with contextlib.suppress(OSError):
            if process.name.isdigit() and container.encode() in (process / "cgroup").read_bytes():
                yield from _iterate_removed_files(process, {*devices, (process / "root").stat().st_dev})


def _iterate_removed_files(process: Path, devices: set[int]) -> Iterator[_Held | None]:
    """Only files on these devices: others are in memory. Each thread may have files of its own. None is yielded for
    any other open file: a thousand threads that share a million of them must not hold up the look unnoticed."""
    for place in (process / "map_files", *(process / "task").glob("*/fd")):
        with contextlib.suppress(OSError), os.scandir(place) as entries:
            for entry in entries:
                yield _read_removed_file(entry, devices)


def _read_removed_file(entry: os.DirEntry[str], devices: set[int]) -> _Held | None:
    try:
        status = entry.stat()
    except OSError:
        return None
    is_removed = status.st_nlink == 0 and stat.S_ISREG(status.st_mode) and status.st_dev in devices
    return _Held(status) if is_removed else None


def ask_engine(client: APIClient, container: str) -> DiskUse:
    """What the container wrote, according to the engine."""
    rows = client.containers(all=True, size=True, filters={"id": container})
    return DiskUse(int(rows[0].get("SizeRw") or 0) if rows else 0)


def engine_folder(client: APIClient) -> Path | None:
    """Where the engine keeps its images, if readable from here. That folder may be another engine's: the file with the
    engine's name in it decides, or the machine's name if the engine is too old to write one."""
    with engine_errors("asking the engine for its folder"):
        info = client.info()
    folder = Path(str(info.get("DockerRootDir") or "/nowhere"))
    if not os.access(folder, os.R_OK | os.X_OK):
        return None
    try:
        is_its_own = (folder / "engine-id").read_text().strip() == info.get("ID")
    except OSError:
        is_its_own = info.get("Name") == socket.gethostname()
    return folder if is_its_own else None


def folders_of(container: Mapping[str, Any]) -> list[Path]:
    """Where the engine keeps what the container writes: its layer, its writable volumes, and the folder of the files
    that the engine mounts into each container (/etc/hosts), which root in it can fill.

    `container` is the engine's answer about it. Empty if one of them cannot be read from here, or if the engine
    names no folder of the layer (containerd's image store, vfs): a part must not be measured as the whole.
    """
    layer = ((container.get("GraphDriver") or {}).get("Data") or {}).get("UpperDir")
    volumes = [row["Source"] for row in container.get("Mounts") or () if row.get("RW")]
    own = [Path(container["HostsPath"]).parent] if container.get("HostsPath") else []
    found = [*map(Path, dict.fromkeys(filter(None, (layer, *volumes)))), *own]
    return found if layer and all(os.access(folder, os.R_OK | os.X_OK) for folder in found) else []
