"""What confines a container: the engine's limits, the shell that is its first process, and its network: none, or one
of its own, with or without a way out."""

from __future__ import annotations

import shlex
import socket
from dataclasses import dataclass

from docker import APIClient
from docker.errors import APIError, NotFound
from docker.types import HostConfig, IPAMConfig, IPAMPool

from runner.base.errors import SetupError
from runner.base.types import Machine
from runner.sandboxes.docker.docker_engine import PREFIX, engine_errors
from runner.sandboxes.gateway.gateway import Gateway
from runner.sandboxes.needs import Needs

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
