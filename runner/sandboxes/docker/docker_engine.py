"""The Docker engine: the connection, the meaning of its failures for the attempt, and the removal of what sandboxes
had on it.

No worker waits long for a removal: a container may hold a million files. The engine continues to remove a container
when nobody waits. What it fails to remove keeps its labels, so the next sweep finds it."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import docker
import requests
import urllib3
from docker import APIClient
from docker.errors import APIError, DockerException, NotFound

from runner.base.errors import SandboxError
from runner.base.text import cut
from runner.sandboxes.processes import ProcessName, this_process

LABEL = "skillglass"  # on everything we create
MARK_LABEL = "skillglass.mark"  # one per attempt: container, network and volumes of a sandbox share it
OWNER_LABEL = "skillglass.owner"  # the process that opened it, as ProcessName spells it
ATTEMPT_LABEL = "skillglass.attempt"
CARRIER_LABEL = "skillglass.carrier"  # a container that only loads a program into its volume
PREFIX = "skillglass-"
_NO_SSH = (
    "DOCKER_HOST: expected unix:// or tcp://, not ssh://. Forward the engine's socket, `ssh -N -L"
    " /run/skillglass/engine.sock:/var/run/docker.sock HOST`, and name the forwarded one (docs/how-to/deploy.md)"
)
_PAUSE = 0.2  # between two questions whether a container is gone
API_SECONDS = 120.0  # the longest silence of the engine on an ordinary request
# Errors of the connection to the engine; the last one comes from streams that are read to their end.
FAILURES = (DockerException, requests.RequestException, urllib3.exceptions.HTTPError, OSError)
_FULL = re.compile(r"no space left on device|disk quota exceeded", re.IGNORECASE)


def _merge_settings(
    client: APIClient, url: str, proxies: object, stream: object, verify: object, cert: object
) -> object:
    """Trust what DOCKER_CERT_PATH says. In requests, REQUESTS_CA_BUNDLE (for the web) would take precedence."""
    chosen = client.verify if verify is None else verify
    return APIClient.merge_environment_settings(client, url, proxies, stream, chosen, cert)


EngineClient = type("EngineClient", (APIClient,), {"merge_environment_settings": _merge_settings})


def connect(timeout: float = API_SECONDS, version: str = "auto") -> APIClient:
    """Return a client of the engine that DOCKER_HOST names, or of this machine's. SandboxError if none answers.

    With a `version` of its interface, the engine is not asked for one, so nothing is known until the first call.
    """
    if os.environ.get("DOCKER_HOST", "").startswith("ssh://"):
        raise SandboxError(_NO_SSH)
    try:
        client = EngineClient(**docker.utils.kwargs_from_env(), version=version, timeout=timeout)
    except (DockerException, requests.RequestException, OSError) as error:
        raise SandboxError(f"no Docker engine answers; start it or set DOCKER_HOST: {first_line(error)}") from error
    return client


def stat_path(client: APIClient, container: str, path: str) -> tuple[int, str]:
    """(mode in Go's notation, target if it is a link) of a path in a container. NotFound without such a path."""
    found = client.head(client._url("/containers/{0}/archive", container), params={"path": path})
    if found.status_code == 404:
        raise NotFound(f"{path}: not there")
    client._raise_for_status(found)
    status = docker.utils.decode_json_header(found.headers["x-docker-container-path-stat"])
    return int(status["mode"]), str(status["linkTarget"])


@contextmanager
def hold_lock(name: str) -> Iterator[None]:
    """Allow one holder of this name at a time, among the processes of this machine."""
    place = Path(tempfile.gettempdir(), f"{PREFIX}{os.getuid()}-{hashlib.sha256(name.encode()).hexdigest()[:16]}.lock")
    descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def engine_errors(doing: str) -> Iterator[None]:
    """Turn errors of the engine or the connection into SandboxError with the name of the operation."""
    try:
        yield
    except APIError as error:
        raise SandboxError(word_engine_error(doing, str(error.explanation or error))) from error
    except FAILURES as error:
        raise SandboxError(word_engine_error(doing, first_line(error))) from error


def word_engine_error(doing: str, message: str) -> str:
    if _FULL.search(message):
        return f"{doing}: the engine's disk is full: {message.strip()[:500]}"
    return f"{doing}: {cut(message.strip(), 2_000)}"


def first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:500]


@cache
def engine_id(base_url: str) -> str:
    """Identify the engine behind this address, so that nobody acts on another one's containers."""
    return _ask("name", "ID")


@cache
def processors(base_url: str) -> int:
    return int(_ask("processors", "NCPU"))


def _ask(what: str, key: str) -> str:
    with closing(connect()) as client, engine_errors(f"asking the engine for its {what}"):
        return str(client.info()[key])


def labels(mark: str, *, task: str = "", attempt: str = "") -> dict[str, str]:
    """Labels that mark an object as ours, and name its owner."""
    return {
        LABEL: "1",
        MARK_LABEL: mark,
        OWNER_LABEL: str(this_process()),
        ATTEMPT_LABEL: attempt,
        "skillglass.task": task[:200],
        "skillglass.host": socket.gethostname(),
    }


KINDS = ("container", "volume", "network")  # in this order: a container uses the others


def list_labelled(client: APIClient, kind: str, wanted: list[str]) -> list[tuple[str, dict[str, str]]]:
    """(name or id, labels) of all of `kind` that carry the wanted labels."""
    filters = {"label": wanted}
    with engine_errors(f"listing each {kind}"):
        if kind == "container":
            return [(row["Id"], row["Labels"] or {}) for row in client.containers(all=True, filters=filters)]
        if kind == "volume":
            return [(row["Name"], row["Labels"] or {}) for row in client.volumes(filters=filters)["Volumes"] or ()]
        return [(row["Id"], row["Labels"] or {}) for row in client.networks(filters=filters)]


def is_gone(client: APIClient, container: str) -> bool:
    """Was it removed, or is it being removed?"""
    with engine_errors("looking for the container"):
        try:
            state = client.inspect_container(container)["State"]
        except NotFound:
            return True
    return bool(state.get("Dead")) or state.get("Status") == "removing"


def remove(client: APIClient, kind: str, name: str) -> None:
    """Make sure that it is gone, whether we or another process removed it. SandboxError if it stays."""
    with engine_errors(f"removing the {kind} {name[:40]}"):
        try:
            if kind == "container":
                client.remove_container(name, force=True, v=True)
            elif kind == "volume":
                client.remove_volume(name, force=True)
            else:
                client.remove_network(name)
        except NotFound:
            return
        except APIError as error:
            if error.status_code != 409 or "already in progress" not in str(error.explanation):
                raise
            _await_removal(client, name)


def _await_removal(client: APIClient, container: str) -> None:
    """Wait until a container that another process removes is gone: until then it holds its volumes and networks."""
    until = time.monotonic() + client.timeout
    while time.monotonic() < until:
        try:
            client.inspect_container(container)
        except NotFound:
            return
        time.sleep(_PAUSE)
    raise SandboxError(f"the container {container[:40]} is still being removed")


PATIENCE = 10.0  # seconds that any caller waits
_PAUSES = (0.2, 0.5, 1.0)  # between tries
_LONGEST_REMOVAL = 3_600.0  # seconds of silence of the engine, for the thread alone


def remove_marked(mark: str) -> list[str]:
    """Remove the container, volumes and networks with the label `mark`, and return their names or ids.

    SandboxError if something stays. Objects already gone, or still being removed after PATIENCE, do not count.
    """
    wanted = [f"{MARK_LABEL}={mark}"]
    with contextlib.closing(connect()) as client:
        found = [(kind, name) for kind in KINDS for name, _ in list_labelled(client, kind, wanted)]
    removal = Removal(found)
    if removal.problems:
        raise SandboxError("; ".join(removal.problems))
    return [name for _, name in found]


class Removal:
    """Removes things, each as (kind, name or id), in this order. Creating it starts a thread and waits for PATIENCE at
    most. `problems`: one line for each thing that stays; the others are tried all the same. `version`: see
    `connect`."""

    def __init__(self, things: Sequence[tuple[str, str]], version: str = "auto") -> None:
        self.things, self.problems, self._version = things, list[str](), version
        self._thread = threading.Thread(target=self._remove_all, name="docker-removal", daemon=True)
        self._thread.start()
        self._thread.join(PATIENCE)

    @property
    def goes_on(self) -> bool:
        return self._thread.is_alive()

    def _remove_all(self) -> None:
        try:
            client = connect(_LONGEST_REMOVAL, self._version)
        except SandboxError as error:
            self.problems.append(str(error))
            return
        with contextlib.closing(client):
            for kind, name in self.things:
                try:
                    _remove_patiently(client, kind, name)
                except SandboxError as error:
                    self.problems.append(str(error))


def leave(client: APIClient, name: str) -> None:
    """Leave a network that we joined, so that it can be removed. Does nothing if we did not."""
    with engine_errors("leaving the sandbox's network"):
        try:
            found = client.inspect_network(name)
        except NotFound:
            return
        for container in found.get("Containers") or ():
            client.disconnect_container_from_network(container, found["Id"], force=True)


def _remove_patiently(client: APIClient, kind: str, name: str) -> None:
    """Retry for a moment: the engine releases a container's volumes a little after the container is gone."""
    if kind == "network":
        leave(client, name)
    for pause in _PAUSES:
        with contextlib.suppress(SandboxError):
            remove(client, kind, name)
            return
        time.sleep(pause)
    remove(client, kind, name)


class Leftover:
    """A container, volume or network of one sandbox. `attempt` and `owner` are empty if the labels lack them."""

    def __init__(self, kind: str, name: str, labels: Mapping[str, str]) -> None:
        self.kind, self.name = kind, name
        self.mark = labels.get(MARK_LABEL, "")
        self.attempt = labels.get(ATTEMPT_LABEL, "")
        self.owner = labels.get(OWNER_LABEL, "")
        self.task = labels.get("skillglass.task", "")

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
    for kind in KINDS:
        for name, labels in list_labelled(client, kind, [LABEL]):
            if labels.get(MARK_LABEL) or labels.get(CARRIER_LABEL):
                yield Leftover(kind, name, labels)


def sweep(is_dead: Callable[[Leftover], bool], *, dry_run: bool = False) -> SweptContainers:
    """Remove (or with dry_run only name) what `is_dead`. SandboxError if no engine answers."""
    removed, kept, failed = [], [], []
    client = connect()
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


def _problems(leftover: Leftover) -> list[str]:
    removal = Removal([(leftover.kind, leftover.name)])
    if removal.goes_on:
        return [f"the {leftover.kind} {leftover.name[:40]} is large: the engine is still removing it"]
    return removal.problems
