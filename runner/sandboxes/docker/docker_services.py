"""The containers that run next to the agent's, for a task with several: started by Compose, with the agent's limits.

Compose gets a file made here, with fields that `runner.suites.compose` accepted one by one, and the attempt's limits,
labels and networks; never the task's own file. All have the attempt's mark, so removing a sandbox removes them too.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from docker import APIClient
from docker.errors import NotFound
from docker.types import Mount

from runner.base.errors import NotOnThisMachine, SandboxError
from runner.base.host_variables import resolve_variables
from runner.base.trees import read_tree
from runner.base.types import File, JsonValue, Machine, Service, Services, Volume
from runner.sandboxes.archives import pack_files
from runner.sandboxes.docker import docker_engine
from runner.sandboxes.docker.docker_builds import (
    COMPOSE,
    NO_COMPOSE,
    docker_settings,
    find_plugin,
    plugin_environment,
)
from runner.sandboxes.docker.docker_engine import PREFIX, engine_errors
from runner.sandboxes.docker.docker_images import Image, image_of_service
from runner.sandboxes.docker.docker_limits import (
    CAPABILITIES,
    LIMITS,
    NO_NAMES,
    DiskWatch,
    Network,
    folders_of,
    make_metadata_networks,
)

SERVICE_LABEL = "com.docker.compose.service"
_LOG: dict[str, JsonValue] = {"driver": "json-file", "options": {"max-size": "1m", "max-file": "1"}}
_LOG_LINES = 200
_PAUSE = 0.3  # between two looks at what starts


class ServiceGroup:
    """The services of one attempt. `things`: their objects on the engine, as (kind, name or id). `shared`: networks
    of all attempts that they join."""

    def __init__(
        self, client: APIClient, services: Services, machine: Machine, image: Image, mark: str, labels: dict[str, str]
    ) -> None:
        self.client, self.services, self.machine, self.image = client, services, machine, image
        self.mark, self.labels = mark, labels
        self.things: list[tuple[str, str]] = []
        self.shared: list[str] = []
        self._watches: list[DiskWatch] = []

    def make_volumes(self) -> list[Mount]:
        """Make all volumes. Return those that the agent's container mounts."""
        everybody = (self.services.main, *self.services.others)
        for name in sorted({volume.name for each in everybody for volume in each.volumes if volume.name}):
            with engine_errors("making a volume of a service"):
                self.client.create_volume(self._name(name), labels=self.labels)
            self.things.append(("volume", self._name(name)))
        return [
            Mount(volume.target, self._name(volume.name), type="volume", no_copy=volume.source is not None)
            for volume in self.services.main.volumes
            if volume.name
        ]

    def make_networks(self) -> Network | None:
        """Make all networks. Return one to create the agent's container on, or None if it is on none of them."""
        own = self.services.main.networks if self.services.others else {}
        used = {network for each in self.services.others for network in each.networks}
        for name in sorted({*own, *used}):
            closed = name in self.services.closed or not self.machine.network
            with engine_errors("making a network of a service"):
                self.client.create_network(
                    self._name(name), driver="bridge", internal=closed, labels=self.labels, check_duplicate=True
                )
            self.things.append(("network", self._name(name)))
        self.shared = make_metadata_networks(self.client) if self.machine.network else []
        return Network(self._name(next(iter(own))), None, False) if own else None

    def start(self, main: str) -> None:
        """Start them, wait until they are healthy, and connect the agent's container.
        SandboxError says which one fails."""
        self._fill(main, self.services.main.volumes)
        if not self.services.others:
            return
        with tempfile.TemporaryDirectory(prefix="skillglass-compose-") as folder, docker_settings() as settings:
            file = Path(folder, "compose.json")
            file.write_text(json.dumps(self._file()))
            self._compose(file, settings, "create")
            containers = self._containers(main)
            for service in self.services.others:
                self._fill(containers[service.name], service.volumes)
            for container in containers.values():
                self._watch(container)
            self._compose(file, settings, "up", "--detach", "--no-recreate")
        self._await(containers)
        self._connect(main)

    def close(self) -> None:
        for watch in self._watches:
            watch.stop()

    def _name(self, name: str) -> str:
        return f"{PREFIX}{self.mark}-{name}"

    # --- Compose --------------------------------------------------------------------------------------------------

    def _file(self) -> dict[str, JsonValue]:
        used = [*(name for kind, name in self.things if kind == "network"), *self.shared]
        volumes = [name for kind, name in self.things if kind == "volume"]
        return {
            "services": {each.name: _escape(self._service(each)) for each in self.services.others},
            "networks": {name: {"external": True, "name": name} for name in used},
            "volumes": {name: {"external": True, "name": name} for name in volumes},
        }

    def _service(self, service: Service) -> dict[str, JsonValue]:
        image = image_of_service(self.client, self.machine, service, self.image)
        processors = docker_engine.processors(self.client.base_url)
        mounts: list[JsonValue] = [
            {
                "type": "volume",
                "source": self._name(volume.name),
                "target": volume.target,
                "volume": {"nocopy": volume.source is not None},
            }
            for volume in service.volumes
            if volume.name
        ]
        settings: dict[str, JsonValue] = dict(service.settings)
        if any(not volume.name for volume in service.volumes):
            settings.pop("read_only", None)  # else nothing could be copied into it
        if "network_mode" not in settings:
            settings["networks"] = {
                **{self._name(name): {"aliases": list(more)} for name, more in service.networks.items()},
                **{name: {} for name in self.shared},
            }
            settings |= (
                {} if self.machine.network else {"dns": list(NO_NAMES["dns"]), "dns_opt": list(NO_NAMES["dns_opt"])}
            )
        return {
            **settings,
            "image": image,
            "pull_policy": "never",
            "environment": dict(resolve_variables(service.environment)),
            "labels": dict(self.labels),
            "volumes": mounts,
            "cap_drop": ["ALL"],
            "cap_add": list(CAPABILITIES),
            "security_opt": ["no-new-privileges"],
            "mem_limit": f"{self.machine.memory_mb}m",
            "memswap_limit": f"{self.machine.memory_mb}m",
            "cpus": min(self.machine.cpus, processors),
            "pids_limit": LIMITS.processes,
            "ipc": "private",
            "logging": dict(_LOG),
        }

    def _compose(self, file: Path, settings: Path, *words: str) -> None:
        program = find_plugin(COMPOSE)
        if program is None:
            raise NotOnThisMachine(f"the task has several services: {NO_COMPOSE}")
        command = [str(program), "--project-name", PREFIX + self.mark, "--file", str(file), "--progress", "quiet"]
        try:
            done = subprocess.run(
                [*command, *words],
                env=plugin_environment(settings),
                capture_output=True,
                text=True,
                errors="replace",
                timeout=self.machine.build_timeout_seconds,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired as error:
            raise SandboxError(f"the services did not start within {error.timeout:g} s", self._logs()) from error
        if done.returncode != 0:
            output = (done.stderr or done.stdout).strip()
            raise SandboxError(f"the services cannot be started: {output[-1_000:]}", f"{output}\n{self._logs()}")

    # --- on the engine --------------------------------------------------------------------------------------------

    def _containers(self, main: str = "") -> dict[str, str]:
        """Service -> container."""
        found = docker_engine.list_labelled(self.client, "container", [f"{docker_engine.MARK_LABEL}={self.mark}"])
        containers = {labels[SERVICE_LABEL]: name for name, labels in found if SERVICE_LABEL in labels and name != main}
        self.things += [("container", name) for name in containers.values() if ("container", name) not in self.things]
        return containers

    def _fill(self, container: str, volumes: tuple[Volume, ...]) -> None:
        """Copy the task's files into a created container. A shared volume is filled by each of its containers."""
        for volume in volumes:
            if volume.source is None:
                continue
            parent, _, name = volume.target.rstrip("/").rpartition("/")
            files = read_tree(volume.source).files if volume.name else {name: _read_file(volume.source)}
            target = volume.target if volume.name else parent or "/"
            with engine_errors(f"putting the task's files into {volume.target}"):
                try:
                    self.client.put_archive(container, target, pack_files(files))
                except NotFound:  # the image has no such folder
                    self.client.put_archive(container, "/", pack_files(files, top=target.strip("/")))

    def _watch(self, container: str) -> None:
        """Limit its disk like the agent's."""
        with engine_errors("asking where a service keeps its files"):
            folders = folders_of(self.client.inspect_container(container))

        def end() -> None:
            with suppress(SandboxError), engine_errors("ending a service"):
                self.client.kill(container)

        watch = DiskWatch(
            container,
            folders,
            limit=self.machine.storage_mb * 2**20,
            files=LIMITS.files,
            free=LIMITS.free_bytes,
            end=end,
            lenient=True,
        )
        watch.start()
        self._watches.append(watch)

    def _await(self, containers: dict[str, str]) -> None:
        """Wait until each one runs and is healthy (if it has a health check), or has ended well."""
        until = time.monotonic() + self.machine.build_timeout_seconds
        waiting = dict(containers)
        while waiting:
            for service, container in list(waiting.items()):
                with engine_errors(f"asking how the service {service} is"):
                    state = self.client.inspect_container(container)["State"]
                status, health = str(state["Status"]), str((state.get("Health") or {}).get("Status", "none"))
                if problem := _find_problem(status, health, int(state["ExitCode"])):
                    raise SandboxError(f"the service {service} {problem}", self._logs())
                if status == "exited" or (status == "running" and health in ("healthy", "none")):
                    del waiting[service]
            if waiting and time.monotonic() > until:
                late = f"is not ready after {self.machine.build_timeout_seconds:g} s"
                raise SandboxError(f"the service {next(iter(waiting))} {late}", self._logs())
            if waiting:
                time.sleep(_PAUSE)

    def _connect(self, main: str) -> None:
        with engine_errors("connecting the agent's container to its services"):
            joined = self.client.inspect_container(main)["NetworkSettings"]["Networks"]
            for name, more in self.services.main.networks.items():
                if self._name(name) in joined:  # made on it, without these names
                    self.client.disconnect_container_from_network(main, self._name(name))
                aliases = [self.services.main.name, "main", *more]
                self.client.connect_container_to_network(main, self._name(name), aliases=list(dict.fromkeys(aliases)))

    def _logs(self) -> str:
        """The end of each service's output."""
        parts = []
        with suppress(SandboxError), engine_errors("reading what the services wrote"):
            for service, container in sorted(self._containers().items()):
                text = self.client.logs(container, tail=_LOG_LINES).decode("utf-8", "replace")
                parts.append(f"--- {service}\n{text}")
        return "\n".join(parts)


def _read_file(path: Path) -> File:
    return File(path.read_bytes(), 0o755 if path.stat().st_mode & 0o100 else 0o644)


def _find_problem(status: str, health: str, exit_code: int) -> str:
    """Why a service will not become ready; "" if it still may."""
    if status in ("exited", "dead"):
        return f"ended with exit code {exit_code}" if exit_code != 0 else ""
    return "is not healthy" if health == "unhealthy" else ""


def _escape(value: JsonValue) -> JsonValue:
    """Escape references: those of the task's file have already been resolved."""
    if isinstance(value, str):
        return value.replace("$", "$$")
    if isinstance(value, dict):
        return {key: _escape(each) for key, each in value.items()}
    return [_escape(each) for each in value] if isinstance(value, list) else value
